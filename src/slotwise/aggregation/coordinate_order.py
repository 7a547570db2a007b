"""`coordinate_median` and `TrimmedMean`: rules that sort the numbers of each coordinate.

Yin, Chen, Ramchandran and Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical
Rates", ICML 2018, arXiv:1803.01498 (Algorithm 1). The result does not depend on the order of the updates.
NaN counts as larger than all numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation.rule import Contribution, Vector
from slotwise.errors import InputError

ROUNDING = 1e-9  # more than that of trim·S: 0.29 · 100 is below 29
BLOCK = 1 << 16  # coordinates sorted at once: the updates of a round are not copied as a whole


def coordinate_median(model: Vector, contributions: Sequence[Contribution]) -> Vector:
    """w_{k+1} = w_k − median of the updates, each coordinate by itself.

    With an even number of updates it is the mean of the two in the middle.
    """
    count = len(contributions)
    # This leaves one of an odd number of updates, and two of an even number.
    return (model - _middle_mean(contributions, (count - 1) // 2)).astype(np.float32)


@dataclass(frozen=True)
class TrimmedMean:
    """w_{k+1} = w_k − mean of each coordinate without its b largest and b smallest numbers.

    ``trim`` is the share dropped at each end, from above 0 to below 0.5: b = floor(trim·S). It should be at
    least the share of attackers in a round.
    """

    trim: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.trim < 0.5:
            raise InputError("trim", self.trim, "a number above 0 and below 0.5")

    def check_group_size(self, size: int) -> None:
        """Refuse a round of fewer than 3 updates, and a share that drops no update of a full round."""
        if self._dropped(size):
            return
        if size < 3:
            # The smallest size of which `_dropped` is not 0.
            needed = ceil((1 - ROUNDING) / self.trim)
            allowed = f"at least {needed} with trim {self.trim:g}, and at least 3 with any trim"
            raise InputError("group_size", size, f"{allowed}: fewer updates cannot be trimmed at both ends")
        allowed = f"at least {1 / size:g}: of {size} updates in a round it drops none"
        raise InputError("trim", self.trim, allowed)

    def _dropped(self, count: int) -> int:
        return int(self.trim * count + ROUNDING)

    def __call__(self, model: Vector, contributions: Sequence[Contribution]) -> Vector:
        """Return the next model."""
        dropped = self._dropped(len(contributions))
        return (model - _middle_mean(contributions, dropped)).astype(np.float32)


def _middle_mean(contributions: Sequence[Contribution], dropped: int) -> NDArray[np.float64]:
    """Return the mean of each coordinate without so many numbers at each end."""
    size, kept = len(contributions[0].update), slice(dropped, len(contributions) - dropped)
    result = np.empty(size, dtype=np.float64)
    for first in range(0, size, BLOCK):
        part = slice(first, min(first + BLOCK, size))
        ordered = np.sort(np.stack([sent.update[part] for sent in contributions]), axis=0)[kept]
        total = np.zeros(ordered.shape[1], dtype=np.float64)
        for row in ordered:
            total += row
        result[part] = total / len(ordered)
    return result
