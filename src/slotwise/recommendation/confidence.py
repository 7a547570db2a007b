"""How sure the answer is: seeds won, and resamples won."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotwise.recommendation.metric import Metric, Reading

RESAMPLES = 2_000


@dataclass(frozen=True)
class Confidence:
    """The best against the runner-up on the last rung they both climbed.

    Attributes:
        seeds: compared.
        seeds_won: those with which the best is better by itself.
        resamples_won: the share of resamples in which it is better; None where there is nothing to resample.
    """

    seeds: int
    seeds_won: int
    resamples_won: float | None


def confidence(metric: Metric, best: Sequence[Reading], runner_up: Sequence[Reading]) -> Confidence:
    """Both with the same seeds, in the same order."""
    pairs = list(zip(best, runner_up, strict=True))
    won = sum(metric.score([one]) < metric.score([other]) for one, other in pairs)
    return Confidence(len(pairs), won, _resamples_won(metric, pairs))


def _resamples_won(metric: Metric, pairs: Sequence[tuple[Reading, Reading]]) -> float | None:
    """A bootstrap paired by seed: draw as many seeds, then for each as many evaluations of both, anew.

    The draws are the same every time: the answer is a function of the curves.
    """
    samples = [(metric.samples(one), metric.samples(other)) for one, other in pairs]
    known = [(np.array(one), np.array(other)) for one, other in samples if one and other]
    if len(known) < len(pairs) or max(len(pairs), *(len(values) for both in known for values in both)) == 1:
        return None
    draw = np.random.Generator(np.random.Philox(key=0))
    shape = (RESAMPLES, len(pairs))
    differences = np.array(
        [_resampled(one, shape, draw) - _resampled(other, shape, draw) for one, other in known]
    )
    seeds = draw.integers(len(pairs), size=shape)
    places = np.arange(len(pairs))
    rows = np.arange(RESAMPLES)[:, None]
    means = differences[seeds, rows, places].mean(axis=1)
    return float((means < 0).mean())


def _resampled(
    values: NDArray[np.float64], shape: tuple[int, int], draw: np.random.Generator
) -> NDArray[np.float64]:
    """Means of as many values drawn with replacement."""
    chosen = draw.integers(len(values), size=(*shape, len(values)))
    means: NDArray[np.float64] = values[chosen].mean(axis=2)
    return means
