"""Device that speaks protocol 1, as released at commit 9f12aed; never changed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor

import numpy as np
from messages_1 import BadFrame, Frame, FromDevice, Label, Topics, Work, decode, digest, encode

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.learning import Task, TrainingStart
from slotwise.learning.quantisation import Packing, packing_of
from slotwise.live.transport import Channel, Connected, Message

TaskMaker = Callable[[Mapping[str, str]], Awaitable[Task]]


class Device:
    """Device ``number``: one client of the channel, from the announcement of a run to its end.

    It counts finished ``trainings`` and ``ignored`` messages, and knows whether the server has excluded it.
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
    ) -> None:
        self.number, self._topics, self._channel = number, topics, channel
        self._make_task, self._executor = make_task, executor
        self._boot, self._notice = boot, notice
        self.trainings, self.ignored, self.excluded = 0, 0, False
        self._run_id = ""
        self._task: Task | None = None
        self._size = 0
        self._packing: Packing | None = None
        self._work: Work | None = None
        self._model: Vector | None = None
        self._update: Vector | bytes | None = None  # as it is sent
        self._grant: Frame | None = None
        self._training: asyncio.Task[None] | None = None
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @staticmethod
    def last_will(topics: Topics, number: int, boot: str) -> Message:
        """Return the last will of a device; it may be published before the device knows of a run."""
        return Message(topics.from_device(number, "gone"), encode(Label("", number), boot=boot))

    async def run(self) -> None:
        """Take part until the run is over; raise a UserError if its model does not fit this device's task."""
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
            for ended in (self._failure, listening):
                if ended.done():
                    ended.result()
        finally:
            listening.cancel()
            self._drop_work()

    async def _listen(self) -> None:
        """Handle messages until the run is over."""
        async for arrival in self._channel.arrivals():
            if isinstance(arrival, Connected):
                if self._task is not None:
                    await self._send_here()
                continue
            if not arrival.payload:
                continue  # a retained message was removed
            kind = self._topics.kind(arrival.topic)
            try:
                frame = decode(arrival.payload)
            except BadFrame:
                self.ignored += 1
                continue
            if kind == "call":
                await self._take_call(frame)
            elif frame.label.run != self._run_id:
                self.ignored += 1
            elif kind in ("end", "out"):
                self.excluded = kind == "out"
                return
            else:
                await self._take_order(kind, frame)

    async def _take_call(self, frame: Frame) -> None:
        """Answer a call; for a new run, make its task first, which only a call to all devices describes."""
        if frame.label.run != self._run_id:
            if "devices" not in frame.fields:
                return
            self._drop_work()
            self._run_id, self._task = frame.label.run, None
            devices = frame.fields["devices"]
            if re.fullmatch("[0-9]{1,10}", devices) and self.number > int(devices):
                about = f"the run only has devices 1 to {devices}"
                self._notice(f"device {self.number}: {about}; waiting for another")
                return
            self._task = await self._make_task(frame.fields)
            self._size, self._packing = len(self._task.initial_model()), packing_of(self._task)
        if self._task is not None:
            await self._send_here()

    async def _take_order(self, kind: str, frame: Frame) -> None:
        if kind == "model":
            for receiver in filter(None, frame.fields.get("receivers", "").split(",")):
                device, _, training = receiver.partition(":")
                if device == str(self.number) and re.fullmatch("[0-9]{1,10}", training):
                    await self._begin(Work(frame.label.version, int(training)), frame)
                    return
        elif kind == "work":
            if frame.work != self._work or frame.vector is not None:
                await self._begin(frame.work, frame)
            elif self._update is not None:
                await self._send_ready(frame.work)
        elif kind == "rest" and frame.fields.get("holds", "") == self._holds:
            self._drop_work()  # unless there is other work by now than what the server answers
        elif kind == "grant" and self._work != frame.work:
            await self._send_here()  # that work is not here: the server will answer what to do
        elif kind == "grant":
            self._grant = frame
            if self._update is not None:
                await self._send_update(self._update, frame)

    async def _begin(self, work: Work, frame: Frame) -> None:
        """Begin a training on the model in a message, unless it is under way already."""
        model = frame.vector
        if self._task is None:
            self.ignored += 1
            return
        if model is None:
            self._drop_work()
            await self._send_here()  # holding nothing, so that the answer has the model
            return
        if len(model) != self._size:
            raise UserError(
                f"the server's model has {len(model)} numbers, the task of device {self.number} has "
                f"{self._size}: server and devices must be given the same task"
            )
        if work == self._work and self._model is not None and np.array_equal(model, self._model):
            if self._update is not None:
                await self._send_ready(work)
            return
        self._drop_work()
        self._work, self._model = work, model
        slot = frame.fields.get("slot", "0")
        known = int(slot) if re.fullmatch("[0-9]{1,18}", slot) else 0
        start = TrainingStart(self.number, work.training, work.version, known)
        self._training = asyncio.create_task(self._train(self._task, work, model, start))
        self._training.add_done_callback(self._note_failure)

    async def _train(self, task: Task, work: Work, model: Vector, start: TrainingStart) -> None:
        loop = asyncio.get_running_loop()
        update = await loop.run_in_executor(self._executor, self._compute, task, model, start)
        if self._work != work:
            return  # the server has assigned something else
        self.trainings += 1
        self._update = update
        await self._send_ready(work)
        if self._grant is not None:
            await self._send_update(self._update, self._grant)

    def _compute(self, task: Task, model: Vector, start: TrainingStart) -> Vector | bytes:
        """Return the update as it is sent."""
        update = np.asarray(task.local_update(model, start), dtype=np.float32)
        return update if self._packing is None else self._packing.pack(update)

    @property
    def _holds(self) -> str:
        """The work this device has, with a checksum of its model."""
        return "" if self._model is None else f"{self._work}:{digest(self._model)}"

    async def _send_here(self) -> None:
        frame = encode(Label(self._run_id, self.number), boot=self._boot, holds=self._holds)
        await self._publish("here", frame)

    async def _send_ready(self, work: Work) -> None:
        label = Label(self._run_id, self.number, work.version, *work)
        await self._publish("ready", encode(label))

    async def _send_update(self, update: Vector | bytes, grant: Frame) -> None:
        self._grant = None
        await self._publish("update", encode(grant.label, update, grant=grant.fields.get("grant", "")))

    async def _publish(self, kind: FromDevice, frame: bytes) -> None:
        topic = self._topics.from_device(self.number, kind)
        # Only ``here`` is acknowledged, because the server asks again for everything else.
        await self._channel.publish(topic, frame, acknowledged=kind == "here")

    def _drop_work(self) -> None:
        """Forget the work; the result of a training under way is discarded."""
        self._work = self._model = self._update = self._grant = None
        if self._training is not None:
            self._training.cancel()
            self._training = None

    def _note_failure(self, training: asyncio.Task[None]) -> None:
        """End the device if its training failed; if it were only silent, others would wait for it."""
        error = None if training.cancelled() else training.exception()
        if error is not None and not self._failure.done():
            self._failure.set_exception(error)
