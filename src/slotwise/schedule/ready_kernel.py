"""Compiled loops over all devices that are ready, for `ready_queue`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from slotwise.base.random_kernel import mixed

_11 = np.uint64(11)
_LARGEST = np.uint64(2**64 - 1)
_BLOCK = 256  # devices


@njit(cache=True)
def lowest_number(state: Any, ready: Any) -> int:
    """Return the place of the ready device with the lowest `chance` of a key that ends in its number.

    ``state`` is that after the other parts of the key. The 53 bits of a chance are compared.
    """
    place, lowest = -1, _LARGEST
    # The lowest number of a block is found with vector instructions, which a search for its place prevents.
    for first in range(0, len(ready), _BLOCK):
        found = _LARGEST
        for n in range(first, min(first + _BLOCK, len(ready))):
            number = mixed(state, n + 1) >> _11
            found = min(found, number if ready[n] else _LARGEST)
        if found < lowest:
            place, lowest = first, found
    while place >= 0 and (not ready[place] or mixed(state, place + 1) >> _11 != lowest):
        place += 1
    return place


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
