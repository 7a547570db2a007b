"""Discounts s(d): the weight of an update that is d rounds old; 1 for a fresh one, never rising.

The three discounts of FedAsync (Xie, Koyejo and Gupta, "Asynchronous Federated Optimization", OPT 2020,
arXiv:1903.03934, section 5), shared by the other rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from slotwise.errors import InputError

Discount = Callable[[int], float]


def constant(staleness: int) -> float:  # noqa: ARG001
    """s(d) = 1: age does not matter."""
    return 1.0


@dataclass(frozen=True)
class Polynomial:
    """s(d) = (1 + d)^(−a), with a = ``power``."""

    power: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.power <= 16:
            raise InputError("power", self.power, "a number from 0 to 16")

    def __call__(self, staleness: int) -> float:
        """Return the weight s(d)."""
        return float((1.0 + staleness) ** -self.power)


@dataclass(frozen=True)
class Hinge:
    """s(d) = 1 up to d = b, then 1 / (a(d − b) + 1), with a = ``slope`` and b = ``grace``."""

    slope: float = 10.0
    grace: float = 4.0

    def __post_init__(self) -> None:
        if not 0 < self.slope <= 1_000_000:
            raise InputError("slope", self.slope, "a number above 0 and at most 1,000,000")
        if not 0 <= self.grace < inf:
            raise InputError("grace", self.grace, "a finite number of rounds, at least 0")

    def __call__(self, staleness: int) -> float:
        """Return the weight s(d)."""
        return 1.0 / (self.slope * max(0.0, staleness - self.grace) + 1.0)
