"""Whole live runs over UDP in virtual time, without sockets: datagrams are lost, doubled and late."""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest
from memory_run import CONFIG, Logging, half_a_second, live_run
from tasks import Arithmetic
from udp_pair import TOPICS, will_of
from virtual_time import run_virtual

from live import simulated_models
from slotwise.live import ServerConfig
from slotwise.live.device.client import Device
from slotwise.live.server.serving import new_live_folder
from slotwise.live.udp.hub import UdpHub
from slotwise.live.udp.udp_channel import UdpChannel
from slotwise.runs.run_folder import model_sha256

SECRETS = {number: bytes([number]) * 32 for number in range(1, CONFIG.channel.devices + 1)}
LONGEST_TICK = 0.05  # seconds


class Network:
    """Carries datagrams; ``loss`` of them never arrive, and as many arrive twice."""

    def __init__(self, clock, loss, delay):
        self._clock, self._loss, self._delay = clock, loss, delay
        self._random, self._tasks, self.channels = random.Random(1), set(), {}
        self.hub = UdpHub(SECRETS, TOPICS, 220, self._to_device, clock.now)
        self.spawn(self._tick(self.hub))

    def _to_device(self, datagram, address):
        self._carry(lambda: self.channels[address[0]].receive(datagram))

    def _carry(self, arrive):
        async def later():
            await self._clock.sleep(self._delay * self._random.uniform(0.5, 1.5))
            arrive()

        for _ in range(1 + (self._random.random() < self._loss)):
            if self._random.random() >= self._loss:
                self.spawn(later())

    async def _tick(self, end):
        while True:
            await self._clock.sleep(min(LONGEST_TICK, end.tick()))

    def spawn(self, coroutine):
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def be(self, number, executor):
        """One device, from its first session to the end of the run."""

        def send(datagram):
            self._carry(lambda: self.hub.receive(datagram, (number,)))

        async def make(fields):
            return Arithmetic()

        channel = self.channels[number] = UdpChannel(
            number, SECRETS[number], will_of(number), 10, send, self._clock.now
        )
        self.spawn(self._tick(channel))
        await Device(number, TOPICS, channel, make, executor, f"boot{number}").run()
        channel.close()

    @asynccontextmanager
    async def devices(self):
        executor = half_a_second(self._clock)
        devices = [asyncio.create_task(self.be(number, executor)) for number in SECRETS]
        try:
            yield
        finally:
            for task in (*devices, *self._tasks):
                task.cancel()
            await asyncio.gather(*devices, *self._tasks, return_exceptions=True)


def serve_over_udp(path, *, loss, delay, **options):
    server = ServerConfig(name=TOPICS.name, **options)
    observer = Logging()

    async def scenario(clock):
        network = Network(clock, loss, delay)
        async with network.devices():
            folder = new_live_folder(path, CONFIG, server)
            how = {"server": server, "observer": observer, "clock": clock}
            return await live_run(folder, network.hub, **how), network

    return (*run_virtual(scenario), observer)


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_the_model_is_the_simulators_whatever_is_lost_on_the_way(tmp_path, loss):
    outcome, network, _ = serve_over_udp(tmp_path / "run", loss=loss, delay=0.01, clip_norm="off")
    models = simulated_models(CONFIG.simulate())
    assert outcome.status == "finished"
    assert outcome.state.round == max(models)
    assert model_sha256(outcome.state.models[max(models)]) == model_sha256(models[max(models)])
    assert outcome.comparison.measured == outcome.comparison.planned
    assert {channel.connections for channel in network.channels.values()} == {1}


def test_with_slots_of_a_fixed_length_the_slots_are_those_of_the_plan(tmp_path):
    outcome, _, _ = serve_over_udp(tmp_path / "run", loss=0.0, delay=0.005, slot_ms=200, clip_norm="off")
    assert outcome.comparison.measured == outcome.comparison.planned
    assert outcome.comparison.first_difference is None


def test_uplinks_that_take_longer_than_their_slots_are_lost(tmp_path):
    outcome, _, observer = serve_over_udp(
        tmp_path / "run", loss=0.3, delay=0.005, slot_ms=200, clip_norm="off"
    )
    assert outcome.status == "finished"
    assert outcome.comparison.measured.lost > 0
    assert any(entry["what"] == "uplink" for entry in observer.named("late"))
