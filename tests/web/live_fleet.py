"""A live run in memory, in a thread: its devices compute when the test lets them, and can be killed."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from slotwise.aggregation import Vector
from slotwise.learning import Evaluation, TrainingStart
from slotwise.live import ServerConfig
from slotwise.live.device.client import Device
from slotwise.live.protocol import Topics
from slotwise.live.server.events import LiveObserver
from slotwise.live.server.live_run import LiveOutcome, run_live
from slotwise.live.server.server_config import LivePlan
from slotwise.live.server.serving import new_live_folder
from slotwise.live.transport import MemoryBroker, Message
from slotwise.runs import RunConfig

TOPICS = Topics("test")
CONFIG = RunConfig.from_options(
    {"devices": 6, "group_size": 2, "compute_slots": 4, "deadline": 80, "evaluate_every": 5}
)


class Gated:
    """A task whose trainings wait until the gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def initial_model(self) -> Vector:
        return np.ones(10, dtype=np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        assert self.gate.wait(120)
        return (np.float32(0.01 * start.device) * model).astype(np.float32)

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(float(np.abs(model).sum()), 0.25)

    def named_arrays(self, model: Vector) -> Mapping[str, Vector]:
        return {"w": model}


class LiveFleet:
    """The run: ``kill`` and ``forge`` act in its event loop, ``outcome`` is there when it has ended."""

    def __init__(self, path: Path, observer: LiveObserver) -> None:
        self.task, self.outcome = Gated(), None
        self._path, self._observer = path, observer
        self._devices: dict[int, asyncio.Task[Any]] = {}
        self._broker = MemoryBroker()
        self._running = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._play()))
        self._thread.start()
        assert self._running.wait(60)

    async def _play(self) -> None:
        self._loop, server = asyncio.get_running_loop(), ServerConfig(name=TOPICS.name)
        folder = new_live_folder(self._path, CONFIG, server)
        with ThreadPoolExecutor(8) as executor:
            self._devices = {n: asyncio.create_task(self._be(n, executor)) for n in range(1, 7)}
            async with self._broker.connect() as channel:
                self._running.set()
                self.outcome = await run_live(
                    folder,
                    LivePlan.of(CONFIG),
                    self.task,
                    channel,
                    server=server,
                    observer=self._observer,
                    return_timeout=0.1,
                )
            for device in self._devices.values():
                device.cancel()
            await asyncio.gather(*self._devices.values(), return_exceptions=True)

    async def _be(self, number: int, executor: ThreadPoolExecutor) -> None:
        async def make(fields: Mapping[str, str]) -> Gated:
            return self.task

        boot = f"boot{number}"
        async with self._broker.connect(Device.last_will(TOPICS, number, boot)) as channel:
            await Device(number, TOPICS, channel, make, executor, boot).run()

    def kill(self, number: int) -> None:
        self._loop.call_soon_threadsafe(self._devices[number].cancel)

    def forge(self, number: int) -> None:
        """Send something that is no message in the name of a device."""
        message = Message(TOPICS.from_device(number, "ready"), b"nonsense")
        self._loop.call_soon_threadsafe(self._broker.pass_on, message)

    def finish(self) -> LiveOutcome:
        self.task.gate.set()
        self._thread.join()
        assert self.outcome is not None
        return self.outcome


@contextmanager
def live_fleet(path: Path, observer: LiveObserver) -> Iterator[LiveFleet]:
    fleet = LiveFleet(path, observer)
    try:
        yield fleet
    finally:
        fleet.task.gate.set()
        fleet._thread.join()
