"""DeviceHistories: bounds what a device sends on average, by what other devices send on average.

Noise in the updates of a device averages out over its turns; what it pushes for does not. So the running mean
of its updates shows a device that pushes too hard, or against the others, though each single update passes
for an honest one: the observation of Karimireddy, He and Jaggi, "Learning from History for Byzantine Robust
Optimization", ICML 2021, arXiv:2012.10333, who clip momentum that the devices compute. Here the server
computes it, of sketches: sums of all numbers of an update in `CELLS` cells, each number with a sign; cell and
sign are drawn from a key that devices do not know (Charikar, Chen and Farach-Colton, "Finding Frequent Items
in Data Streams", ICALP 2002). Sketches keep lengths and angles, to about 1/sqrt(`CELLS`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation.rule import RuleState, Vector

CELLS = 256
MEMORY = 0.9  # weight of the past in a running mean: about ten updates
LIMIT = 1.5  # a running mean may be so many times as long as the median one if devices agree
FREE_LIMIT = 3.0  # and so many times if they do not
AGREEMENT = 0.05  # cosine above which two devices agree
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

    A device agrees if its cosine with at least half of the others is above `AGREEMENT`. If more than half of
    the devices agree, their data are alike, so

    - a device must not point against their common direction: its update does not count;
    - its running mean may be `LIMIT` times as long as the median one. If it is r times as long as that, its
      update is scaled by 1/r², so a device that pushes harder gets less.

    Otherwise every direction is allowed, and the limit is `FREE_LIMIT`. A mean of few updates is noisier: a
    device that has sent fewer than the others may be longer by that.
    """

    length: float  # median of their running means
    noise: float  # of a running mean of as many updates, if they were independent
    direction: Table  # common to those that agree; zeros if there is none

    @classmethod
    def of(cls, turns: Table, means: Table) -> _Peers:
        lengths = np.sqrt(np.square(means).sum(axis=1))
        known = turns >= NEW
        direction = _common_direction(means[known], lengths[known])
        length = _lower_median(lengths / (1 - MEMORY**turns))
        return cls(length, _lower_median(_noise(turns)), direction)

    def factor(self, turns: float, mean: Table) -> float:
        """Return the factor by which an update of a device is scaled."""
        agreed = bool(self.direction.any())
        if agreed and turns >= NEW and float((mean * self.direction).sum()) < 0:
            return 0.0
        noisier = max(1.0, float(_noise(turns)) / self.noise)
        longest = (LIMIT if agreed else FREE_LIMIT) * noisier * self.length * (1 - MEMORY**turns)
        length = float(np.sqrt(np.square(mean).sum()))
        return (longest / length) ** 2 if length > longest else 1.0


def sketch(update: Vector, key: int) -> Table:
    """Return the sketch of a vector: linear, and almost of the same length."""
    # Half of the cells are those of numbers that count with a minus.
    sums = np.bincount(_cells(len(update), key), weights=update, minlength=2 * CELLS).astype(np.float64)
    return sums[:CELLS] - sums[CELLS:]


@lru_cache(maxsize=2)
def _cells(size: int, key: int) -> NDArray[np.intp]:
    return np.random.default_rng(key).integers(0, 2 * CELLS, size, dtype=np.intp)


def _common_direction(means: Table, lengths: Table) -> Table:
    """Return the direction of the devices that agree, or zeros if they are not more than half."""
    count = len(means)
    if count < FEWEST:
        return np.zeros(CELLS)
    units = means / np.maximum(lengths, 1e-300)[:, None]
    cosines = (units[:, None] * units).sum(axis=2)  # without a linear algebra library: the same everywhere
    np.fill_diagonal(cosines, -1.0)
    # Ascending, itself first: at least half of the others have the cosine at this position, or more.
    agrees = np.sort(cosines, axis=1)[:, (count + 1) // 2] > AGREEMENT
    return units[agrees].sum(axis=0) if 2 * agrees.sum() > count else np.zeros(CELLS)


def _noise(turns: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Return the length of the running mean of ``turns`` independent updates of length 1."""
    past = MEMORY ** np.asarray(turns)
    return np.sqrt((1 - MEMORY) / (1 + MEMORY) * (1 + past) / (1 - past))


def _lower_median(values: Table) -> float:
    return float(np.sort(values)[(len(values) - 1) // 2])
