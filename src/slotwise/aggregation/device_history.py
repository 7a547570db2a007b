"""DeviceHistories: bounds what a device sends on average, by what other devices send on average.

Noise in the updates of a device averages out over its turns; what it pushes for does not. So the running mean
of its updates shows a device that pushes too hard, or against the others, though each single update passes
for an honest one: the observation of Karimireddy, He and Jaggi, "Learning from History for Byzantine Robust
Optimization", ICML 2021, arXiv:2012.10333, who clip momentum that the devices compute. Here the server
computes it, of sketches: sums of all numbers of an update in `CELLS` cells, each number with a sign; cell and
sign are drawn from a key that devices do not know (Charikar, Chen and Farach-Colton, "Finding Frequent Items
in Data Streams", ICALP 2002). Sketches keep lengths and angles: the cosine of two has a standard deviation of
about 1/sqrt(`CELLS`) over the keys (`DEVIATION`).
"""

from __future__ import annotations

from functools import lru_cache
from math import pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation.rule import RuleState, Vector

CELLS = 256
MEMORY = 0.9  # weight of the past in a running mean: about ten updates
LIMIT = 1.5  # a running mean may be so many times as long as the median one if devices agree
FREE_LIMIT = 3.0  # and so many times if they do not
AGREEMENT = 0.05  # cosine above which two devices agree
DEVIATION = 1 / sqrt(CELLS)  # of the cosine of two sketches
MARGIN = 4.0  # such deviations that a cosine must be beyond its limit before an update is dropped
SPREAD = 6.0  # and deviations between devices, of which there may be as few as three
NORMAL = 1.4826  # standard deviation of normal numbers, in medians of their distances from the median
NEW = 3  # updates of a device before its direction counts
PEERS = 32  # updates before the round, with whose devices one is compared
FEWEST = 3  # such devices; of two devices, nobody knows which one is honest

Table = NDArray[np.float64]
# Names in the rule's state: of each device its number, its updates so far, and the number of its last one
# among all updates; and its sketch.
TURNS, MEANS = "norm_bound.turns", "norm_bound.means"


class DeviceHistories:
    """Running means of what devices have sent.

    The sketch of a device is Σ (1 − b)·b^j·s over its t updates, where s is the sketch of the one j turns ago
    and b is `MEMORY`; divided by 1 − b^t this is the running mean. A device is compared with those that have
    sent one of the last `PEERS` updates before the round. What was done to earlier updates has no influence,
    so one mistake does not lead to the next.
    """

    def __init__(self, state: RuleState, key: int) -> None:
        self._turns = np.array(state.get(TURNS, np.empty((0, 3))), dtype=np.int64)
        self._means = np.array(state.get(MEANS, np.empty((0, CELLS))), dtype=np.float32)
        self._updates, self._key = int(self._turns[:, 2].max(initial=0)), key
        recent = self._turns[:, 2] > self._updates - PEERS
        turns, means = self._turns[recent, 1].astype(np.float64), self._means[recent].astype(np.float64)
        self._peers = _Peers.of(turns, means) if len(turns) >= FEWEST else None

    @property
    def state(self) -> RuleState:
        """All histories, as arrays of a rule's state."""
        return {TURNS: self._turns, MEANS: self._means}

    def factor(self, device: int, update: Vector, bounded: float) -> float:
        """Remember an update, and return by which factor it is scaled.

        ``bounded`` is the factor, at most 1, by which the update has to be scaled in any case; so much of it
        is remembered.
        """
        row, new = self._row(device), sketch(update, self._key)
        # Numbers that are not finite, which the server rejects anyway, must not stay for good.
        if not np.isfinite(new).all():
            return bounded
        self._updates += 1
        self._turns[row] = device, self._turns[row, 1] + 1, self._updates
        self._means[row] = MEMORY * self._means[row] + (1 - MEMORY) * bounded * new
        if self._peers is None:
            return bounded
        return bounded * self._peers.factor(float(self._turns[row, 1]), self._means[row].astype(np.float64))

    def _row(self, device: int) -> int:
        rows = np.flatnonzero(self._turns[:, 0] == device)
        if len(rows):
            return int(rows[0])
        self._turns = np.concatenate([self._turns, [[device, 0, 0]]])
        self._means = np.concatenate([self._means, np.zeros((1, CELLS), dtype=np.float32)])
        return len(self._turns) - 1


