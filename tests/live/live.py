"""A live run in memory: one server, its devices, and a listener, all in one event loop."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tasks import SIZE, Arithmetic

from slotwise.aggregation import Vector, mean
from slotwise.fleet import Fleet
from slotwise.learning import Observer, train
from slotwise.live.clock import Clock, PacedClock
from slotwise.live.device import Device
from slotwise.live.mailbox import Admission, Mailbox
from slotwise.live.memory import MemoryBroker
from slotwise.live.server import Server
from slotwise.live.state import LiveState
from slotwise.live.terms import Terms
from slotwise.live.topics import Topics
from slotwise.live.wire import decode
from slotwise.schedule import Timeline, scheduler_for, simulate

TOPICS = Topics("test")


@dataclass
class Live:
    """What a run in memory left behind."""

    plan: Timeline
    state: LiveState
    mailbox: Mailbox
    models: dict[int, Vector] = field(default_factory=dict)
    wire: list = field(default_factory=list)
    checkpoints: list = field(default_factory=list)

    def waiting(self, present, wanted):
        pass

    def round_done(self, state):
        self.models[state.round] = state.models[state.round]
        self.on_round(state)

    def on_round(self, state):
        pass

    @property
    def updates(self):
        return [uplink[:3] for uplink in self.state.record.uplinks]


def planned_updates(plan):
    return list(zip(plan.round.tolist(), plan.device.tolist(), plan.version.tolist(), strict=True))


def simulated_models(plan, task=None):
    """w_1, …, w_K of the simulator."""
    models = {}

    class Keeping(Observer):
        def wants_checkpoint(self):
            return True

        def checkpoint(self, history):
            models[history.round] = history.models[history.round]

    train(plan, task or Arithmetic(), observer=Keeping())
    return models


def prepare(
    scenario, schedule, *, fleet=None, rounds=12, state=None, participation="round-robin", patience=5.0
):
    plan = simulate(scenario, schedule, fleet=fleet, rounds=rounds, participation=participation)
    if state is None:
        scheduler = scheduler_for(scenario, schedule, fleet=fleet, participation=participation)
        state = LiveState(scheduler, models={0: Arithmetic().initial_model()})
    rejections = []
    mailbox = Mailbox(TOPICS, "run", scenario.devices, Admission(SIZE), rejections.append)
    mailbox.log = rejections
    terms = Terms(
        "run",
        plan.rounds,
        fleet or Fleet.equal(scenario),
        scenario.link_slots,
        mean,
        patience=patience,
        announcement={"devices": str(scenario.devices)},
    )
    return Live(plan, state, mailbox), terms


class PatientTime:
    """Slots that pass one after another, each only when nobody has anything left to do in it.

    So it does not matter how slow the machine is; but for those who are ``late``: they are not waited for.
    """

    def __init__(self, late=()):
        self._seconds, self.late = 0.0, set(late)
        self.clock = PacedClock(1000, lambda: self._seconds)

    async def go_by(self, broker, live):
        turns = 0
        while True:
            await asyncio.sleep(0)
            turns = turns + 1 if self._nobody_is_busy(live) else 0
            if turns == 100:  # of the event loop: whatever was on its way has come
                turns, self._seconds = 0, self._seconds + 1
                live.mailbox.changed.set()

    def _nobody_is_busy(self, live):
        mailbox, planned = live.mailbox, live.state.agenda.next_slot
        training = {n for n in mailbox.assigned if not mailbox.is_ready(n)} - self.late
        due = planned is not None and self.clock.seconds_until(planned) <= 0
        return not (training or due or mailbox.waits_for_update)


async def play(
    live,
    terms,
    *,
    clock=None,
    devices=None,
    task=None,
    resumed=False,
    meanwhile=None,
    instead=None,
    workers=2,
):
    """Run it to its end; ``meanwhile(broker, live)`` may do what it likes beside it."""
    broker = MemoryBroker()
    everyone = list(devices or range(1, terms.fleet.devices + 1))

    async def make(words):
        return task or Arithmetic()

    async def be(number, pool):
        will = Device.farewell(TOPICS, number, f"boot{number}")
        async with broker.connect(will) as own:
            await Device(number, TOPICS, own, make, pool, f"boot{number}").run()

    async def listen():
        async with broker.connect() as own:
            await own.subscribe("slotwise/#")
            async for arrival in own.arrivals():
                if hasattr(arrival, "topic") and arrival.payload:
                    live.wire.append((arrival.topic, decode(arrival.payload)))

    with ThreadPoolExecutor(workers) as pool:
        async with broker.connect() as channel:
            await channel.subscribe(TOPICS.from_all_devices)
            server = Server(terms, live.state, channel, TOPICS, live.mailbox, clock or Clock(), live)
            background = [asyncio.create_task(listen()), asyncio.create_task(server.listen())]
            if not resumed:
                live.mailbox.present.clear()
            others = instead or {}
            tasks = {n: asyncio.create_task(be(n, pool)) for n in everyone if n not in others}
            tasks |= {n: asyncio.create_task(one(broker)) for n, one in others.items()}
            live.tasks, live.broker, live.be = tasks, broker, lambda n: asyncio.create_task(be(n, pool))
            if not resumed:
                await server.gather(len(everyone), 5)
                live.mailbox.unplanned.clear()
            if meanwhile is not None:
                background.append(asyncio.create_task(meanwhile(broker, live)))
            try:
                await asyncio.wait_for(server.play(), 30)
                await server.end()
                await asyncio.sleep(0.05)
            finally:
                for one in (*background, *tasks.values()):
                    one.cancel()
                await asyncio.gather(*background, *tasks.values(), return_exceptions=True)
    return live
