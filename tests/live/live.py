"""A live run in memory and in virtual time: one server, its devices, and a listener."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from tasks import Arithmetic
from virtual_time import VirtualExecutor, run_virtual

from slotwise.aggregation import Vector, mean
from slotwise.fleet import Fleet
from slotwise.learning import Training
from slotwise.live.clock import SlotClock
from slotwise.live.device.client import Device
from slotwise.live.protocol import BadFrame, Topics, decode
from slotwise.live.server.events import LiveObserver
from slotwise.live.server.inbox import Inbox, Rejection, UpdateCheck
from slotwise.live.server.monitor import DeviceMonitor, RunSpec
from slotwise.live.server.rounds import RoundDriver
from slotwise.live.server.state import LiveState
from slotwise.live.server.timings import Timings
from slotwise.live.transport import MemoryBroker
from slotwise.schedule import Timeline, scheduler_for, simulate
from slotwise.schedule.link import FleetLink

TOPICS = Topics("test")
FOREVER = 1e5  # virtual seconds


@dataclass
class Live:
    """A run in memory, and what it left behind."""

    plan: Timeline
    state: LiveState
    spec: RunSpec
    models: dict[int, Vector] = field(default_factory=dict)
    wire: list = field(default_factory=list)
    checkpoints: list = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    times: list[float] = field(default_factory=list)  # of the rejections
    reached: dict[int, asyncio.Event] = field(default_factory=dict)

    def round_done(self):
        state = self.state
        self.models[state.round] = state.models[state.round]
        if state.round in self.reached:
            self.reached[state.round].set()
        self.on_round(state)

    def on_round(self, state):
        pass

    async def reaches(self, round_number):
        """Wait for a round to be done."""
        await self.reached.setdefault(round_number, asyncio.Event()).wait()

    @property
    def updates(self):
        return [uplink[:3] for uplink in self.state.record.uplinks]


def planned_updates(plan):
    return list(zip(plan.round.tolist(), plan.device.tolist(), plan.version.tolist(), strict=True))


def simulated_models(plan, task=None):
    """w_1, …, w_K of the simulator."""
    with Training(plan, task or Arithmetic()) as training:
        return {number + 1: training.model for number in training}


def prepare(
    scenario,
    schedule,
    *,
    fleet=None,
    rounds=12,
    state=None,
    participation="round-robin",
    timeout=5.0,
    return_timeout=3.0,
    clip_norm="off",
    longest_training=None,
    cool_down=None,
):
    plan = simulate(scenario, schedule, fleet=fleet, rounds=rounds, participation=participation)
    if state is None:
        scheduler = scheduler_for(scenario, schedule, fleet=fleet, participation=participation)
        state = LiveState(scheduler, models={0: Arithmetic().initial_model()})
    spec = RunSpec(
        "run",
        plan.rounds,
        fleet or Fleet.equal(scenario),
        FleetLink.of(scenario, fleet or Fleet.equal(scenario)),
        mean,
        clip_norm=clip_norm,
        timeout=timeout,
        longest_training=longest_training,
        cool_down=cool_down,
        return_timeout=return_timeout,
        announcement={"devices": str(scenario.devices)},
    )
    return Live(plan, state, spec)


class Play:
    """The parts of a run in memory, for tests that change something while it is played.

    Attributes:
        tasks: the devices.
        broker, channel: of the server.
    """

    def __init__(self, live, clock, *, task=None, seconds=None, slot_ms=None):
        self.live, self.clock, self._task = live, clock, task or Arithmetic()
        self.broker, self.tasks, self._slot_ms = MemoryBroker(), {}, slot_ms
        self._executor = VirtualExecutor(clock, seconds)

    def start(self, number, boot=None):
        self.tasks[number] = asyncio.create_task(self._be(number, boot or f"boot{number}"))

    async def _be(self, number, boot):
        async def make(fields):
            return self._task

        async with self.broker.connect(Device.last_will(TOPICS, number, boot)) as channel:
            device = Device(number, TOPICS, channel, make, self._executor, boot)
            await device.run()

    async def _listen(self, subscribed):
        async with self.broker.connect() as channel:
            await channel.subscribe("slotwise/#")
            subscribed.set()
            async for arrival in channel.arrivals():
                if hasattr(arrival, "topic") and arrival.payload:
                    with suppress(BadFrame):
                        self.live.wire.append((arrival.topic, decode(arrival.payload)))

    def _reject(self, rejection):
        self.live.rejections.append(rejection)
        self.live.times.append(self.clock.now())

    async def run(self, devices, *, resumed=False, meanwhile=None, instead=None):
        live, spec, state = self.live, self.live.spec, self.live.state
        state.timings = Timings(self.clock.now)
        subscribed, background = asyncio.Event(), []
        background.append(asyncio.create_task(self._listen(subscribed)))
        await subscribed.wait()
        async with self.broker.connect() as self.channel:
            await self.channel.subscribe(TOPICS.from_device("+", "+"))
            updates = UpdateCheck(len(self._task.initial_model()))
            self.inbox = Inbox(TOPICS, "run", spec.fleet.devices, state, updates, self.clock, self._reject)
            monitor = DeviceMonitor(spec, self.channel, self.inbox, LiveObserver())
            slots = SlotClock(self._slot_ms, self.clock)
            driver = RoundDriver(monitor, slots, live.round_done)
            background.append(asyncio.create_task(monitor.listen()))
            others = instead or {}
            for number in devices:
                if number not in others:
                    self.start(number)
            self.tasks |= {n: asyncio.create_task(one(self.broker)) for n, one in others.items()}
            if not resumed:
                await monitor.gather(len(devices), 5)
                state.presence.take_changes()
            if meanwhile is not None:
                background.append(asyncio.create_task(meanwhile(self)))
            try:
                await driver.play()
                await monitor.announcement.end()
                await self.clock.sleep(0.1)  # until everything has been delivered
                for task in background:
                    if task.done():
                        task.result()
            finally:
                for task in (*background, *self.tasks.values()):
                    task.cancel()
                await asyncio.gather(*background, *self.tasks.values(), return_exceptions=True)
        return live


def play(live, *, devices=None, resumed=False, meanwhile=None, instead=None, **options):
    """Play a run to its end in virtual time; ``meanwhile(play)`` may do what it likes beside it."""

    async def scenario(clock):
        everyone = list(devices or range(1, live.spec.fleet.devices + 1))
        made = {name: value(clock) if callable(value) else value for name, value in options.items()}
        part = Play(live, clock, **made)
        return await part.run(everyone, resumed=resumed, meanwhile=meanwhile, instead=instead)

    return run_virtual(scenario)
