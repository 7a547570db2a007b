"""Devices on MQTT: one, or many in one process for a trial."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from slotwise.errors import UserError
from slotwise.learning import Task
from slotwise.runs import run_parameters
from slotwise.runs.build import build_task
from slotwise.runtime.device import Device
from slotwise.runtime.mqtt import Broker, connected_channel
from slotwise.runtime.topics import Topics


class SharedTask:
    """The task of all devices in this process, made when the first of them learns what the run is about."""

    def __init__(self, own: Mapping[str, Any], largest: int) -> None:
        self._own, self._largest = own, largest
        self._lock = asyncio.Lock()
        self._made: tuple[str, Task] | None = None

    async def make(self, words: Mapping[str, str]) -> Task:
        """The task of the server's parameters, with this side's own options on top."""
        told = words.get("parameters", "")
        async with self._lock:
            if self._made is None or self._made[0] != told:
                self._made = told, await asyncio.to_thread(self._build, told)
        return self._made[1]

    def _build(self, told: str) -> Task:
        try:
            options = {**json.loads(told), "task": None, **self._own}
        except (ValueError, TypeError):
            raise UserError("the server's announcement cannot be read: is it of another version?") from None
        parameters = run_parameters(options)
        if self._largest > parameters.devices:
            raise UserError(f"device {self._largest}: the run has devices 1 to {parameters.devices}")
        return build_task(parameters)


async def take_part(
    numbers: Sequence[int],
    topics: Topics,
    brokers: Mapping[int, Broker],
    own: Mapping[str, Any],
    *,
    workers: int,
    patience: float,
    stop: asyncio.Event,
    tell: Callable[[str], None],
) -> bool:
    """Be the devices ``numbers`` until the run is over; False if ``stop`` was set before."""
    shared = SharedTask(own, max(numbers))
    told = _once(tell)
    with ThreadPoolExecutor(workers, thread_name_prefix="device") as pool:
        tasks = [
            asyncio.create_task(_one(number, topics, brokers[number], shared, pool, patience, told))
            for number in numbers
        ]
        stopping = asyncio.create_task(stop.wait())
        try:
            await _until_over(tasks, stopping)
        finally:
            for task in (*tasks, stopping):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    if stop.is_set():
        return False
    trainings = sum(task.result() for task in tasks)
    tell(f"the run is over: {trainings} trainings by {len(tasks)} device{'s' * (len(tasks) > 1)}")
    return True


async def _until_over(tasks: Sequence[asyncio.Task[int]], stopping: asyncio.Task[bool]) -> None:
    """Wait for all devices to end, or for one to fail, or for the word to stop."""
    waiting: set[asyncio.Task[Any]] = set(tasks)
    while waiting and not stopping.done():
        done, _ = await asyncio.wait({*waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in done & waiting:
            task.result()
        waiting -= done


async def _one(
    number: int,
    topics: Topics,
    broker: Broker,
    shared: SharedTask,
    pool: Executor,
    patience: float,
    tell: Callable[[str], None],
) -> int:
    """One device, from its connection to its farewell."""
    boot = secrets.token_hex(8)
    identity = f"{topics.root.replace('/', '-')}-device-{number}"
    farewell = Device.farewell(topics, number, boot)

    def waiting(reason: str) -> None:
        tell(f"waiting for the broker at {broker} ({reason})")

    async with connected_channel(
        broker, identity, will=farewell, patience=patience, waiting=waiting
    ) as channel:
        tell(f"connected to {broker}")
        device = Device(number, topics, channel, shared.make, pool, boot)
        try:
            await device.run()
        except asyncio.CancelledError:
            await channel.publish(farewell.topic, farewell.payload)
            raise
        return device.trainings


def _once(tell: Callable[[str], None]) -> Callable[[str], None]:
    """Tell the same thing only once."""
    said: set[str] = set()

    def told(text: str) -> None:
        if text not in said:
            said.add(text)
            tell(text)

    return told
