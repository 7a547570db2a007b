"""Attacks of one device on a live run, each with its outcome: attacks.py.

Ten devices train IID MNIST; device 1, which is the first to send, attacks. The server has its default
options, but for a shorter timeout where it has to wait. Server and devices are in one process, on the
in-memory channel, so nothing but the server's own checks protects the run. The campaign fails if an attack
excludes an honest device, pushes the accuracy below 80 % of that of the run without an attack, or makes the
server wait for longer than docs/live.md says.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slotwise.learning import Task, TaskWrapper, TrainingStart
from slotwise.live import ServerConfig
from slotwise.live.device.client import Device
from slotwise.live.protocol import Label, Topics, decode, encode
from slotwise.live.server.device_state import COOL_DOWN, LIMIT
from slotwise.live.server.events import LiveObserver, LogEvent
from slotwise.live.server.live_run import LiveOutcome, run_live
from slotwise.live.server.server_config import LivePlan
from slotwise.live.server.serving import new_live_folder
from slotwise.live.transport import MemoryBroker, Message
from slotwise.runs import RunConfig
from slotwise.runs.execution import build_task

ATTACKER = 1
EACH = 6  # updates of which one is longer, in an attack that uses this
TIMEOUT = 2.0  # seconds, where the server waits
LEAST_SHARE = 0.8  # of the accuracy without an attack
OPTIONS = {"devices": 10, "partition": "iid", "compute_slots": 10, "samples_per_device": 600}
TOPICS = Topics("attacks")

Spoil = Callable[
    [np.ndarray, int], np.ndarray
]  # the update that the attacker sends, from its own and a count


def constant(size: float) -> Spoil:
    return lambda update, _: np.full_like(update, size)


def scaled(factor: float) -> Spoil:
    return lambda update, _: (factor * update.astype(np.float64)).clip(-3e38, 3e38).astype(np.float32)


def constant_direction(factor: float) -> Spoil:
    """Return updates of one direction that are so many times as long as the attacker's own."""

    def spoil(update: np.ndarray, _: int) -> np.ndarray:
        return np.full_like(update, -factor * np.linalg.norm(update) / np.sqrt(len(update)))

    return spoil


def sometimes_longer(usual: float, longest: float, every: int) -> Spoil:
    """Return updates of one direction that use the bounds: a long one as often as nothing comes of it."""

    def spoil(update: np.ndarray, count: int) -> np.ndarray:
        return constant_direction(longest if count % every == 0 else usual)(update, count)

    return spoil


def random_direction(factor: float) -> Spoil:
    """Return updates of one direction, drawn once, that are so many times as long as the attacker's own."""

    def spoil(update: np.ndarray, _: int) -> np.ndarray:
        drawn = np.random.default_rng(0).standard_normal(len(update))
        return (factor * np.linalg.norm(update) / np.linalg.norm(drawn) * drawn).astype(np.float32)

    return spoil


def noise(size: float) -> Spoil:
    def spoil(update: np.ndarray, count: int) -> np.ndarray:
        drawn = np.random.default_rng(count).standard_normal(len(update))  # the attacker's, not the run's
        return (size * drawn).astype(np.float32)

    return spoil


def once(spoil: Spoil, at: int) -> Spoil:
    return lambda update, count: spoil(update, count) if count == at else update


@dataclass(frozen=True)
class Attack:
    """What device 1 does, and how the server is configured."""

    name: str
    spoil: Spoil | None = None  # of its updates
    silent: Callable[[int], bool] = lambda _: (
        False
    )  # whether it withholds an update, by the count of its grants
    endless: bool = False  # its trainings do not end
    floods: Callable[[str], tuple[str, bytes]] | None = None  # a message that it repeats, for a run
    options: dict[str, Any] = field(default_factory=dict)  # of the run
    server: dict[str, Any] = field(default_factory=dict)
    timeout: float | None = None  # shorter than the default, where the server waits

    @property
    def waits(self) -> bool:
        """True if the attack makes the server wait."""
        return self.timeout is not None


def greeting(run: str) -> tuple[str, bytes]:
    return TOPICS.from_device(ATTACKER, "here"), encode(Label(run, ATTACKER), boot="again")


def garbage(run: str) -> tuple[str, bytes]:
    del run
    return TOPICS.from_device(ATTACKER, "update"), bytes(range(256)) * 40


def anothers_name(run: str) -> tuple[str, bytes]:
    return TOPICS.from_device(ATTACKER, "update"), encode(Label(run, 2), np.ones(10, dtype=np.float32))


