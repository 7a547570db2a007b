"""run_live with devices in memory and in virtual time, all of them with the same task."""

import asyncio

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


def serve_in_memory(path, *, config=CONFIG, task=None, observer=None, meanwhile=None, **options):
    """Return the outcome; ``meanwhile(broker, clock)`` may do what it likes beside the run."""
    task, server = task or Arithmetic(), ServerConfig(name=TOPICS.name, **options)

    async def scenario(clock):
        broker, executor = MemoryBroker(), VirtualExecutor(clock, dict.fromkeys(range(1, 100), 0.5))

        async def make(fields):
            return task

        async def be(number):
            boot = f"boot{number}"
            async with broker.connect(Device.last_will(TOPICS, number, boot)) as channel:
                await Device(number, TOPICS, channel, make, executor, boot).run()

        folder = new_live_folder(path, config, server)
        background = [asyncio.create_task(be(n)) for n in range(1, config.channel.devices + 1)]
        if meanwhile is not None:
            background.append(asyncio.create_task(meanwhile(broker, clock)))
        try:
            async with broker.connect() as channel:
                return await run_live(
                    folder, LivePlan.of(config), task, channel, server=server, observer=observer, clock=clock
                )
        finally:
            for one in background:
                one.cancel()
            await asyncio.gather(*background, return_exceptions=True)

    return run_virtual(scenario)
