"""Random numbers that depend on a key alone, one at a time and many at once: SplitMix64.

The generator is that of Steele, Lea and Flood, 2014, applied to one part of the key after another. The state
after the first parts may be kept, so that a further part costs one step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
States = NDArray[np.uint64]

STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = 2**64 - 1
# Of 64 bits the upper 53 are used: all integers of so many bits are exact as float64.
_TO_UNIT = 2.0**-53


def chance(*key: int) -> float:
    """Return a number in [0, 1) that depends on ``key`` alone."""
    return (state_after(key) >> 11) * _TO_UNIT


def chances(key: Sequence[int], last: States) -> Floats:
    """Return ``chance(*key, number)`` of every number in ``last``."""
    return units(mixed_all(np.array(state_after(key), dtype=np.uint64), last))


def state_after(key: Sequence[int]) -> int:
    """Return the state after all parts of a key."""
    # Masked in each step: Python's integers do not wrap at 64 bits as those of numpy do.
    state = 0
    for part in key:
        state = (state + part + STEP) & _MASK
        state = ((state ^ (state >> 30)) * FIRST) & _MASK
        state = ((state ^ (state >> 27)) * SECOND) & _MASK
        state ^= state >> 31
    return state


def mixed_all(states: States, part: int | States) -> States:
    """Return the states after one more part of the key, the same for all or one for each."""
    parts = part if isinstance(part, np.ndarray) else np.uint64(part)
    state = states + parts + np.uint64(STEP)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(FIRST)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(SECOND)
    return state ^ (state >> np.uint64(31))


def units(states: States) -> Floats:
    """Return the numbers in [0, 1) of an array of states."""
    return (states >> np.uint64(11)).astype(np.float64) * _TO_UNIT
