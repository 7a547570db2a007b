"""Mean and spread over seeds: what a band in a figure and ± in a table mean."""

from __future__ import annotations

from functools import cache
from math import cos, pi, sin, sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Spread = Literal["min-max", "std", "95%"]
CONFIDENCE = 0.95


class Interval(NamedTuple):
    """Mean over the seeds, and the bounds of its spread."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def interval(values: ArrayLike, spread: Spread) -> Interval:
    """Return mean and spread over the first axis, the seeds; both bounds are the mean if there is one seed.

    The spread reaches from the lowest to the highest value, one sample standard deviation s to both sides, or
    t·s/√n, the confidence interval of the mean of n normally distributed values.
    """
    rows = np.asarray(values, dtype=float)
    mean, seeds = rows.mean(axis=0), len(rows)
    if seeds == 1 or spread == "min-max":
        return Interval(mean, rows.min(axis=0), rows.max(axis=0))
    half = np.std(rows, axis=0, ddof=1)
    if spread == "95%":
        half = t_quantile(seeds - 1) * half / sqrt(seeds)
    return Interval(mean, mean - half, mean + half)


@cache
def t_quantile(freedom: int) -> float:
    """Return the t with P(|T| ≤ t) = 0.95 for Student's distribution with ``freedom`` degrees of freedom."""
    low, high = 0.0, pi / 2  # t = √ν·tan θ, and the probability grows with θ
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < CONFIDENCE else (low, middle)
    return sqrt(freedom) * sin(low) / cos(low)


def _within(angle: float, freedom: int) -> float:
    """Return P(|T| ≤ √ν·tan θ), a finite sum for whole ν (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    term = total = cos(angle) if freedom % 2 else 1.0
    for k in range(2 + freedom % 2, freedom, 2):
        term *= (k - 1) / k * cos(angle) ** 2
        total += term
    if freedom % 2 == 0:
        return sin(angle) * total
    return 2 / pi * (angle + (sin(angle) * total if freedom > 1 else 0.0))
