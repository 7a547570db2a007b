"""How sure the answer is: seeds won, and resamples won."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotwise.recommend.metric import Metric, Reading

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
    draw = np.random.Generator(np.random.Philox(key=0))
    differences = _differences(metric, pairs, draw)
    if differences is None:
        return None
    seeds = draw.integers(len(pairs), size=(RESAMPLES, len(pairs)))
    places = np.arange(len(pairs))
    rows = np.arange(RESAMPLES)[:, None]
    means = differences[seeds, rows, places].mean(axis=1)
    return float((means < 0).mean())


def _differences(
    metric: Metric, pairs: Sequence[tuple[Reading, Reading]], draw: np.random.Generator
) -> NDArray[np.float64] | None:
    """Best minus runner-up, lower is better: [seed, resample, place in the resample]."""
    shape = (RESAMPLES, len(pairs))
    if metric.name == "joules-to-target":
        known = [(one.joules, other.joules) for one, other in pairs]
        if len(pairs) < 2 or any(None in both for both in known):
            return None
        return np.array([np.full(shape, one - other) for one, other in known])  # type: ignore[operator]
    return np.array(
        [
            _resampled(_numbers(metric, one), shape, draw) - _resampled(_numbers(metric, other), shape, draw)
            for one, other in pairs
        ]
    )


def _numbers(metric: Metric, reading: Reading) -> NDArray[np.float64]:
    """Lower is better."""
    return np.array(reading.losses) if metric.name == "loss" else -np.array(reading.accuracies)


def _resampled(
    values: NDArray[np.float64], shape: tuple[int, int], draw: np.random.Generator
) -> NDArray[np.float64]:
    """Means of as many values drawn with replacement."""
    chosen = draw.integers(len(values), size=(*shape, len(values)))
    means: NDArray[np.float64] = values[chosen].mean(axis=2)
    return means