NAN = float("nan")
ATTACKS = (
    Attack("none"),
    Attack("one update of -1e20", once(constant(-1e20), 3)),
    Attack("one update of -1e20, the first", once(constant(-1e20), 0)),
    Attack("one update of -1e20, no norm bound", once(constant(-1e20), 3), server={"clip_norm": "off"}),
    Attack("one of 3e38, no norm bound", once(constant(3e38), 3), server={"clip_norm": "off"}),
    *(
        Attack(f"all updates times {factor:g}", scaled(factor))
        for factor in (-1.0, -2.5, -2.9, -10.0, -1e6, 1e30)
    ),
    *(Attack(f"all updates noise of {size:g}", noise(size)) for size in (1.0, 1e10)),
    *(Attack(f"all updates {size:g} everywhere", constant(size)) for size in (-1e-2, -1e20, 1e20)),
    *(
        Attack(f"all of one direction, {factor:g} times as long", constant_direction(factor))
        for factor in (1.0, 1.5, 1.9, 2.5, 2.9)
    ),
    Attack("all of one direction, 1.8 times, each 6th 2.7", sometimes_longer(1.8, 2.7, EACH)),
    *(
        Attack(f"all of a random direction, {factor:g} times", random_direction(factor))
        for factor in (2.0, 2.9)
    ),
    Attack("all updates 1e20 everywhere, S=1", constant(1e20), options={"group_size": 1}),
    Attack("all updates zero", scaled(0.0)),
    Attack("all updates NaN", constant(NAN)),
    *(
        Attack(
            f"all updates times -1e6, {rule}", scaled(-1e6), options={"group_size": 5, "aggregation": rule}
        )
        for rule in ("trimmed-mean", "median", "norm-clipping")
    ),
    Attack(
        "all updates times -1e6, krum",
        scaled(-1e6),
        options={"group_size": 5, "aggregation": "krum", "byzantine": 1},
    ),
    Attack("never finishes a training", endless=True, timeout=TIMEOUT),
    Attack("one good update, two silences", silent=lambda count: count % 3 != 0, timeout=TIMEOUT),
    Attack("four good updates, one silence", silent=lambda count: count % 5 == 4, timeout=TIMEOUT),
    Attack("1,000 greetings", floods=greeting),
    Attack("1,000 malformed updates", floods=garbage),
    Attack("1,000 updates in another's name", floods=anothers_name),
)


class AttackersChannel:
    """The channel of the attacker: spoils or withholds what is published as an update."""

    def __init__(self, channel: Any, attack: Attack) -> None:
        self._channel, self._attack = channel, attack
        self._sent = self._grants = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    async def publish(self, topic: str, payload: bytes, **how: Any) -> None:
        """Publish, or do not."""
        if topic.endswith("/update"):
            self._grants += 1
            if self._attack.silent(self._grants - 1):
                return
            frame = decode(payload)
            if self._attack.spoil is not None and frame.vector is not None:
                update = self._attack.spoil(frame.vector, self._sent)
                payload = encode(frame.label, update, **frame.fields)
            self._sent += 1
        await self._channel.publish(topic, payload, **how)


class Endless(TaskWrapper):
    """A task whose trainings do not end."""

    def __init__(self, task: Task, over: asyncio.Event) -> None:
        super().__init__(task)
        self._over, self._loop = over, asyncio.get_running_loop()

    def local_update(self, model: np.ndarray, start: TrainingStart) -> np.ndarray:  # noqa: ARG002
        """Wait for the end of the campaign's run."""
        asyncio.run_coroutine_threadsafe(self._over.wait(), self._loop).result()
        return model


class Counting(LiveObserver):
    """Counts what the server reports."""

    def __init__(self) -> None:
        self.excluded: set[int] = set()
        self.rolled_back, self.waited = 0, 0.0

    def logged(self, event: LogEvent) -> None:
        """Note who was excluded."""
        if event.event == "excluded":
            self.excluded.add(int(event.fields["device"]))
        self.rolled_back += event.event == "rolled_back"
        self.waited += event.fields.get("waited", 0.0)


@dataclass(frozen=True)
class Result:
    """Outcome of one attack."""

    outcome: LiveOutcome
    observer: Counting
    models_sent: int  # to the attacker alone
    attack: Attack

    @property
    def accuracy(self) -> float:
        """The last test accuracy."""
        return self.outcome.state.points[-1].accuracy

    @property
    def seconds(self) -> float:
        """The length of the run."""
        return self.outcome.state.seconds

    def problems(self, clean: Result) -> list[str]:
        """Return what must not happen with default options."""
        found = []
        if self.outcome.status != "finished":
            found.append(self.outcome.status)
        if self.observer.excluded - {ATTACKER}:
            found.append("honest devices excluded")
        if self.accuracy < LEAST_SHARE * clean.accuracy and not self.attack.server:
            found.append(f"accuracy below {LEAST_SHARE:.0%}")
        if self.waited > self.longest_wait:
            found.append(f"waited for more than {self.longest_wait:.0f} s")
        return found

    @property
    def waited(self) -> float:
        """The seconds that the server has waited in vain."""
        return self.observer.waited

    @property
    def longest_wait(self) -> float:
        """The bound in docs/live.md: 3 timeouts, 1/20 of the run, and the wait that excludes the device."""
        timeout = self.attack.timeout or 60.0
        return (LIMIT + 1) * timeout + self.seconds / COOL_DOWN


