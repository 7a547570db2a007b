"""Small-scale block fading: the power gain of a device in a block, with mean 1.

A gain is a function of a state of `base.random_streams` that is keyed by seed, device and block, so any
block of any device is drawn directly, and those of many devices and blocks in one numpy call.

To add a fading, write a class with a method ``gains`` and name it in `FADINGS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, pi, sqrt
from typing import Annotated, ClassVar

import numpy as np

from slotwise.base.random_streams import Floats, States, mixed_all, units
from slotwise.options import Choice, Named, Range
from slotwise.options.checks import LARGEST, Value

_SMALLEST = 2.0**-54  # in place of 0 where a logarithm is taken
Slots = Annotated[int, Range(least=1, most=LARGEST)]


@dataclass(frozen=True, kw_only=True)
class Fading(Value, ABC):
    """Distribution of power gains with mean 1.

    Attributes:
        coherence_slots: Slots of a block in which the fading is constant.
    """

    is_random: ClassVar[bool] = True
    coherence_slots: Slots = 1

    @property
    def drawn_as(self) -> tuple[float, float] | None:
        """``sight`` and ``shape`` of `FadingDraws`; None if compiled code cannot draw the gains."""
        return None

    @abstractmethod
    def gains(self, states: States) -> Floats:
        """Return a gain for each state, in the same shape."""


@dataclass(frozen=True, kw_only=True)
class NoFading:
    """Gains that are always 1."""

    is_random: ClassVar[bool] = False
    coherence_slots: ClassVar[int] = 1
    drawn_as: ClassVar[tuple[float, float]] = (inf, 0.0)  # a line of sight alone

    def gains(self, states: States) -> Floats:
        """Return 1 for each state."""
        return np.ones(states.shape)


class Rayleigh(Fading):
    """No line of sight: the power gain is exponential: −ln(1 − u) (Tse and Viswanath, 2005, sec. 2.4.2)."""

    @property
    def drawn_as(self) -> tuple[float, float]:
        """Return zeros: no path dominates the others."""
        return 0.0, 0.0

    def gains(self, states: States) -> Floats:
        """Return a gain for each state."""
        return -np.log1p(-units(states))


@dataclass(frozen=True, kw_only=True)
class Rician(Fading):
    """Line of sight with K times the power of all scattered paths (Tse and Viswanath, 2005, section 2.4.2).

    The gain is ``|sqrt(K) + z|² / (K + 1)`` with z complex normal of mean power 1; K = 0 is Rayleigh. The
    power of z is exponential and its angle is uniform, so two numbers and the law of cosines give the gain.

    Attributes:
        k_db: Power of the line of sight over that of all other paths, in dB, of rician.
    """

    k_db: Annotated[float, Range(least=-100.0, most=100.0), Named("rician_k_db")] = 6.0

    @property
    def drawn_as(self) -> tuple[float, float]:
        """The linear factor K, and no shape."""
        return float(10 ** (self.k_db / 10)), 0.0

    def gains(self, states: States) -> Floats:
        """Return a gain for each state."""
        k, _ = self.drawn_as
        power, angle = -np.log1p(-units(states)), 2 * pi * units(mixed_all(states, 1))
        gains: Floats = (k + power + 2 * np.sqrt(k * power) * np.cos(angle)) / (k + 1)
        # Where both paths cancel, rounding may leave a tiny negative number.
        return np.asarray(np.maximum(0.0, gains), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class Nakagami(Fading):
    """Nakagami-m amplitude: the power gain is a gamma variable of shape m and mean 1 (Nakagami, 1960).

    m = 1 is Rayleigh. Gains are drawn by rejection (Marsaglia and Tsang, ACM TOMS 26, 2000) from numbers
    keyed by the attempt; a gamma variable of shape m < 1 is one of shape m + 1 times u^(1/m).

    Attributes:
        m: Shape m of nakagami, at least 0.5; 1 is rayleigh.
    """

    m: Annotated[float, Range(least=0.5, most=1000.0), Named("nakagami_m")] = 2.0

    @property
    def drawn_as(self) -> tuple[float, float]:
        """No line of sight, and m."""
        return 0.0, self.m

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


FADINGS: Mapping[str, type[Fading | NoFading]] = {
    "none": NoFading,
    "rayleigh": Rayleigh,
    "rician": Rician,
    "nakagami": Nakagami,
}
FADING = Choice("radio_fading", FADINGS, prefix="radio_")
