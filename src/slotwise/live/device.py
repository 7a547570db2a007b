"""The device's driver: train what the server assigns, send when granted, and otherwise keep silent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np

from slotwise.aggregation import Vector
from slotwise.errors import UserError
from slotwise.learning import Task
from slotwise.learning.quantisation import Packing, packing_of
from slotwise.live.channel import Arrival, Channel, Connected, Message
from slotwise.live.topics import FromDevice, Topics
from slotwise.live.wire import BadFrame, Frame, Label, decode, digest, encode

TaskMaker = Callable[[Mapping[str, str]], Awaitable[Task]]


class Work(NamedTuple):
    """Training number ``training``, on model ``version``."""

    version: int
    training: int

    def __str__(self) -> str:
        return f"{self.version}:{self.training}"


class Device:
    """Device ``number``: one client of the channel, from the first call to the end of the run.

    Attributes:
        trainings: how many it has finished.
        ignored: messages that were not for it, or no frames.
        shut_out: whether the server wants nothing of it any more.
    """

    def __init__(
        self,
        number: int,
        topics: Topics,
        channel: Channel,
        make_task: TaskMaker,
        executor: Executor,
        boot: str = "",
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.number, self._topics, self._channel = number, topics, channel
        self._make_task, self._executor = make_task, executor
        self._boot, self._tell = boot, tell
        self.trainings, self.ignored, self.shut_out = 0, 0, False
        self.run_id = ""
        self._task: Task | None = None
        self._size = 0
        self._packing: Packing | None = None
        self._work: Work | None = None
        self._model: Vector | None = None
        self._update: Vector | bytes | None = None  # packed, if that is how it travels
        self._grant: Frame | None = None
        self._training: asyncio.Task[None] | None = None
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @staticmethod
    def farewell(topics: Topics, number: int, boot: str) -> Message:
        """The last will: what the broker says for a device that vanishes, which may know of no run yet."""
        return Message(topics.from_device(number, "gone"), encode(Label("", number), boot=boot))

    async def run(self) -> None:
        """Take part until the server says that it is over.

        Raises:
            UserError: the server's model is not one of this device's task.
        """
        topics = self._topics
        await self._channel.subscribe(
            topics.to_device(self.number, "+"),
            topics.as_receiver(self.number),
            topics.to_all("end"),
            topics.to_all("call"),
        )
        listening = asyncio.create_task(self._listen_to_all())
        try:
            await asyncio.wait([listening, self._failure], return_when=asyncio.FIRST_COMPLETED)
            for ended in (self._failure, listening):
                if ended.done():
                    ended.result()
        finally:
            listening.cancel()
            self._forget()

    async def _listen_to_all(self) -> None:
        async for arrival in self._channel.arrivals():
            if await self._take(arrival):
                return

    async def _take(self, arrival: Arrival) -> bool:
        """Do what was said; True if it is over."""
        if isinstance(arrival, Connected):
            if self._task is not None:
                await self._say_here()
            return False
        kind = self._topics.kind(arrival.topic)
        if not arrival.payload:
            return False  # a call that was taken back
        try:
            frame = decode(arrival.payload)
        except BadFrame:
            self.ignored += 1
            return False
        if kind == "call":
            await self._answer_call(frame)
        elif frame.label.run != self.run_id:
            self.ignored += 1
        elif kind in ("end", "out"):
            self.shut_out = kind == "out"
            return True
        else:
            await self._obey(kind, frame)
        return False

    async def _answer_call(self, frame: Frame) -> None:
        """Say here; of a new run, learn first what it is about. A call to this device alone tells nothing."""
        if frame.label.run != self.run_id:
            if "devices" not in frame.words:
                return
            self._forget()
            self.run_id, self._task = frame.label.run, None
            if self._is_surplus(frame.words["devices"]):
                return
            self._task = await self._make_task(frame.words)
            self._size, self._packing = len(self._task.initial_model()), packing_of(self._task)
        if self._task is not None:
            await self._say_here()

    def _is_surplus(self, devices: str) -> bool:
        """Whether the run has no device of this number; the call may be that of a server that has died."""
        surplus = re.fullmatch("[0-9]{1,10}", devices) is not None and self.number > int(devices)
        if surplus and self._tell is not None:
            self._tell(f"device {self.number}: the run has devices 1 to {devices}; it has no part in it")
        return surplus

    async def _say_here(self) -> None:
        await self._say("here", Label(self.run_id, self.number), boot=self._boot, holds=self._holds)

    @property
    def _holds(self) -> str:
        """The work in hand."""
        return "" if self._model is None else f"{self._work}:{digest(self._model)}"

    async def _obey(self, kind: str, frame: Frame) -> None:
        if kind == "model":
            await self._take_model(frame)
        elif kind == "work":
            await self._take_work(frame)
        elif kind == "rest" and frame.words.get("holds", "") == self._holds:
            self._forget()  # unless there is other work by now than what was asked about
        elif kind == "grant":
            await self._take_grant(frame)

    async def _take_model(self, frame: Frame) -> None:
        for receiver in filter(None, frame.words.get("receivers", "").split(",")):
            device, _, training = receiver.partition(":")
            if device == str(self.number) and re.fullmatch("[0-9]{1,10}", training):
                await self._begin(Work(frame.label.version, int(training)), frame.vector)
                return

    async def _take_work(self, frame: Frame) -> None:
        work = Work(frame.label.version, frame.label.training)
        if work != self._work or frame.vector is not None:
            await self._begin(work, frame.vector)
        elif self._update is not None:
            await self._say_ready(work)

    async def _take_grant(self, frame: Frame) -> None:
        if self._work != Work(frame.label.version, frame.label.training):
            await self._say_here()  # nothing of the kind is here: the server will say what to do
            return
        self._grant = frame
        if self._update is not None:
            await self._send(self._update, frame)

    async def _begin(self, work: Work, model: Vector | None) -> None:
        """Train; the model must be one of this task."""
        if self._task is None:
            self.ignored += 1
            return
        if model is None:
            self._forget()
            await self._say_here()  # without what it holds: the answer has the model
            return
        if len(model) != self._size:
            raise UserError(
                f"the server's model has {len(model)} numbers, the task of device {self.number} has "
                f"{self._size}: server and devices must be given the same task"
            )
        if work == self._work and self._model is not None and np.array_equal(model, self._model):
            if self._update is not None:
                await self._say_ready(work)
            return  # said twice: what is under way goes on
        self._forget()
        self._work, self._model = work, model
        self._training = asyncio.create_task(self._train(self._task, work, model))
        self._training.add_done_callback(self._note_failure)

    async def _train(self, task: Task, work: Work, model: Vector) -> None:
        loop = asyncio.get_running_loop()
        update = await loop.run_in_executor(self._executor, self._trained, task, model, work.training)
        if self._work != work:
            return  # the server has changed its mind
        self.trainings += 1
        self._update = update
        await self._say_ready(work)
        if self._grant is not None:
            await self._send(self._update, self._grant)

    def _trained(self, task: Task, model: Vector, training: int) -> Vector | bytes:
        """The update, as it will travel."""
        update = np.asarray(task.local_update(model, self.number, training), dtype=np.float32)
        return update if self._packing is None else self._packing.pack(update)

    async def _send(self, update: Vector | bytes, grant: Frame) -> None:
        self._grant = None
        topic = self._topics.from_device(self.number, "update")
        frame = encode(grant.label, update, grant=grant.words.get("grant", ""))
        await self._channel.publish(topic, frame, acknowledged=False)

    async def _say_ready(self, work: Work) -> None:
        label = Label(self.run_id, self.number, work.version, work.version, work.training)
        topic = self._topics.from_device(self.number, "ready")
        await self._channel.publish(topic, encode(label), acknowledged=False)

    async def _say(self, kind: FromDevice, label: Label, **words: str) -> None:
        await self._channel.publish(self._topics.from_device(self.number, kind), encode(label, **words))

    def _forget(self) -> None:
        """Drop what is in hand; a training under way comes to nothing."""
        self._work = self._model = self._update = self._grant = None
        if self._training is not None:
            self._training.cancel()
            self._training = None

    def _note_failure(self, training: asyncio.Task[None]) -> None:
        """A training that failed ends the device: silence would only stall the others."""
        error = None if training.cancelled() else training.exception()
        if error is not None and not self._failure.done():
            self._failure.set_exception(error)
