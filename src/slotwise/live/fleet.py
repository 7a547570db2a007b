"""Devices on MQTT: one, or many in one process for a trial."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from slotwise.errors import UserError
from slotwise.learning import Task
from slotwise.live.device import Device
from slotwise.live.mqtt import Broker, connected_channel
from slotwise.live.outages import Outages
from slotwise.live.topics import Topics
from slotwise.runs import RunConfig
from slotwise.runs.config import SHORTHANDS
from slotwise.runs.tasks import build_task

LONGEST_FAREWELL = 5.0  # seconds


class ShutOut(UserError):
    """The server wants nothing of these devices any more."""

    def __init__(self, devices: Sequence[int]) -> None:
        who = f"device{'s' * (len(devices) > 1)} {', '.join(map(str, devices))}"
        them = "it" if len(devices) == 1 else "them"
        super().__init__(f"{who}: the server has shut {them} out after bad or missing updates in a row")


class SharedTask:
    """The task of all devices in this process, made when the first of them learns what the run is about."""

    def __init__(self, own: Mapping[str, Any], pool: Executor) -> None:
        self._own, self._pool = own, pool
        self._lock = asyncio.Lock()
        self._made: tuple[str, Task] | None = None

    async def make(self, words: Mapping[str, str]) -> Task:
        """The task of the server's parameters, with this side's own options on top."""
        told = words.get("parameters", "")
        async with self._lock:
            if self._made is None or self._made[0] != told:
                loop = asyncio.get_running_loop()
                self._made = told, await loop.run_in_executor(self._pool, self._build, told)
        return self._made[1]

    def _build(self, told: str) -> Task:
        try:
            said = {name: value for name, value in json.loads(told).items() if name not in SHORTHANDS}
        except (ValueError, AttributeError, RecursionError):
            raise UserError("the server's announcement cannot be read: is it of another version?") from None
        parameters = RunConfig.from_options({**said, "task": None, **self._own})
        task = build_task(parameters)
        if parameters.model.task is None:  # kernels are compiled before this device says that it is here
            task.local_update(task.initial_model(), 1, 0)
        return task


async def take_part(
    numbers: Sequence[int],
    topics: Topics,
    brokers: Mapping[int, Broker],
    own: Mapping[str, Any],
    *,
    workers: int,
    patience: float,
    keepalive: int,
    stop: asyncio.Event,
    tell: Callable[[str], None],
) -> bool:
    """Be the devices ``numbers`` until the run is over; False if ``stop`` was set before.

    Args:
        numbers: which devices.
        topics: of the channel.
        brokers: where each of them connects.
        own: options on top of what the server says, such as a task of their own.
        workers: trainings at once.
        patience: seconds to wait for the broker to be there.
        keepalive: seconds of silence after which broker and device ask for a sign of life.
        stop: set to leave early.
        tell: is told how it goes.

    Raises:
        ShutOut: at the end, if some of them were.
    """
    pool = ThreadPoolExecutor(workers, thread_name_prefix="device")
    house = _House(topics, SharedTask(own, pool), pool, patience, keepalive, _once(tell), Outages(tell))
    tasks = [asyncio.create_task(house.live(number, brokers[number])) for number in numbers]
    stopping = asyncio.create_task(stop.wait())
    try:
        await _until_over(tasks, stopping)
    finally:
        for task in (*tasks, stopping):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        pool.shutdown(wait=False, cancel_futures=True)  # what is being trained is for nobody any more
    if stop.is_set():
        return False
    devices = [task.result() for task in tasks]
    trainings, ignored = sum(one.trainings for one in devices), sum(one.ignored for one in devices)
    more = f"; {ignored} messages ignored that were not for them" if ignored else ""
    tell(f"the run is over: {trainings} trainings by {len(tasks)} device{'s' * (len(tasks) > 1)}{more}")
    if out := [device.number for device in devices if device.shut_out]:
        raise ShutOut(out)
    return True


async def _until_over(tasks: Sequence[asyncio.Task[Device]], stopping: asyncio.Task[bool]) -> None:
    """Wait for all devices to end, or for one to fail, or for the word to stop."""
    waiting: set[asyncio.Task[Any]] = set(tasks)
    while waiting and not stopping.done():
        done, _ = await asyncio.wait({*waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in done & waiting:
            task.result()
        waiting -= done


@dataclass(frozen=True)
class _House:
    """What the devices of one process share."""

    topics: Topics
    shared: SharedTask
    pool: Executor
    patience: float
    keepalive: int
    tell: Callable[[str], None]
    outages: Outages

    async def live(self, number: int, broker: Broker) -> Device:
        """One device, from its connection to its farewell."""
        boot = secrets.token_hex(8)
        identity = self.topics.client(f"device-{number}")
        farewell = Device.farewell(self.topics, number, boot)

        def waiting(reason: str) -> None:
            self.tell(f"waiting for the broker at {broker} ({reason})")

        async with connected_channel(
            broker,
            identity,
            will=farewell,
            keepalive=self.keepalive,
            patience=self.patience,
            waiting=waiting,
            outages=self.outages,
        ) as channel:
            self.tell(f"connected to {broker}")
            device = Device(number, self.topics, channel, self.shared.make, self.pool, boot, self.tell)
            try:
                await device.run()
            except BaseException:  # whatever it is, the broker takes a client that closes for one in order
                if channel.connected:  # a broker that has gone needs no farewell
                    saying = channel.publish(farewell.topic, farewell.payload)
                    with suppress(TimeoutError):
                        await asyncio.wait_for(saying, LONGEST_FAREWELL)
                raise
            return device


def _once(tell: Callable[[str], None]) -> Callable[[str], None]:
    """Tell the same thing only once."""
    said: set[str] = set()

    def told(text: str) -> None:
        if text not in said:
            said.add(text)
            tell(text)

    return told