async def played(attack: Attack, deadline: int, seed: int, folder: Path) -> Result:
    """Return the outcome of a run with an attack."""
    length = {"deadline": deadline, "evaluate_every": deadline, "seed": seed}
    options = {"group_size": 2, **OPTIONS, **length, **attack.options}
    config = RunConfig.from_options(options)
    task, broker, over = build_task(config), MemoryBroker(), asyncio.Event()
    server = ServerConfig(name=TOPICS.name, timeout=attack.timeout or 60.0, **attack.server)
    observer = Counting()
    run = new_live_folder(folder, config, server)
    pool, models_sent = ThreadPoolExecutor(2), 0

    async def be(number: int) -> None:
        async def make(fields: object) -> Any:
            del fields
            return Endless(task, over) if attack.endless and number == ATTACKER else task

        async with broker.connect(Device.last_will(TOPICS, number, "boot")) as channel:
            attacks = number == ATTACKER
            used: Any = AttackersChannel(channel, attack) if attacks else channel
            own = ThreadPoolExecutor(1) if attacks and attack.endless else pool
            await Device(number, TOPICS, used, make, own, "boot").run()

    async def beside() -> None:
        nonlocal models_sent
        run_id = str(run.description()["live_run"])
        async with broker.connect() as channel:
            await channel.subscribe(TOPICS.to_device(ATTACKER, "work"))
            for count in range(1000 if attack.floods else 0):
                if count % 100 == 0:
                    await asyncio.sleep(0.1)  # not before the run has begun
                await channel.publish(*(attack.floods or greeting)(run_id))
            async for arrival in channel.arrivals():
                models_sent += isinstance(arrival, Message) and len(arrival.payload) > 10_000

    tasks = [asyncio.create_task(be(n)) for n in range(1, config.channel.devices + 1)]
    tasks.append(asyncio.create_task(beside()))
    try:
        async with broker.connect() as channel:
            outcome = await run_live(
                run, LivePlan.of(config), task, channel, server=server, observer=observer
            )
    finally:
        over.set()
        for one in tasks:
            one.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
        pool.shutdown()
    return Result(outcome, observer, models_sent, attack)


def notes_on(result: Result, clean: Result) -> list[str]:
    """Return what the server has done about an attack, and what must not have happened."""
    seen, norms = result.observer, result.outcome.state.health.norms.get(ATTACKER)
    notes = [f"clipped {norms.clipped} of {norms.updates}"] if norms and norms.clipped else []
    notes += [f"excluded {', '.join(map(str, sorted(seen.excluded)))}"] if seen.excluded else []
    notes += [f"rolled back {seen.rolled_back}"] if seen.rolled_back else []
    if result.attack.waits:
        notes.append(f"waited {result.waited:.0f} s of at most {result.longest_wait:.0f}")
    notes += [f"{result.models_sent} models sent again"] if result.attack.floods else []
    return [*notes, *(f"FAILED: {problem}" for problem in result.problems(clean))]


def campaign(chosen: list[Attack], deadline: int, seed: int) -> Iterator[tuple[str, float, bool]]:
    """Play attacks and print their outcomes; yield name, share of the accuracy, and whether it failed."""

    def outcome(attack: Attack) -> Result:
        with tempfile.TemporaryDirectory() as folder:
            return asyncio.run(played(attack, deadline, seed, Path(folder) / "run"))

    print(f"{f'attack of device 1, seed {seed}':<46} {'status':<9} {'acc':>6} {'share':>6} {'s':>6}  notes")
    clean: dict[int, Result] = {}  # without an attack, by group size
    for attack in chosen:
        size = attack.options.get("group_size", 2)
        if size not in clean and attack.name != "none":
            clean[size] = outcome(Attack(f"none, S={size}", options={"group_size": size}))
        result = outcome(attack)
        without = clean.setdefault(size, result)
        share = result.accuracy / without.accuracy
        print(
            f"{attack.name:<46} {result.outcome.status:<9} {result.accuracy:>6.1%} {share:>6.0%} "
            f"{result.seconds:>6.1f}  {'; '.join(notes_on(result, without))}",
            flush=True,
        )
        yield attack.name, share, bool(result.problems(without))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deadline", type=int, default=1200, help="slots of a run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the runs; 0: used for tuning")
    parser.add_argument(
        "--only", default="", help="attacks whose name contains this, and the run without one"
    )
    options = parser.parse_args()
    chosen = [attack for attack in ATTACKS if attack.name == "none" or options.only in attack.name]
    outcomes = [row for seed in options.seeds for row in campaign(chosen, options.deadline, seed)]
    if len(options.seeds) > 1:
        print(f"\n{'share of the accuracy without an attack':<46} {'least':>6} {'mean':>6}")
        for attack in chosen:
            shares = [share for name, share, _ in outcomes if name == attack.name]
            print(f"{attack.name:<46} {min(shares):>6.0%} {sum(shares) / len(shares):>6.0%}")
    sys.exit(any(failed for _, _, failed in outcomes))


if __name__ == "__main__":
    main()
