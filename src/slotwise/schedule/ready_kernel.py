"""Compiled loops over all devices that are ready, for `ready_queue`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from slotwise.base.random_streams import FIRST, SECOND, STEP

_STEP, _FIRST, _SECOND = (np.uint64(number) for number in (STEP, FIRST, SECOND))
_11, _27, _30, _31 = (np.uint64(shift) for shift in (11, 27, 30, 31))
_LARGEST = np.uint64(2**64 - 1)


@njit(cache=True)
def lowest_number(state: Any, ready: Any) -> int:
    """Return the place of the ready device with the lowest `chance` of a key that ends in its number.

    ``state`` is that after the other parts of the key. The 53 bits of a chance are compared.
    """
    best, lowest = -1, _LARGEST
    for n in range(len(ready)):
        if ready[n]:
            mixed = state + np.uint64(n + 1) + _STEP
            mixed = (mixed ^ (mixed >> _30)) * _FIRST
            mixed = (mixed ^ (mixed >> _27)) * _SECOND
            mixed = (mixed ^ (mixed >> _31)) >> _11
            if mixed < lowest:
                best, lowest = n, mixed
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
