"""The tuned study: every schedule and group size with the step size that suits it best.

The rule was fixed before the results. Step sizes are `FIRST_STEP` times powers of two. For each method:

1. Pilots of `PILOT_DEADLINE` slots with the tuning seed: the step of `first_guess` and its two neighbours.
2. Runs of full length with the tuning seed: the best step of the pilots and its two neighbours.
3. Runs of full length with the judging seeds, which are others, at the best step of the second stage.

The best step has the lowest final training loss; a run that diverged has an infinite one. Where the best step
is the smallest or the largest that was tried, the next one is tried too, so that no edge of a grid is chosen;
where no run of a search has a loss below `LEARNS`, the next smaller one is tried.

A first version of the rule had a pilot for each of ten steps, from 0.0005 to 0.256. It was replaced, before
any run of full length, because a search needs half as many pilots. `LEARNS` was ln 10 until the pilots of
async S=5 ended at a step with a loss of 2.1, with which it does not learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import floor, log2, pi, sin
from typing import Any, NamedTuple

from slotwise.batch.job import Run, as_trained, free_delay
from slotwise.runs import RunConfig

FIRST_STEP = 0.0005
GUESS_WITHOUT_STALENESS = 0.128
LEARNS = (
    2.0  # training loss above which a run has hardly learned: guessing labels by their frequencies has 2.26
)
FEWEST_POWER, MOST_POWER = -6, 14  # no search goes further
PILOT_DEADLINE, DEADLINE = 10_000, 50_000
PILOT_INTERVAL, INTERVAL = 500, 500  # slots between evaluations
TUNING_SEED = 10
JUDGING_SEEDS = (0, 1, 2)

Loss = Callable[["Trial"], float | None]
"""The final training loss of a trial; None if it has not been trained yet, infinite if it diverged."""


@dataclass(frozen=True)
class Method:
    """A method that is compared: a schedule with a group size, and what else is not the paper's case.

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
        """The step size that the power stands for."""
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


def _schedules(schedules: Iterable[str], group_sizes: Iterable[int]) -> Iterator[Method]:
    for size, schedule in product(group_sizes, schedules):
        yield Method(f"{schedule} S={size}", schedule, size, (("schedule", schedule),))


# In the order of training. At S=50 no delay is free, so idfl is async; at S=100 both are sync.
MAIN_METHODS: tuple[Method, ...] = (
    *_schedules(("sync", "idfl", "async"), (10, 5)),
    *_schedules(("sync", "async"), (50,)),
    *_schedules(("sync", "idfl", "async"), (25, 1)),
    *_schedules(("sync",), (100,)),
)
METHODS_BETWEEN: tuple[Method, ...] = (
    *between_schedules(10, (1, 3, 7)),
    *between_schedules(5, (2, 5, 14)),
    *between_schedules(1, (5, 12, 50)),
)
METHODS = MAIN_METHODS + METHODS_BETWEEN


def first_guess(method: Method) -> int:
    """Return the power of the step that the pilots begin around, from the staleness d alone.

    A quadratic with updates d rounds old is stable for steps in proportion to sin(π/(2(2d+1))).
    """
    step = GUESS_WITHOUT_STALENESS * sin(pi / (2 * (2 * method.staleness + 1)))
    power = floor(log2(step / FIRST_STEP) + 1e-9)  # with a margin for rounding
    return min(max(power, FEWEST_POWER), MOST_POWER)


def around(power: int) -> range:
    """Return a power and its neighbours, as far as a search may go."""
    return range(max(power - 1, FEWEST_POWER), min(power + 1, MOST_POWER) + 1)


def pilots(method: Method, powers: Iterable[int]) -> Iterator[Trial]:
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
        if missing := tuple(trial for trial in tried if loss(trial) is None):
            return Choice(None, missing)
        losses = {trial.power: loss(trial) or 0.0 for trial in tried}
        best = min(powers, key=lambda power: (losses[power], power))
        if best == powers[-1] < MOST_POWER:
            powers.append(best + 1)
        elif powers[0] > FEWEST_POWER and (best == powers[0] or losses[best] > LEARNS):
            powers.insert(0, powers[0] - 1)
        else:
            return Choice(best)


def choose_pilot(method: Method, loss: Loss) -> Choice:
    """Return the best step of the pilots of a method, or the pilots to train next."""
    return search(lambda powers: pilots(method, powers), around(first_guess(method)), loss)


def choose(method: Method, loss: Loss) -> Choice:
    """Return the step that a method is judged with, or the trials of its next stage."""
    first = choose_pilot(method, loss)
    if first.power is None:
        return first
    return search(lambda powers: tuning(method, powers), around(first.power), loss)


def needed(methods: Sequence[Method], loss: Loss) -> tuple[Trial, ...]:
    """Return the trials to train next, in order; none if every method has been judged.

    Pilots come first, and methods between the schedules after all others.
    """
    trials = [trial for method in methods for trial in _needed(method, loss)]
    return tuple(sorted(trials, key=lambda trial: (trial.method in METHODS_BETWEEN, trial.deadline)))


def _needed(method: Method, loss: Loss) -> Iterable[Trial]:
    choice = choose(method, loss)
    if choice.power is None:
        return choice.missing
    return (trial for trial in judging(method, choice.power) if loss(trial) is None)
