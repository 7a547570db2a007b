"""Random fleets: slots per device and absences.

Everything is a function of the seed and the device. So device 7 is the same in a fleet of 10 and of 1000, and
a larger fleet is the smaller one with more devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from math import exp, inf, log1p
from statistics import NormalDist
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError
from slotwise.base.random_streams import Floats, SchedulePurpose, chance, device_states, mixed_all, units
from slotwise.fleet.absences import Absences
from slotwise.options.checks import LARGEST, LARGEST_SEED, whole
from slotwise.options.option_text import read_number, read_whole_number

Distribution = Callable[[float], int]
"""The inverse of a distribution function: whole slots, at least 1, from a number in [0, 1)."""

Quantity = Literal["compute", "link"]
_PRESENT, _AWAY = SchedulePurpose.PRESENCE, SchedulePurpose.ABSENCE
_QUANTITIES = {"compute": SchedulePurpose.COMPUTE_SLOTS, "link": SchedulePurpose.LINK_SLOTS}
MOST_ABSENCES = 1_000_000
_Slots = NDArray[np.int64]
_CLOSE = 1e-12


@dataclass(frozen=True)
class Constant:
    """The same number of slots for every device."""

    slots: int

    def __post_init__(self) -> None:
        whole("slots", self.slots)

    def __call__(self, number: float) -> int:  # noqa: ARG002
        """Return the slots at ``number`` in [0, 1)."""
        return self.slots


@dataclass(frozen=True)
class Uniform:
    """Whole numbers from ``low`` to ``high``, both included, equally likely."""

    low: int
    high: int

    def __post_init__(self) -> None:
        whole("low", self.low)
        whole("high", self.high)
        if self.high < self.low:
            raise InputError("high", self.high, f"at least low, {self.low}")

    def __call__(self, number: float) -> int:
        """Return the slots at ``number`` in [0, 1)."""
        return self.low + int(number * (self.high - self.low + 1))


@dataclass(frozen=True)
class Lognormal:
    """Rounded median · exp(sigma · z) with z normal: half are faster than the median, a few far slower."""

    median: float
    sigma: float

    def __post_init__(self) -> None:
        if not 1 <= self.median <= LARGEST:
            raise InputError("median", self.median, f"a number from 1 to {LARGEST:,}")
        if not 0 <= self.sigma <= 10:
            raise InputError("sigma", self.sigma, "a number from 0 to 10")

    def __call__(self, number: float) -> int:
        """Return the slots at ``number`` in [0, 1)."""
        deviations = NormalDist().inv_cdf(max(number, 2.0**-54))  # which has no value at 0
        return min(max(1, round(self.median * exp(self.sigma * deviations))), LARGEST)


@dataclass(frozen=True)
class TwoClasses:
    """Slow with the probability ``slow_share``, fast otherwise."""

    fast: int
    slow: int
    slow_share: float

    def __post_init__(self) -> None:
        whole("fast", self.fast)
        whole("slow", self.slow)
        if self.slow < self.fast:
            raise InputError("slow", self.slow, f"at least fast, {self.fast}")
        if not 0 <= self.slow_share <= 1:
            raise InputError("slow_share", self.slow_share, "a share from 0 to 1")

    def __call__(self, number: float) -> int:
        """Return the slots at ``number`` in [0, 1)."""
        return self.slow if number < self.slow_share else self.fast


def draw_slots(
    distribution: Distribution, devices: int, *, seed: int = 0, of: Quantity = "compute"
) -> tuple[int, ...]:
    """Draw the slots of devices 1 to N; ``of`` makes fast computing and fast links independent."""
    whole("devices", devices)
    whole("seed", seed, 0, LARGEST_SEED)
    if of not in get_args(Quantity):
        raise InputError("of", of, "compute or link")
    return tuple(distribution(chance(seed, _QUANTITIES[of], n)) for n in range(1, devices + 1))


def distribution_from(parameter: str, text: str) -> Distribution:
    """Build a distribution from its name and numbers, as in ``lognormal:50:0.5``."""
    try:
        match text.split(":"):
            case ["constant", slots]:
                return Constant(read_whole_number(slots))
            case ["uniform", low, high]:
                return Uniform(read_whole_number(low), read_whole_number(high))
            case ["lognormal", median, sigma]:
                return Lognormal(read_number(median), read_number(sigma))
            case ["two-classes", fast, slow, share]:
                return TwoClasses(read_whole_number(fast), read_whole_number(slow), read_number(share))
    except InputError as error:
        raise InputError(parameter, text, f"one whose {error.parameter} is {error.allowed}") from None
    except ValueError:
        pass
    allowed = "constant:SLOTS, uniform:LOW:HIGH, lognormal:MEDIAN:SIGMA or two-classes:FAST:SLOW:SLOW_SHARE"
    raise InputError(parameter, text, allowed)


def random_absences(
    devices: int, horizon: int, *, mean_present: float, mean_away: float, seed: int = 0
) -> Absences:
    """Draw absences: every device is present and absent in turns of geometric length, with the given means.

    All are present at slot 0. A longer ``horizon`` only adds absences.
    """
    whole("devices", devices)
    whole("horizon", horizon)
    whole("seed", seed, 0, LARGEST_SEED)
    for name, mean in (("mean_present", mean_present), ("mean_away", mean_away)):
        if not 1 <= mean < inf:
            raise InputError(name, mean, "a finite number of slots, at least 1")
    expected = devices * horizon / (mean_present + mean_away)
    if expected > MOST_ABSENCES:
        allowed = f"larger: this would be about {expected:,.0f} absences, and {MOST_ABSENCES:,} are the most"
        raise InputError("mean_present", mean_present, allowed)
    # Keyed by the number of the absence: neither other devices nor the horizon change the draws.
    states = [device_states(seed, purpose, devices) for purpose in (_PRESENT, _AWAY)]
    shares, parts = (_log_share_left(mean_present), _log_share_left(mean_away)), list[_Slots]()
    place, slots = np.arange(devices), np.zeros(devices, dtype=np.int64)
    for number in count():
        turns = [
            _turns(share, units(mixed_all(state[place], number)))
            for share, state in zip(shares, states, strict=True)
        ]
        leaves = slots + turns[0]
        slots = leaves + turns[1]
        parts.append(np.stack([place + 1, leaves, slots])[:, leaves < horizon])
        # Nobody leaves again who has come back after the horizon.
        place, slots = place[slots < horizon], slots[slots < horizon]
        if not len(place):
            break
    return Absences.drawn(*np.concatenate(parts, axis=1))


def _log_share_left(mean: float) -> float:
    """Return ln of the share of turns that last another slot; of mean 1 none does."""
    # It ends after each slot with the probability 1/mean, so that its mean is exact.
    return -inf if mean == 1 else log1p(-1 / min(mean, 1e300))


def _turns(log_share_left: float, numbers: Floats) -> _Slots:
    """Return the slots at numbers in [0, 1) of a geometric distribution, which is memoryless."""
    # Beyond the horizon all turns are alike, and larger numbers would become infinite.
    slots = np.minimum(np.log1p(-numbers) / log_share_left, 2.0 * LARGEST)
    # numpy's logarithm depends on the processor in its last bit: near a whole number the exact one decides.
    for place in np.flatnonzero(np.abs(slots - np.rint(slots)) <= _CLOSE * slots).tolist():
        slots[place] = min(log1p(-numbers[place]) / log_share_left, 2.0 * LARGEST)
    return np.maximum(1, np.ceil(slots)).astype(np.int64)
