"""run_live with devices in memory and in virtual time, all of them with the same task."""

import asyncio
from contextlib import asynccontextmanager

from tasks import Arithmetic
from virtual_time import VirtualExecutor, run_virtual

from live import TOPICS
from slotwise.live import ServerConfig
from slotwise.live.device.client import Device
from slotwise.live.server.events import LiveObserver
from slotwise.live.server.live_run import run_live
from slotwise.live.server.server_config import LivePlan
from slotwise.live.server.serving import new_live_folder
from slotwise.live.transport import MemoryBroker
from slotwise.runs import RunConfig

CONFIG = RunConfig.from_options(
    {"devices": 6, "group_size": 2, "compute_slots": 4, "deadline": 80, "task": "tasks:make"}
)


class Logging(LiveObserver):
    """Keeps what is logged, and the last status."""

    def __init__(self):
        self.events, self.status = [], None

    def logged(self, event):
        self.events.append(event)

    def status_changed(self, status):
        self.status = status

    def named(self, event):
        return [logged.fields for logged in self.events if logged.event == event]


@asynccontextmanager
async def devices_on(broker, executor, count=CONFIG.channel.devices, task=None):
    """Devices in memory, as tasks, each with a last will."""

    async def make(fields):
        return task or Arithmetic()

    async def be(number):
        boot = f"boot{number}"
        async with broker.connect(Device.last_will(TOPICS, number, boot)) as channel:
            await Device(number, TOPICS, channel, make, executor, boot).run()

    devices = [asyncio.create_task(be(number)) for number in range(1, count + 1)]
    try:
        yield devices
    finally:
        for device in devices:
            device.cancel()
        await asyncio.gather(*devices, return_exceptions=True)


def half_a_second(clock):
    """Return an executor whose trainings take as long, in virtual time."""
    return VirtualExecutor(clock, dict.fromkeys(range(1, 100), 0.5))


async def live_run(folder, channel, config=CONFIG, task=None, **how):
    """Play the server's part of a run."""
    return await run_live(folder, LivePlan.of(config), task or Arithmetic(), channel, **how)


def serve_in_memory(path, *, config=CONFIG, task=None, observer=None, meanwhile=None, **options):
    """Return the outcome; ``meanwhile(broker, clock)`` may do what it likes beside the run."""
    server = ServerConfig(name=TOPICS.name, **options)
    how = {"config": config, "task": task, "server": server, "observer": observer}

    async def scenario(clock):
        broker = MemoryBroker()
        beside = None if meanwhile is None else asyncio.create_task(meanwhile(broker, clock))
        folder = new_live_folder(path, config, server)
        devices = devices_on(broker, half_a_second(clock), config.channel.devices, task)
        async with devices, broker.connect() as channel:
            outcome = await live_run(folder, channel, clock=clock, **how)
        if beside is not None:
            beside.cancel()
            await asyncio.gather(beside, return_exceptions=True)
        return outcome

    return run_virtual(scenario)
