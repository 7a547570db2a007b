"""Round trips are measured before slots of a fixed length begin."""

import asyncio

import pytest
from memory_run import CONFIG, Logging, live_run
from tasks import Arithmetic
from virtual_time import VirtualExecutor, run_virtual

from live import TOPICS
from slotwise.base.errors import InputError
from slotwise.live import ServerConfig
from slotwise.live.device.client import Device
from slotwise.live.server.serving import new_live_folder
from slotwise.live.transport import MemoryBroker


class Delayed:
    """A channel whose messages take some seconds to leave, in order."""

    def __init__(self, channel, clock, seconds):
        self._channel, self._clock, self._seconds = channel, clock, seconds

    def __getattr__(self, name):
        return getattr(self._channel, name)

    async def publish(self, topic, payload, **how):
        await self._clock.sleep(self._seconds)
        await self._channel.publish(topic, payload, **how)


def run(path, one_way, slot_ms):
    """Return the outcome and what was logged; ``one_way`` are the delays of devices in seconds."""
    server, observer = ServerConfig(name=TOPICS.name, slot_ms=slot_ms), Logging()

    async def scenario(clock):
        broker, executor = MemoryBroker(), VirtualExecutor(clock)

        async def make(fields):
            return Arithmetic()

        async def be(number):
            async with broker.connect(Device.last_will(TOPICS, number, "boot")) as channel:
                delayed = Delayed(channel, clock, one_way.get(number, 0.0))
                await Device(number, TOPICS, delayed, make, executor, "boot").run()

        devices = [asyncio.create_task(be(n)) for n in range(1, CONFIG.channel.devices + 1)]
        try:
            async with broker.connect() as channel:
                folder = new_live_folder(path, CONFIG, server)
                return await live_run(folder, channel, clock=clock, server=server, observer=observer)
        finally:
            for device in devices:
                device.cancel()
            await asyncio.gather(*devices, return_exceptions=True)

    return run_virtual(scenario), observer


def test_devices_that_answer_within_a_slot_are_not_warned_of(tmp_path):
    outcome, observer = run(tmp_path / "run", {2: 0.08}, slot_ms=100)
    assert outcome.comparison.measured.lost == 0
    assert observer.named("too_slow") == []
    assert observer.named("round_trips") == [{"slowest_ms": 80.0, "slot_ms": 100.0}]


def test_a_device_that_answers_too_late_is_named_before_its_updates_are_lost(tmp_path):
    outcome, observer = run(tmp_path / "run", {2: 0.12}, slot_ms=100)
    (warned,) = observer.named("too_slow")
    assert (warned["devices"], warned["least_slot_ms"]) == (1, 120)
    assert "device 2 (120 ms)" in warned["reason"]
    assert outcome.comparison.measured.lost > 0


def test_a_run_in_which_every_update_would_be_lost_is_refused(tmp_path):
    late = dict.fromkeys(range(1, CONFIG.channel.devices + 1), 0.12)
    with pytest.raises(InputError, match=r"slot_ms = 100.* more than 120: no device answers"):
        run(tmp_path / "run", late, slot_ms=100)
