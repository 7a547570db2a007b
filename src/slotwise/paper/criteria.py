"""The numbers that rules compare, their tolerances and three-valued logic. Fixed before the runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from slotwise.learning import Point
from slotwise.runs.run_folder import FINAL_PART

TIE = 0.01
CLEARLY = 0.10
MONOTONE_TOLERANCE = 0.10

DEFINITIONS = (
    (
        "final loss",
        "the mean global loss over the last tenth of the slots, the last evaluation always included",
    ),
    (
        "fluctuation",
        "the standard deviation of the steps of the log loss from one evaluation to the next, over the "
        "second half of the slots",
    ),
    (
        "loss over the same rounds",
        "of two curves of different length: the mean loss over the last tenth of the rounds of the shorter "
        "one; the longer one is read at the same rounds by linear interpolation",
    ),
    ("tie", "two losses that differ by less than 1 % of the larger; neither is below the other"),
    ("clearly worse", "at least 10 % above"),
    (
        "verdict",
        "every statement of a claim is judged on each seed by itself: held if it holds on every seed, not "
        "held if it fails on every seed, not decided where seeds disagree, where figures tie, or where a run "
        "it needs is missing, unfinished or diverged. A claim is held if all its statements are, not held "
        "if one of them is not",
    ),
)

Truth = bool | None
"""True, False, or None if the figures leave it open."""


def fluctuation(points: Sequence[Point], deadline: int) -> float:
    """Return the standard deviation of the steps of the log loss over the second half of the slots."""
    late = np.log([p.loss for p in points if p.slot >= deadline / 2])
    return float(np.std(np.diff(late))) if len(late) > 2 else float("nan")


def losses_over_same_rounds(longer: Sequence[Point], shorter: Sequence[Point]) -> tuple[float, float]:
    """Return the mean loss of both curves over the last tenth of the shorter one's rounds."""
    late = [p for p in shorter if p.round > (1 - FINAL_PART) * shorter[-1].round]
    at_same = np.interp([p.round for p in late], [p.round for p in longer], [p.loss for p in longer])
    return float(np.mean(at_same)), float(np.mean([p.loss for p in late]))


def below(one: float, other: float) -> Truth:
    """Return whether ``one`` is lower; None if the two tie."""
    return None if abs(one - other) < TIE * max(one, other) else one < other


def clearly_above(one: float, other: float) -> bool:
    """Return whether ``one`` is at least 10 % above ``other``."""
    return one >= (1 + CLEARLY) * other


def lowest(losses: dict[int, float]) -> tuple[int, ...]:
    """Return the group sizes whose loss is the lowest or ties with it."""
    best = min(losses.values())
    return tuple(size for size, loss in losses.items() if below(best, loss) is not True)


def falls(values: Sequence[float]) -> bool:
    """Return whether no value is more than 10 % above the one before, and the last is below the first."""
    limit = 1 + MONOTONE_TOLERANCE
    return values[-1] < values[0] and all(b <= limit * a for a, b in pairwise(values))


def every(truths: Iterable[Truth]) -> Truth:
    """Return True if all are true, False if one is false, None otherwise."""
    known = list(truths)
    return False if False in known else None if None in known else True


def some(truths: Iterable[Truth]) -> Truth:
    """Return True if one is true, False if all are false, None otherwise."""
    known = list(truths)
    return True if True in known else None if None in known else False


def unanimous(truths: Iterable[Truth]) -> Truth:
    """Return what all seeds agree on; None if they disagree."""
    known = set(truths)
    return known.pop() if len(known) == 1 else None