class _Peers(NamedTuple):
    """The devices that one is compared with.

    A device agrees if it has sent `NEW` updates and its cosine with at least half of the others that have is
    above `AGREEMENT`. If more than half of all devices agree, their data are alike, so

    - a running mean may be `LIMIT` times as long as the median one. If it is r times as long as that, the
      update is scaled by 1/r², so a device that pushes harder gets less;
    - a device must not point against their common direction: its update does not count.

    Otherwise every direction is allowed, and the limit is `FREE_LIMIT`. A mean of few updates is noisier: a
    device that has sent fewer than the others may be longer by that.

    To drop an update is more than to scale it, so it needs more evidence: more than half of all devices must
    agree by `MARGIN` deviations of the sketches; the cosine of the device with their direction must be as far
    below zero; and, because honest devices differ more or less, `SPREAD` deviations between devices below the
    median of their cosines.
    """

    length: float  # median of their running means
    noise: float  # of a running mean of as many updates, if they were independent
    agreed: bool
    direction: Table  # a unit vector, common to those that surely agree; zeros if they are too few
    against: float  # the cosine with it below which an update does not count

    @classmethod
    def of(cls, turns: Table, means: Table) -> _Peers:
        lengths = np.sqrt(np.square(means).sum(axis=1))
        known = turns >= NEW
        units = means[known] / np.maximum(lengths[known], 1e-300)[:, None]
        agreement = _agreement(units)
        surely = agreement > AGREEMENT + MARGIN * _deviation_of_median(len(units) - 1)
        common = units[surely].sum(axis=0) if 2 * surely.sum() > len(turns) else np.zeros(CELLS)
        agreed = 2 * int((agreement > AGREEMENT).sum()) > len(turns)
        length = _lower_median(lengths / (1 - MEMORY**turns))
        direction = common / max(_length(common), 1e-300)
        against = _least_usual(_cosines_with_others(units, common, surely)) if common.any() else -1.0
        return cls(length, _lower_median(_noise(turns)), agreed, direction, against)

    def factor(self, turns: float, mean: Table) -> float:
        """Return the factor by which an update of a device is scaled."""
        length = _length(mean)
        if turns >= NEW and float((mean * self.direction).sum()) < self.against * length:
            return 0.0
        noisier = max(1.0, float(_noise(turns)) / self.noise)
        longest = (LIMIT if self.agreed else FREE_LIMIT) * noisier * self.length * (1 - MEMORY**turns)
        return (longest / length) ** 2 if length > longest else 1.0


def sketch(update: Vector, key: int) -> Table:
    """Return the sketch of a vector: linear, and almost of the same length."""
    # Half of the cells are those of numbers that count with a minus.
    sums = np.bincount(_cells(len(update), key), weights=update, minlength=2 * CELLS).astype(np.float64)
    return sums[:CELLS] - sums[CELLS:]


@lru_cache(maxsize=2)
def _cells(size: int, key: int) -> NDArray[np.intp]:
    return np.random.default_rng(key).integers(0, 2 * CELLS, size, dtype=np.intp)


def _agreement(units: Table) -> Table:
    """Return the cosine that each device has with at least half of the others; -1 if they are too few."""
    count = len(units)
    if count < FEWEST:
        return np.full(count, -1.0)
    cosines = (units[:, None] * units).sum(axis=2)  # without a linear algebra library: the same everywhere
    np.fill_diagonal(cosines, -1.0)
    # Ascending, itself first: at least half of the others have the cosine at this position, or more.
    return np.asarray(np.sort(cosines, axis=1)[:, (count + 1) // 2])


def _deviation_of_median(count: int) -> float:
    """Return the standard deviation of the median of so many cosines of sketches, as if they were normal."""
    return DEVIATION * sqrt(pi / (2 * max(count, 1)))


def _cosines_with_others(units: Table, common: Table, part: NDArray[np.bool_]) -> Table:
    """Return the cosine of each device with the sum of the others that are ``part`` of it."""
    own, along = part.astype(np.float64), (units * common).sum(axis=1)
    lengths = np.sqrt(np.maximum(np.square(common).sum() + own * (1 - 2 * along), 1e-300))
    return np.asarray((along - own) / lengths)


def _least_usual(cosines: Table) -> float:
    """Return the least cosine that is put down to the sketches, or to the differences between devices."""
    middle = float(np.median(cosines))
    deviation = NORMAL * float(np.median(np.abs(cosines - middle)))
    return min(-MARGIN * DEVIATION, middle - SPREAD * deviation)


def _length(vector: Table) -> float:
    return float(np.sqrt(np.square(vector).sum()))


def _noise(turns: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Return the length of the running mean of ``turns`` independent updates of length 1."""
    past = MEMORY ** np.asarray(turns)
    return np.sqrt((1 - MEMORY) / (1 + MEMORY) * (1 + past) / (1 - past))


def _lower_median(values: Table) -> float:
    return float(np.sort(values)[(len(values) - 1) // 2])
