"""The tuned study: every schedule and group size with the step size that suits it best.

The rule was fixed before the runs. Step sizes are `FIRST_STEP` times powers of two. For each method:

1. Pilots of `PILOT_DEADLINE` slots with the tuning seed, one for each step of `PILOT_POWERS`.
2. Runs of full length with the tuning seed: the best step of the pilots and its two neighbours.
3. Runs of full length with the judging seeds, which are others, at the best step of the second stage.

The best step has the lowest final training loss; a run that diverged has an infinite one. Where the best step
is the smallest or the largest that was tried, the next one is tried too, so that no edge of a grid is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from slotwise.batch.job import Run, as_trained, free_delay
from slotwise.runs import RunConfig

FIRST_STEP = 0.0005
PILOT_POWERS = range(10)  # 0.0005 to 0.256
FEWEST_POWER, MOST_POWER = -6, 14  # no search goes further
PILOT_DEADLINE, DEADLINE = 10_000, 50_000
PILOT_INTERVAL, INTERVAL = 500, 500  # slots between evaluations
TUNING_SEED = 10
JUDGING_SEEDS = (0, 1, 2)

Loss = Callable[["Trial"], float | None]
"""The final training loss of a trial; None if it has not been trained yet, infinite if it diverged."""


@dataclass(frozen=True)
class Method:
    """What is compared: a schedule with a group size, and what else is not the paper's case.

    Attributes:
        name: Name in tables, figures and files.
        family: Methods that differ only in the group size, as in "idfl".
        group_size: S.
        others: Further options, as pairs.
    """

    name: str
    family: str
    group_size: int
    others: tuple[tuple[str, Any], ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """Options of a run with this method."""
        return {"group_size": self.group_size, **dict(self.others)}

    @cached_property
    def staleness(self) -> int:
        """Rounds between the model that an update was computed from and the one it is applied to."""
        config = RunConfig.from_options(self.options)
        if config.schedule == "sync":
            return 0
        delay = config.options().get("delay", 0)
        known = free_delay(config.channel) if delay == "auto" else delay
        return config.channel.groups - 1 - int(known)


class Trial(NamedTuple):
    """One training of a method: power of the step size, seed and deadline."""

    method: Method
    power: int
    seed: int
    deadline: int

    @property
    def step(self) -> float:
        """The step size."""
        return step_size(self.power)

    @property
    def name(self) -> str:
        """Name of the run folder."""
        return f"{self.method.name.replace(' ', '-')}-step{self.step:g}-T{self.deadline}-seed{self.seed}"

    def run(self) -> Run:
        """Return the run that trains it."""
        interval = PILOT_INTERVAL if self.deadline == PILOT_DEADLINE else INTERVAL
        own = {"learning_rate": self.step, "seed": self.seed, "deadline": self.deadline}
        config = RunConfig.from_options({**self.method.options, **own, "evaluate_every": interval})
        return Run(self.name, as_trained(config))


def step_size(power: int) -> float:
    """Return the step size of a power of two."""
    return FIRST_STEP * 2.0**power


def between_schedules(group_size: int, staleness: Iterable[int], devices: int = 100) -> Iterator[Method]:
    """Yield a method for each staleness: devices wait for a later model by as many rounds as that needs."""
    for rounds in staleness:
        delay = -(-devices // group_size) - 1 - rounds
        others = (("schedule", "idfl"), ("delay", delay))
        yield Method(f"d={rounds} S={group_size}", f"d={rounds}", group_size, others)


def _schedule(schedule: str, group_sizes: Iterable[int]) -> Iterator[Method]:
    for size in group_sizes:
        yield Method(f"{schedule} S={size}", schedule, size, (("schedule", schedule),))


# At S=50 no delay is free, so idfl is async; at S=100 both are sync.
METHODS: tuple[Method, ...] = (
    *_schedule("sync", (1, 5, 10, 25, 50, 100)),
    *_schedule("async", (1, 5, 10, 25, 50)),
    *_schedule("idfl", (1, 5, 10, 25)),
    *between_schedules(1, (5, 12, 50)),
    *between_schedules(5, (2, 5, 14)),
    *between_schedules(10, (1, 3, 7)),
)


def pilots(method: Method, powers: Iterable[int] = PILOT_POWERS) -> Iterator[Trial]:
    """Yield the pilots of a method."""
    return (Trial(method, power, TUNING_SEED, PILOT_DEADLINE) for power in powers)


def tuning(method: Method, powers: Iterable[int]) -> Iterator[Trial]:
    """Yield the runs of full length that the step is chosen from."""
    return (Trial(method, power, TUNING_SEED, DEADLINE) for power in powers)


def judging(method: Method, power: int) -> tuple[Trial, ...]:
    """Return the runs that a method is judged on, at the chosen step."""
    return tuple(Trial(method, power, seed, DEADLINE) for seed in JUDGING_SEEDS)


class Choice(NamedTuple):
    """The best power of a search, or what has to be trained before it is known."""

    power: int | None
    missing: tuple[Trial, ...] = ()


def search(trials: Callable[[Iterable[int]], Iterable[Trial]], start: Sequence[int], loss: Loss) -> Choice:
    """Return the best power, from ``start`` on until it is not at the edge, or what has to be trained."""
    powers = list(start)
    while True:
        tried = list(trials(powers))
        losses = {trial.power: loss(trial) for trial in tried}
        if missing := tuple(trial for trial in tried if losses[trial.power] is None):
            return Choice(None, missing)
        best = min(powers, key=lambda power: (losses[power], power))
        if best == powers[0] > FEWEST_POWER:
            powers.insert(0, best - 1)
        elif best == powers[-1] < MOST_POWER:
            powers.append(best + 1)
        else:
            return Choice(best)


def choose(method: Method, loss: Loss) -> Choice:
    """Return the step that a method is judged with, or the trials of its next stage."""
    first = search(lambda powers: pilots(method, powers), PILOT_POWERS, loss)
    if first.power is None:
        return first
    near = range(max(first.power - 1, FEWEST_POWER), min(first.power + 1, MOST_POWER) + 1)
    return search(lambda powers: tuning(method, powers), near, loss)


def needed(methods: Iterable[Method], loss: Loss) -> tuple[Trial, ...]:
    """Return the trials to train next; none if every method has been judged."""
    return tuple(chain.from_iterable(_needed(method, loss) for method in methods))


def _needed(method: Method, loss: Loss) -> Iterable[Trial]:
    choice = choose(method, loss)
    if choice.power is None:
        return choice.missing
    return (trial for trial in judging(method, choice.power) if loss(trial) is None)
