"""Device: computes what the server assigns, sends its update when granted, and is silent otherwise."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slotwise.base.user_code import describe_error
from slotwise.live.device.self_report import SelfReport
from slotwise.live.parts import SMALLEST_PART, UNLIMITED, Place, Transfers, checksum, frames, received_of
from slotwise.live.protocol import (
    FIRST_WITH_VERSIONS,
    BadFrame,
    Frame,
    FromDevice,
    Label,
    Topics,
    Versions,
    Work,
    decode,
    digest,
    encode,
    own_versions,
)
from slotwise.live.transport import BeaconReceiver, Channel, Connected, Message

if TYPE_CHECKING:
    from slotwise.aggregation import Vector
    from slotwise.learning.checked_task import CheckedTask
    from slotwise.learning.quantisation import Packing
    from slotwise.learning.task import Task, TrainingStart
    from slotwise.live.device.slot_sender import SlotSender
    from slotwise.live.slots.frames import AheadGrant

SERVER = 0  # the number of the sender of models
TaskMaker = Callable[[Mapping[str, str]], Awaitable["Task"]]  # from the fields of the announcement


class NotUnderstood(Exception):
    """A run that this device cannot take part in, as its announcement or its model shows; it waits."""


class Device:
    """Device ``number``: one client of the channel, from the announcement of a run to its end.

    It counts finished ``trainings`` and ``ignored`` messages, and knows whether the server has excluded
    it for now.
    """

    def __init__(
        self,
        number: int,
        topics: Topics,
        channel: Channel,
        make_task: TaskMaker,
        executor: Executor,
        boot: str = "",
        notice: Callable[[str], None] = lambda _: None,
        certificate: Path | None = None,
    ) -> None:
        self.number, self._topics, self._channel = number, topics, channel
        self._make_task, self._executor = make_task, executor
        self._boot, self._notice = boot, notice
        self._versions = own_versions()
        self._self = SelfReport(self._versions.build, certificate)
        self.trainings, self.ignored, self.excluded = 0, 0, False
        self._run_id = ""
        self._task: CheckedTask | None = None
        self._size = 0
        self._packing: Packing | None = None
        self._work: Work | None = None
        self._model: Vector | None = None
        self._update: Vector | bytes | None = None  # as it is sent
        self._loss: float | None = None  # that is sent with it
        self._tells_loss = False  # whether the server wants losses
        self._seconds = 0.0  # that its training took
        self._grant: Frame | None = None
        self._slots: SlotSender | None = None  # of a run in which slots are time
        self._in_slot: asyncio.Task[None] | None = None  # what is sent in them
        self._part_bytes = UNLIMITED
        self._downloads = Transfers()
        self._training: asyncio.Task[None] | None = None
        # A training is a task of its own, so its error reaches `run` only through this future.
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @staticmethod
    def last_will(topics: Topics, number: int, boot: str) -> Message:
        """Return the last will of a device; it may be published before the device knows of a run."""
        return Message(topics.from_device(number, "gone"), encode(Label("", number), boot=boot))

    async def run(self) -> None:
        """Take part until the run is over; raise the error of a training that failed."""
        topics = self._topics
        await self._channel.subscribe(
            topics.to_device(self.number, "+"),
            topics.as_receiver(self.number),
            topics.to_all("end"),
            topics.to_all("call"),
        )
        listening = asyncio.create_task(self._listen())
        try:
            await asyncio.wait([listening, self._failure], return_when=asyncio.FIRST_COMPLETED)
            # The failure first: if both have ended, it is the cause.
            for ended in (self._failure, listening):
                if ended.done():
                    ended.result()
        except Exception as error:
            self._self.note_error(describe_error(error))
            if self._channel.connected:
                await self._report()
            raise
        finally:
            listening.cancel()
            self._drop_work()
            self._leave_slots()

    async def _listen(self) -> None:
        """Handle messages until the run is over."""
        async for arrival in self._channel.arrivals():
            if isinstance(arrival, Connected):
                await self._take_connection(arrival)
                continue
            if not arrival.payload:
                continue  # a retained message was removed
            kind = self._topics.kind(arrival.topic)
            try:
                frame = decode(arrival.payload)
            except BadFrame:
                self.ignored += 1
                continue
            # A call may begin another run, so it is read before the run is compared.
            if kind == "call":
                await self._take_call(frame)
            elif kind == "end" and self._ends(frame, retained=arrival.retained):
                return
            elif frame.label.run != self._run_id:
                self.ignored += 1
            elif kind == "out":
                self._take_exclusion(frame)
            elif kind == "incompatible":
                await self._take_incompatible(Versions.in_fields(frame.fields))
            else:
                # Orders are for devices that take part, so the exclusion is over.
                self.excluded = False
                try:
                    await self._take_order(kind, frame)
                except NotUnderstood as error:
                    # The server need not wait for this device: it hears of it as of a lost connection.
                    will = self.last_will(self._topics, self.number, self._boot)
                    await self._channel.publish(will.topic, will.payload)
                    await self._decline_run(str(error))

    async def _take_connection(self, arrival: Connected) -> None:
        """Say what is here: messages may have been lost while there was no connection.

        The server answers what to do. Before a device knows of a run, the retained announcement does.
        """
        if arrival.number > 1:
            self._self.note_error("connection lost")
        if self._task is not None:
            await self._send_here(broken=True)

    def _ends(self, frame: Frame, *, retained: bool) -> bool:
        """Return whether the end of a run is that of this device; not if another will follow.

        A channel has one run at a time, and its announcement removes the end of the one before. So the end
        of another run that the broker has kept means that this device has missed that run and its own end.
        """
        over = frame.label.run == self._run_id or (retained and self._task is not None)
        if not over or "more" not in frame.fields:
            return over
        self._drop_work()
        # The run is remembered: it may still be said that no other follows after all.
        self._run_id, self._task, self.excluded = frame.label.run, None, False
        self._notice(f"device {self.number}: the run is over; waiting for the next")
        return False

    def _take_exclusion(self, frame: Frame) -> None:
        """Drop the work and wait: the server calls when the device may return."""
        self._drop_work()
        if not self.excluded:
            self._self.note_error("excluded by the server")
            seconds = frame.fields.get("seconds", "")
            about = f" for {seconds} s" if re.fullmatch("[0-9]{1,10}", seconds) else ""
            self._notice(f"device {self.number}: excluded by the server{about}; waiting")
        self.excluded = True

    async def _take_call(self, frame: Frame) -> None:
        """Answer a call; for a new run, make its task first, which only a call to all devices describes."""
        if frame.label.run != self._run_id:
            if "devices" not in frame.fields:
                return
            self._drop_work()
            self._leave_slots()
            self._run_id, self._task = frame.label.run, None
            self._self.is_wanted, self._tells_loss = "status" in frame.fields, "losses" in frame.fields
            self._downloads.drop(SERVER)
            devices = frame.fields["devices"]
            if re.fullmatch("[0-9]{1,10}", devices) and self.number > int(devices):
                # The run is remembered without a task, so that the same announcement is not reported again.
                self._notice(f"device {self.number}: the run has devices 1 to {devices}; waiting for another")
                return
            server = Versions.in_fields(frame.fields)
            if not self._versions.understands(server):
                if server.protocol >= FIRST_WITH_VERSIONS:  # it compares them, and its operator can see it
                    await self._send_here()
                await self._decline_run(f"the server speaks {server}")
                return
            try:
                task = await self._make_task(frame.fields)
                self._enter_slots(frame.fields.get("slots"))
            except NotUnderstood as error:
                await self._decline_run(f"the server speaks {server}, and {error}")
                return
            # Imported here: not before a run needs them.
            from slotwise.learning.checked_task import CheckedTask  # noqa: PLC0415
            from slotwise.learning.quantisation import packing_of  # noqa: PLC0415

            self._task, self._packing = CheckedTask.of(task), packing_of(task)
            self._size = self._task.size
        announced = frame.fields.get("part_bytes", "")
        if re.fullmatch("[0-9]{1,9}", announced):
            # The server rejects smaller parts, whatever it has announced.
            self._part_bytes = max(SMALLEST_PART, int(announced))
        if self._task is not None:
            await self._send_here()

    async def _take_incompatible(self, server: Versions) -> None:
        """Take no part, unless it answers another client that used the number of this device."""
        if self._versions.understands(server):
            self.ignored += 1
            await self._send_here()
        else:
            await self._decline_run(f"the server speaks {server}")

    async def _decline_run(self, reason: str) -> None:
        """Take no part in this run; a service that ended instead would be restarted again and again.

        The run may be announced again by another version of the server.
        """
        self._drop_work()
        self._run_id, self._task = "", None
        about = f"{reason}; this device speaks {self._versions}"
        self._notice(f"device {self.number}: {about}; waiting for another run")
        self._self.note_error(reason)
        await self._report()

    async def _take_order(self, kind: str, frame: Frame) -> None:
        if kind == "model":
            for receiver in filter(None, frame.fields.get("receivers", "").split(",")):
                device, _, training = receiver.partition(":")
                if device == str(self.number) and re.fullmatch("[0-9]{1,10}", training):
                    await self._begin(Work(frame.label.version, int(training)), frame)
                    return
        elif kind == "work":
            # Without a model the message only confirms what is here. With one, the model may differ from the
            # one here though version and training agree: a server that resumes from a checkpoint computes
            # models again.
            if frame.work != self._work or frame.vector is not None or frame.packed is not None:
                await self._begin(frame.work, frame)
            elif self._update is not None:
                await self._send_ready(frame.work)
        elif kind == "rest" and frame.fields.get("holds", "") == self._holds:
            self._drop_work()  # unless there is other work by now than what the server answers
        elif kind == "grant" and self._work != frame.work:
            await self._send_here()  # that work is not here: the server will answer what to do
        elif kind == "grant":
            # If the training is still running, `_train` sends the update when it ends.
            self._grant = frame
            if self._update is not None:
                await self._send_update(self._update, frame)

    async def _begin(self, work: Work, frame: Frame) -> None:
        """Begin a training on the model in a message, unless it is under way already."""
        from slotwise.learning.task import TrainingStart  # noqa: PLC0415

        if self._task is None:
            self.ignored += 1
            return
        if frame.packed is not None:
            whole = await self._assembled(work, frame)
            if whole is None:
                return
            frame = whole
        model = frame.vector
        if model is None:
            self._drop_work()
            await self._send_here()  # holding nothing, so that the answer has the model
            return
        self._check_size(4 * len(model))
        # A broadcast and the answer to ``here`` may both bring the model. The training goes on; ``ready`` is
        # repeated, because it is not acknowledged and may have been lost.
        if work == self._work and self._model is not None and np.array_equal(model, self._model):
            if self._update is not None:
                await self._send_ready(work)
            return
        self._drop_work()
        self._downloads.drop(SERVER)
        self._work, self._model = work, model
        slot = frame.fields.get("slot", "0")
        known = int(slot) if re.fullmatch("[0-9]{1,18}", slot) else 0
        start = TrainingStart(self.number, work.training, work.version, known)
        self._training = asyncio.create_task(self._train(self._task, work, model, start))
        self._training.add_done_callback(self._note_failure)

    async def _assembled(self, work: Work, frame: Frame) -> Frame | None:
        """Add a part of a model; return the message with the whole model after the last part."""
        place, piece = Place.in_fields(frame.fields), frame.packed or b""
        if place is None:
            self.ignored += 1
            return None
        self._check_size(place.total)
        # This model is here already. Only its last part counts, so that ``ready`` is repeated once.
        if work == self._work and self._model is not None and digest(self._model) == place.checksum:
            return frame._replace(vector=self._model) if place.offset + len(piece) == place.total else None
        numbers = self._downloads.add(SERVER, work, place, piece)
        if isinstance(numbers, bytes):
            return frame._replace(vector=np.frombuffer(numbers, "<f4").astype(np.float32))
        if numbers != "more":
            await self._send_here(broken=True)
        return None

    def _check_size(self, size: int) -> None:
        """Raise NotUnderstood if a model of ``size`` bytes does not fit the task."""
        if size != 4 * self._size:
            raise NotUnderstood(
                f"the server's model has {size / 4:.12g} numbers, the task of device {self.number} has "
                f"{self._size}: server and devices must be given the same task"
            )

    async def _train(self, task: CheckedTask, work: Work, model: Vector, start: TrainingStart) -> None:
        loop, began = asyncio.get_running_loop(), time.monotonic()
        update, loss = await loop.run_in_executor(self._executor, self._compute, task, model, start)
        if self._work != work:
            return  # the server has assigned something else
        self.trainings += 1
        self._update, self._loss, self._seconds = update, loss, time.monotonic() - began
        # Also if the grant is here already: the server measures the training by ``ready``.
        await self._send_ready(work)
        if self._grant is not None:
            await self._send_update(self._update, self._grant)

    def _compute(
        self, task: CheckedTask, model: Vector, start: TrainingStart
    ) -> tuple[Vector | bytes, float | None]:
        """Return the update as it is sent, and the loss if the server wants it."""
        from slotwise.learning.task import update_of  # noqa: PLC0415  (a device that waits needs no task)

        result = task.local_update(model, start)
        loss = task.reported_loss(result, model, self.number) if self._tells_loss else None
        update = update_of(result)
        return update if self._packing is None else self._packing.pack(update), loss

    @property
    def _holds(self) -> str:
        """The work this device has, with a checksum of its model."""
        return "" if self._model is None else f"{self._work}:{digest(self._model)}"

    async def _send_here(self, *, broken: bool = False) -> None:
        """Say that this device is here and what it has; ``broken``: a transfer does not go on by itself."""
        fields = {"boot": self._boot, "holds": self._holds, **self._versions.fields()}
        if partial := self._downloads.partial(SERVER):
            fields |= {"partial": partial, **({"broken": "1"} if broken else {})}
        await self._publish("here", encode(Label(self._run_id, self.number), **fields))
        await self._report()

    async def _report(self) -> None:
        """Tell the server about this device, if it is time to."""
        if (report := self._self.due(self.trainings)) is not None:
            await self._publish("status", encode(Label(self._run_id, self.number), **report.fields()))

    async def _send_ready(self, work: Work) -> None:
        label = Label(self._run_id, self.number, work.version, *work)
        await self._publish("ready", encode(label, seconds=f"{self._seconds:.6f}"))
        await self._report()

    def _enter_slots(self, text: str | None) -> None:
        """Listen to beacons, if the run has any."""
        if text is None:
            return
        from slotwise.live.device.slot_sender import SlotSender  # noqa: PLC0415  (few runs need it)
        from slotwise.live.slots.slot_layout import SlotTiming  # noqa: PLC0415

        timing = SlotTiming.in_field(text)
        if timing is None or not isinstance(self._channel, BeaconReceiver):
            raise NotUnderstood("it grants slots ahead of time, which this connection does not support")
        self._slots = SlotSender(self.number, timing, self._channel, self._use_slot)

    def _leave_slots(self) -> None:
        if self._slots is not None:
            self._slots.close()
            self._slots = None
        if self._in_slot is not None:
            self._in_slot.cancel()

    def _use_slot(self, grant: AheadGrant) -> None:
        """Send the update in slots of this device, which is silent if it does not have it."""
        ready = self._update is not None and self._work == Work(grant.version, grant.training)
        if ready and self._channel.connected:
            self._in_slot = asyncio.create_task(self._send_in_slot(self._update, grant))
            self._in_slot.add_done_callback(self._note_failure)

    async def _send_in_slot(self, update: Vector | bytes | None, grant: AheadGrant) -> None:
        label = Label(self._run_id, self.number, 0, grant.version, grant.training)
        fields = {"slot": str(grant.first)}
        if self._loss is not None:
            fields["loss"] = repr(self._loss)
        # Whole: a lost update is sent again from its beginning.
        await self._publish("update", encode(label, update, **fields))

    async def _send_update(self, update: Vector | bytes, grant: Frame) -> None:
        # Before the first await: `_train` and `_take_order` run in different tasks, and one of them sends.
        self._grant = None
        first = 0
        if partial := grant.fields.get("partial"):  # parts that have come, of this update or of another
            first = received_of(partial, grant.work, checksum(update))
        fields = {"grant": grant.fields.get("grant", "")}
        if self._loss is not None:
            fields["loss"] = repr(self._loss)
        for frame in frames(grant.label, update, fields, self._part_bytes, first):
            await self._publish("update", frame)

    async def _publish(self, kind: FromDevice, frame: bytes) -> None:
        topic = self._topics.from_device(self.number, kind)
        # Only ``here`` is acknowledged, because the server asks again for everything else.
        await self._channel.publish(topic, frame, acknowledged=kind == "here")

    def _drop_work(self) -> None:
        """Forget the work; the result of a training under way is discarded."""
        self._work = self._model = self._update = self._grant = None
        if self._training is not None:
            # This ends only the wait: the thread computes to its end, and nobody reads its result.
            self._training.cancel()
            self._training = None

    def _note_failure(self, training: asyncio.Task[None]) -> None:
        """End the device if its training failed; if it were only silent, others would wait for it."""
        error = None if training.cancelled() else training.exception()
        if error is not None and not self._failure.done():
            self._failure.set_exception(error)
