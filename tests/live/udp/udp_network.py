"""Whole live runs over UDP in virtual time, without sockets: a network that loses and delays datagrams."""

import asyncio
import random
from contextlib import asynccontextmanager

from memory_run import CONFIG, Logging, half_a_second, live_run
from tasks import Arithmetic
from udp_pair import GROUP, TOPICS, will_of
from virtual_time import run_virtual

from slotwise.live import ServerConfig
from slotwise.live.device.client import Device
from slotwise.live.server.serving import new_live_folder
from slotwise.live.udp.group import GroupSender
from slotwise.live.udp.hub import UdpHub
from slotwise.live.udp.udp_channel import UdpChannel

SECRETS = {number: bytes([number]) * 32 for number in range(1, CONFIG.channel.devices + 1)}
LONGEST_TICK = 0.05  # seconds


class Network:
    """Carries datagrams; ``loss`` of them never arrive, and as many arrive twice.

    With ``group`` the hub has one. The clocks of devices gain ``drift`` of the time, each another part.
    """

    def __init__(self, clock, loss, delay, *, group=False, drift=0.0, frame_bytes=220):
        self._clock, self._loss, self._delay = clock, loss, delay
        self._random, self._tasks, self.channels = random.Random(1), set(), {}
        self._drift, self._joined = drift, set()
        sender = GroupSender(GROUP, frame_bytes, self._to_group) if group else None
        self.hub = UdpHub(SECRETS, TOPICS, frame_bytes, self._to_device, clock.now, sender)
        self.spawn(self._tick(self.hub))

    def _to_device(self, datagram, address):
        self._carry(lambda: self.channels[address[0]].receive(datagram))

    def _to_group(self, datagram):
        for number in sorted(self._joined):
            self._carry(lambda to=self.channels[number]: to.receive_from_group(datagram))

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

        rate = 1 + self._drift * number / len(SECRETS)
        channel = self.channels[number] = UdpChannel(
            number,
            SECRETS[number],
            will_of(number),
            10,
            send,
            lambda: 1000 * number + rate * self._clock.now(),
            join=lambda _: self._joined.add(number),
            sleep=lambda seconds: self._clock.sleep(seconds / rate),
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


def serve_over_udp(path, *, loss, delay, config=CONFIG, network=None, meanwhile=None, **options):
    """Return outcome, network and log; ``meanwhile(network, clock)`` may do what it likes beside the run."""
    server = ServerConfig(name=TOPICS.name, **options)
    observer = Logging()

    async def scenario(clock):
        air = Network(clock, loss, delay, **(network or {}))
        if meanwhile is not None:
            air.spawn(meanwhile(air, clock))
        async with air.devices():
            folder = new_live_folder(path, config, server)
            how = {"server": server, "observer": observer, "clock": clock}
            return await live_run(folder, air.hub, config, **how), air

    return (*run_virtual(scenario), observer)
