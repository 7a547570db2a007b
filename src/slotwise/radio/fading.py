"""Small-scale block fading: the power gain of a device in a block, with mean 1.

A gain is a function of a state of `slotwise.fleet.chances` that is keyed by seed, device and block, so any
block of any device is drawn directly, and those of many devices and blocks in one numpy call.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt
from typing import Protocol

import numpy as np

from slotwise.fleet.chances import Floats, States, mixed_all, units

_SMALLEST = 2.0**-54  # in place of 0 where a logarithm is taken


class Fading(Protocol):
    """Distribution of power gains with mean 1."""

    def gains(self, states: States) -> Floats:
        """Return a gain for each state, in the same shape."""


@dataclass(frozen=True)
class NoFading:
    """Gains that are always 1."""

    def gains(self, states: States) -> Floats:
        """Return 1 for each state."""
        return np.ones(states.shape)


@dataclass(frozen=True)
class Rayleigh:
    """No line of sight: the power gain is exponential: −ln(1 − u) (Tse and Viswanath, 2005, sec. 2.4.2)."""

    def gains(self, states: States) -> Floats:
        """Return a gain for each state."""
        return -np.log1p(-units(states))


@dataclass(frozen=True)
class Rician:
    """Line of sight with K times the power of all scattered paths (Tse and Viswanath, 2005, section 2.4.2).

    The gain is |sqrt(K) + z|² / (K + 1) with z complex normal of mean power 1; K = 0 is Rayleigh. |z|² is
    exponential and its angle is uniform, so two numbers and the law of cosines give the gain.
    """

    k: float

    def gains(self, states: States) -> Floats:
        """Return a gain for each state."""
        power, angle = -np.log1p(-units(states)), 2 * pi * units(mixed_all(states, 1))
        gains: Floats = (self.k + power + 2 * np.sqrt(self.k * power) * np.cos(angle)) / (self.k + 1)
        # Where both paths cancel, rounding may leave a tiny negative number.
        return np.asarray(np.maximum(0.0, gains), dtype=np.float64)


@dataclass(frozen=True)
class Nakagami:
    """Nakagami-m amplitude: the power gain is a gamma variable of shape m and mean 1 (Nakagami, 1960).

    m = 1 is Rayleigh. Gains are drawn by rejection (Marsaglia and Tsang, ACM TOMS 26, 2000) from numbers
    keyed by the attempt; a gamma variable of shape m < 1 is one of shape m + 1 times u^(1/m).
    """

    m: float

    def gains(self, states: States) -> Floats:
        """Return a gain for each state."""
        keys = states.ravel()
        gains = self._gamma(keys, self.m if self.m >= 1 else self.m + 1) / self.m
        if self.m < 1:
            # The attempts use states that follow from the key, so the key itself is an independent number.
            gains *= np.maximum(units(keys), _SMALLEST) ** (1 / self.m)
        return gains.reshape(states.shape)

    @staticmethod
    def _gamma(keys: States, shape: float) -> Floats:
        """Return gamma variables of a shape of at least 1 and scale 1."""
        # With v = (1 + c·x)³ and x normal, d·v is accepted if ln u < x²/2 + d − d·v + d·ln v.
        # Only rejected entries are drawn again, so a gain does not depend on those it is drawn with.
        d = shape - 1 / 3
        c = 1 / sqrt(9 * d)
        found, left, attempt = np.empty(len(keys)), np.arange(len(keys)), 1
        while len(left):
            first = mixed_all(keys[left], attempt)
            second = mixed_all(first, 1)
            radius = np.sqrt(-2 * np.log(np.maximum(units(first), _SMALLEST)))
            normal = radius * np.cos(2 * pi * units(second))  # Box and Muller, 1958
            cube = (1 + c * normal) ** 3
            level = np.log(np.maximum(units(mixed_all(second, 1)), _SMALLEST))
            positive = cube > 0
            bound = normal**2 / 2 + d - d * cube + d * np.log(np.where(positive, cube, 1.0))
            accepted = positive & (level < bound)
            found[left[accepted]] = d * cube[accepted]
            left, attempt = left[~accepted], attempt + 1
        return found
