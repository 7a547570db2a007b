"""Successive halving over nested deadlines: pure logic, no training.

Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization", AISTATS
2016, arXiv:1502.07943: try all candidates a little, keep the better half, try those longer, and so on. The
resource here is the deadline: a rung is an eighth of it, then a quarter, a half and more, and each trial goes
on from where it stood on the rung before. The first rung is as late as the limit allows: soon after their
start, those that will be best are not yet better than others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from slotwise.errors import InputError

SIXTEENTHS = 16
FIRST_RUNGS = (8, 4, 2, 1)  # in sixteenths of the deadline, the best first
HALF = 8  # where the two finalists should get to at least
FINALISTS = 2

C = TypeVar("C", bound=Hashable)
Score = tuple[float, ...]
"""Lower is better, compared part by part."""
Steps = Sequence[Sequence[int]]
"""SGD steps of each candidate up to each sixteenth of the deadline, from none (0) to all (16)."""


def ladder(first: int, last: int) -> tuple[int, ...]:
    """The rungs from ``first``, doubled, to ``last``, in sixteenths of the deadline."""
    return (*(rung for rung in sorted(FIRST_RUNGS) if first <= rung < last), last)


def ladders() -> Iterator[tuple[int, ...]]:
    """All there are, the best first: a late first rung, then a late last one; at the end, short ones."""
    for first in FIRST_RUNGS:
        yield from (ladder(first, last) for last in range(SIXTEENTHS, max(HALF, first + 1) - 1, -1))
    yield from (ladder(1, last) for last in range(HALF - 1, 0, -1))


def kept(count: int) -> int:
    """How many of ``count`` candidates climb on: the better half, rounded up; two as long as there are."""
    return min(count, max(FINALISTS, -(-count // 2)))


def most_steps(rungs: Sequence[int], steps: Steps) -> int:
    """What a search costs at most, whichever candidates turn out to be the better ones."""
    total, before, alive = 0, 0, len(steps)
    for rung in rungs:
        climbs = sorted((of[rung] - of[before] for of in steps), reverse=True)
        total += sum(climbs[:alive])
        before, alive = rung, kept(alive)
    return total


@dataclass(frozen=True)
class Extent:
    """How much is tried: the first ``seeds`` of the seeds, up these rungs, in ``limit`` SGD steps at most."""

    seeds: int
    rungs: tuple[int, ...]
    limit: int


def extent_within_budget(steps_by_seed: Sequence[Steps], budget: int) -> Extent:
    """The largest search of at most ``budget`` steps: fewer seeds first, then fewer and shorter rungs.

    Raises:
        InputError: the smallest search, one seed and a sixteenth of the deadline, costs more.
    """
    if len(steps_by_seed[0]) < FINALISTS:
        return Extent(len(steps_by_seed), (), budget)
    for seeds in range(len(steps_by_seed), 0, -1):
        steps = _together(steps_by_seed[:seeds])
        if most_steps(ladder(1, HALF), steps) <= budget:
            return Extent(seeds, _best_ladder(steps, budget), budget)
    smallest = _smallest(steps_by_seed)
    if smallest > budget:
        raise InputError("budget", budget, f"at least {smallest} SGD steps, the smallest search there is")
    return Extent(1, _best_ladder(steps_by_seed[0], budget), budget)


def extent_within_quarter(steps_by_seed: Sequence[Steps], grid: int) -> Extent:
    """The largest search with all seeds that costs less than a quarter of the ``grid``'s steps.

    Raises:
        InputError: there is none; a budget has to say what it may cost.
    """
    steps, limit = _together(steps_by_seed), -(-grid // 4) - 1
    if len(steps) < FINALISTS:
        return Extent(len(steps_by_seed), (), limit)
    if most_steps(ladder(1, 1), steps) > limit:
        allowed = (
            f"given: no search with all seeds takes less than a quarter of the grid's {grid} SGD steps; "
            f"{_smallest(steps_by_seed)} are the fewest that allow one"
        )
        raise InputError("budget", "missing", allowed)
    return Extent(len(steps_by_seed), _best_ladder(steps, limit), limit)


def _smallest(steps_by_seed: Sequence[Steps]) -> int:
    """What one seed and a sixteenth of the deadline cost."""
    return most_steps(ladder(1, 1), steps_by_seed[0])


def _together(steps_by_seed: Sequence[Steps]) -> list[list[int]]:
    """The steps of all seeds."""
    return [
        [sum(numbers) for numbers in zip(*seeds, strict=True)] for seeds in zip(*steps_by_seed, strict=True)
    ]


def _best_ladder(steps: Steps, limit: int) -> tuple[int, ...]:
    """The best one within the limit, of which there is one at least."""
    return next(rungs for rungs in ladders() if most_steps(rungs, steps) <= limit)


@dataclass(frozen=True)
class Rung(Generic[C]):
    """One rung as it came out.

    Attributes:
        sixteenths: of the deadline.
        ranking: the candidates with their scores, best first.
        out: those that diverged.
        kept: those that climb on; on the last rung, the best.
    """

    sixteenths: int
    ranking: tuple[tuple[C, Score], ...]
    out: tuple[C, ...]
    kept: tuple[C, ...]


def halve(
    rungs: Sequence[int],
    candidates: Sequence[C],
    measure: Callable[[int, Sequence[C]], Mapping[C, Score | None]],
) -> tuple[Rung[C], ...]:
    """Climb the rungs with ever fewer candidates; the first of the last ranking is the best.

    ``measure`` tries candidates up to a rung and gives their scores, None for one that diverged. Of equal
    scores the earlier candidate is the better one. The climb ends early where at most one is left.
    """
    found: list[Rung[C]] = []
    alive = tuple(candidates)
    for rung in rungs:
        scores = measure(rung, alive)
        ranking = _ranking(alive, scores)
        out = tuple(candidate for candidate in alive if scores[candidate] is None)
        count = 1 if rung == rungs[-1] else kept(len(alive))
        alive = tuple(candidate for candidate, _ in ranking[:count])
        found.append(Rung(rung, ranking, out, alive))
        if len(alive) < FINALISTS:
            break
    return tuple(found)


def _ranking(alive: Sequence[C], scores: Mapping[C, Score | None]) -> tuple[tuple[C, Score], ...]:
    """Best first; sorting keeps the order of equals."""
    known = [(candidate, score) for candidate in alive if (score := scores[candidate]) is not None]
    return tuple(sorted(known, key=lambda pair: pair[1]))
