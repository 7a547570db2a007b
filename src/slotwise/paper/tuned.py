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
from math import floor, log2, pi, sin
from typing import NamedTuple

from slotwise.batch.job import Run, as_trained
from slotwise.paper.tuned_cases import Method
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
        config = RunConfig.from_options({"evaluate_every": interval, **self.method.options, **own})
        return Run(self.name, as_trained(config))


def step_size(power: int) -> float:
    """Return the step size of a power of two."""
    return FIRST_STEP * 2.0**power


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

    Parts come in the order of their first methods; in each the pilots first, then group size by group size.
    """
    places = {part: place for place, part in enumerate(dict.fromkeys(method.part for method in methods))}
    trials = [trial for method in methods for trial in _needed(method, loss)]
    return tuple(sorted(trials, key=lambda trial: (places[trial.method.part], trial.deadline)))


def _needed(method: Method, loss: Loss) -> Iterable[Trial]:
    choice = choose(method, loss)
    if choice.power is None:
        return choice.missing
    return (trial for trial in judging(method, choice.power) if loss(trial) is None)
