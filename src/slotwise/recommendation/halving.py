"""Successive halving over nested deadlines: pure logic, no training.

Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization", AISTATS
2016, arXiv:1502.07943: train all candidates a little, keep the better half, train those longer, and so on.
The resource is the deadline: a rung is an eighth of it, then a quarter, a half and more, and each trial
resumes from the rung before. The first rung is as late as the limit allows, because the best candidates are
not yet better than others soon after their start.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from slotwise.errors import InputError

SIXTEENTHS = 16
FIRST_RUNGS = (8, 4, 2, 1)  # in sixteenths of the deadline, the best first
HALF = 8  # where the two finalists should get to at least
SMALLEST = (1,)  # the rungs of the smallest search, which has one seed
FINALISTS = 2

C = TypeVar("C", bound=Hashable)
Score = tuple[float, ...]
"""A score: lower is better, compared part by part."""
Steps = Sequence[Sequence[int]]
"""SGD steps of each candidate up to each sixteenth of the deadline, from none (0) to all (16)."""


def ladder(first: int, last: int) -> tuple[int, ...]:
    """Return the rungs from ``first``, doubled, to ``last``, in sixteenths of the deadline."""
    return (*(rung for rung in sorted(FIRST_RUNGS) if first <= rung < last), last)


def ladders() -> Iterator[tuple[int, ...]]:
    """Yield all ladders, the best first: a late first rung, then a late last one; short ladders last."""
    for first in FIRST_RUNGS:
        yield from (ladder(first, last) for last in range(SIXTEENTHS, max(HALF, first + 1) - 1, -1))
    yield from (ladder(1, last) for last in range(HALF - 1, 0, -1))


def kept(count: int) -> int:
    """Return how many of ``count`` candidates are kept: the better half, rounded up, and at least two."""
    return min(count, max(FINALISTS, -(-count // 2)))


def most_steps(rungs: Sequence[int], steps: Steps) -> int:
    """Return the most steps a search can take, whichever candidates are kept."""
    total, before, alive = 0, 0, len(steps)
    for rung in rungs:
        climbs = sorted((of[rung] - of[before] for of in steps), reverse=True)
        total += sum(climbs[:alive])
        before, alive = rung, kept(alive)
    return total


@dataclass(frozen=True)
class Extent:
    """The size of a search: the first ``seeds`` seeds up these rungs, in at most ``limit`` SGD steps."""

    seeds: int
    rungs: tuple[int, ...]
    limit: int


def extent_within_budget(steps_by_seed: Sequence[Steps], budget: int) -> Extent:
    """Return the largest search of at most ``budget`` steps; seeds are given up first, then rungs.

    An InputError if the smallest search, one seed and a sixteenth of the deadline, costs more.
    """
    if len(steps_by_seed[0]) < FINALISTS:
        return Extent(len(steps_by_seed), (), budget)
    for seeds in range(len(steps_by_seed), 0, -1):
        steps = _together(steps_by_seed[:seeds])
        if most_steps(ladder(1, HALF), steps) <= budget:
            return Extent(seeds, _best_ladder(steps, budget), budget)
    smallest = most_steps(SMALLEST, steps_by_seed[0])
    if smallest > budget:
        raise InputError("budget", budget, f"at least {smallest}, the SGD steps of the smallest search")
    return Extent(1, _best_ladder(steps_by_seed[0], budget), budget)


def extent_within_quarter(steps_by_seed: Sequence[Steps], grid: int) -> Extent:
    """Return the largest search with all seeds that takes less than a quarter of the steps of the ``grid``.

    An InputError if there is none, so that a budget is required.
    """
    steps, limit = _together(steps_by_seed), -(-grid // 4) - 1
    if len(steps) < FINALISTS:
        return Extent(len(steps_by_seed), (), limit)
    if most_steps(SMALLEST, steps) > limit:
        smallest = most_steps(SMALLEST, steps_by_seed[0])
        raise InputError("budget", "missing", f"given here; the smallest usable value is {smallest}")
    return Extent(len(steps_by_seed), _best_ladder(steps, limit), limit)


def _together(steps_by_seed: Sequence[Steps]) -> list[list[int]]:
    """Return the steps of all seeds together."""
    by_candidate = zip(*steps_by_seed, strict=True)
    return [[sum(numbers) for numbers in zip(*seeds, strict=True)] for seeds in by_candidate]


def _best_ladder(steps: Steps, limit: int) -> tuple[int, ...]:
    """Return the best ladder within the limit; at least one is known to fit."""
    return next(rungs for rungs in ladders() if most_steps(rungs, steps) <= limit)


@dataclass(frozen=True)
class Rung(Generic[C]):
    """The result of one rung, which ends at ``sixteenths`` of the deadline."""

    sixteenths: int
    ranking: tuple[tuple[C, Score], ...]  # best first
    out: tuple[C, ...]  # those that diverged
    kept: tuple[C, ...]  # those that continue; on the last rung, the best


def halve(
    rungs: Sequence[int],
    candidates: Sequence[C],
    measure: Callable[[int, Sequence[C]], Mapping[C, Score | None]],
) -> tuple[Rung[C], ...]:
    """Measure fewer and fewer candidates rung by rung; the first of the last ranking is the best.

    ``measure`` trains candidates up to a rung and returns their scores, None for one that diverged. Of equal
    scores the earlier candidate is better. The search ends early if at most one candidate is left.
    """
    found: list[Rung[C]] = []
    alive = tuple(candidates)
    for rung in rungs:
        scores = measure(rung, alive)
        known = [(candidate, score) for candidate in alive if (score := scores[candidate]) is not None]
        ranking = tuple(sorted(known, key=lambda pair: pair[1]))  # sorting keeps the order of equals
        out = tuple(candidate for candidate in alive if scores[candidate] is None)
        count = 1 if rung == rungs[-1] else kept(len(alive))
        alive = tuple(candidate for candidate, _ in ranking[:count])
        found.append(Rung(rung, ranking, out, alive))
        if len(alive) < FINALISTS:
            break
    return tuple(found)
