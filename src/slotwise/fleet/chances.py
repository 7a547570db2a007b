"""Random numbers that depend on a key alone, one at a time and many at once: SplitMix64.

The generator is that of Steele, Lea and Flood, 2014.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_MASK = 2**64 - 1
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def chance(*key: int) -> float:
    """Return a number in [0, 1) that depends on ``key`` alone."""
    return (_mixed(key) >> 11) * 2.0**-53


def chances(key: Sequence[int], last: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return ``chance(*key, number)`` of every number in ``last``."""
    state = np.uint64(_mixed(key)) + last + np.uint64(_STEP)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(_FIRST)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(_SECOND)
    state ^= state >> np.uint64(31)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(key: Sequence[int]) -> int:
    state = 0
    for part in key:
        state = (state + part + _STEP) & _MASK
        state = ((state ^ (state >> 30)) * _FIRST) & _MASK
        state = ((state ^ (state >> 27)) * _SECOND) & _MASK
        state ^= state >> 31
    return state
