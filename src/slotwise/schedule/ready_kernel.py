"""Compiled loops over all devices that are ready, for `ready_queue`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from slotwise.base.random_kernel import mixed

_11 = np.uint64(11)
_LARGEST = np.uint64(2**64 - 1)


@njit(cache=True)
def lowest_number(state: Any, ready: Any) -> int:
    """Return the place of the ready device with the lowest `chance` of a key that ends in its number.

    ``state`` is that after the other parts of the key. The 53 bits of a chance are compared.
    """
    best, lowest = -1, _LARGEST
    for n in range(len(ready)):
        if ready[n]:
            number = mixed(state, n + 1) >> _11
            if number < lowest:
                best, lowest = n, number
    return best


@njit(cache=True)
def highest_score(score: Any, share: Any, ready: Any) -> int:
    """Return the place of the ready device with the highest score times its share."""
    best, highest = -1, -np.inf
    for n in range(len(ready)):
        if ready[n]:
            value = score[n] * share[n]
            if best < 0 or value > highest:
                best, highest = n, value
    return best
