"""The generator of the schedule in compiled code: SplitMix64, as `random_streams.mixed_all` has it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from slotwise.base.random_streams import FIRST, SECOND, STEP

_STEP, _FIRST, _SECOND = (np.uint64(number) for number in (STEP, FIRST, SECOND))
_11, _27, _30, _31 = (np.uint64(shift) for shift in (11, 27, 30, 31))


@njit(cache=True, inline="always")
def mixed(state: Any, part: Any) -> Any:
    """Return the state after one more part of the key."""
    state = state + np.uint64(part) + _STEP
    state = (state ^ (state >> _30)) * _FIRST
    state = (state ^ (state >> _27)) * _SECOND
    return state ^ (state >> _31)


@njit(cache=True)
def count_below(state: Any, first: int, end: int, limit: Any) -> int:
    """Return how many of the parts from ``first`` to ``end`` − 1 draw 53 bits below a limit."""
    count = 0
    for part in range(first, end):
        count += (mixed(state, part) >> _11) < limit
    return count
