"""The numbers that rules compare, their tolerances, and three-valued logic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf, nan

import numpy as np

from slotwise.learning import Point
from slotwise.runs.saved_run import FINAL_PART

TIE = 0.01
MONOTONE_TOLERANCE = 0.10
COLLAPSED = 0.15  # final accuracy under which a model of ten classes is little better than guessing

DEFINITIONS = (
    ("final loss", "the median training loss over the last tenth of the slots, the last evaluation included"),
    ("final accuracy", "the median test accuracy over the same evaluations"),
    ("mean loss", "the training loss averaged over all slots, linear between evaluations: a fast run is low"),
    (
        "fluctuation",
        "the standard deviation of the steps from one evaluation to the next over the second half of the "
        "slots; of the training loss itself, as the paper plots it, or of the test accuracy",
    ),
    (
        "loss over the same rounds",
        "of two curves of different length: the median loss over the last tenth of the rounds of the shorter "
        "one; the longer one is read at the same rounds by linear interpolation",
    ),
    ("tie", "two losses that differ by less than 1 % of the larger; neither is below the other"),
    (
        "collapsed",
        f"a run whose final accuracy is under {COLLAPSED:.0%}, so that its model guesses, or whose model "
        "diverged. It is worse than a run that learns, whatever its loss; two collapsed runs are not "
        "compared, and a pair of them is left out. It is no part of a trend over the group sizes",
    ),
    (
        "verdict",
        "every statement is judged on each seed by itself: held if it holds on every seed, not held if it "
        "fails on every seed, not decided where seeds disagree, where it depends on a tie, where all "
        "runs collapsed, where one is missing or unfinished, and for statements about the end of training "
        "where the deadline is shorter than the paper's",
    ),
)

Truth = bool | None
"""True, False, or None if the figures leave it open."""


def mean_loss(points: Sequence[Point]) -> float:
    """Return the training loss averaged over the slots, linear between evaluations."""
    return _mean_over([point.slot for point in points], [point.loss for point in points])


def mean_loss_over_rounds(points: Sequence[Point], rounds: int) -> float:
    """Return the training loss averaged over the first rounds, linear between evaluations."""
    known, losses = [point.round for point in points], [point.loss for point in points]
    places = [*(place for place in known if place < rounds), rounds]
    return _mean_over(places, np.interp(places, known, losses).tolist())


def _mean_over(places: Sequence[int], losses: Sequence[float]) -> float:
    widths, heights = np.diff(places), np.array(losses)
    if not widths.sum():
        return float(heights[-1])
    return float(widths @ (heights[1:] + heights[:-1]) / 2 / widths.sum())


def fluctuation(points: Sequence[Point], deadline: int, *, accuracy: bool = False) -> float:
    """Return the standard deviation of the steps of the loss over the second half of the slots.

    Those of the accuracy, if wanted; NaN if there are fewer than three evaluations.
    """
    late = [point for point in points if point.slot >= deadline / 2]
    values = [point.accuracy if accuracy else point.loss for point in late]
    return float(np.std(np.diff(values))) if len(late) > 2 else nan


def losses_over_same_rounds(longer: Sequence[Point], shorter: Sequence[Point]) -> tuple[float, float]:
    """Return the median loss of both curves over the last tenth of the shorter one's rounds."""
    late = [p for p in shorter if p.round > (1 - FINAL_PART) * shorter[-1].round]
    at_same = np.interp([p.round for p in late], [p.round for p in longer], [p.loss for p in longer])
    return float(np.median(at_same)), float(np.median([p.loss for p in late]))


def below(one: float, other: float) -> Truth:
    """Return whether ``one`` is lower; None if the two tie, as infinite losses (collapsed) do."""
    return None if ties(one, other) else one < other


def ties(one: float, other: float) -> bool:
    """Return whether two numbers differ by less than 1 % of the larger, or not at all."""
    return one == other or abs(one - other) < TIE * max(abs(one), abs(other))


def lowest(losses: Mapping[int, float]) -> tuple[int, ...]:
    """Return the group sizes whose loss is the lowest or ties with it; never an infinite one (collapsed)."""
    known = {size: loss for size, loss in losses.items() if loss < inf}
    best = min(known.values(), default=inf)
    return tuple(size for size, loss in known.items() if below(best, loss) is not True)


def is_lowest(losses: Mapping[int, float], size: int) -> Truth:
    """Return whether a group size has the lowest loss; None if it ties with another, or if all collapsed."""
    others = [loss for other, loss in losses.items() if other != size]
    return every(below(losses[size], loss) for loss in others)


def falls(values: Sequence[float]) -> bool:
    """Return whether no value is more than 10 % above the one before, and the last is below the first."""
    limit = 1 + MONOTONE_TOLERANCE
    return values[-1] < values[0] and all(b <= limit * a for a, b in pairwise(values))


def every(truths: Iterable[Truth]) -> Truth:
    """Return True if all are true, False if one is false, None otherwise, and if there are none."""
    known = list(truths)
    return False if False in known else None if None in known or not known else True


def some(truths: Iterable[Truth]) -> Truth:
    """Return True if one is true, False if all are false, None otherwise, and if there are none."""
    known = list(truths)
    return True if True in known else None if None in known or not known else False


def majority(truths: Iterable[Truth]) -> Truth:
    """Return True if more than half are true, False if that cannot be any more, None otherwise.

    Also None if there are none.
    """
    known = list(truths)
    if not known:
        return None
    if 2 * known.count(True) > len(known):
        return True
    return None if 2 * (len(known) - known.count(False)) > len(known) else False


def unanimous(truths: Iterable[Truth]) -> Truth:
    """Return what all seeds agree on; None if they disagree."""
    known = set(truths)
    return known.pop() if len(known) == 1 else None
