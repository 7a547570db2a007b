"""Random numbers of the radio: functions of (seed, purpose, device, count), in arrays.

They are the numbers of `slotwise.fleet.fleet.chance`, SplitMix64 (Steele, Lea and Flood, 2014) applied to one
part of the key after another. The state after the first parts is kept, so that a further part costs one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
States = NDArray[np.uint64]

# Purposes of random numbers; smaller ones are in slotwise.fleet and slotwise.schedule.
DISTANCE, SHADOWING, FADING, PLANNING = 41, 42, 43, 44

_MASK = 2**64 - 1
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_TO_UNIT = 2.0**-53


def mixed(state: int, part: int) -> int:
    """Return the state after one more part of the key."""
    state = (state + part + _STEP) & _MASK
    state = ((state ^ (state >> 30)) * _FIRST) & _MASK
    state = ((state ^ (state >> 27)) * _SECOND) & _MASK
    return state ^ (state >> 31)


def mixed_all(states: States, part: int | States) -> States:
    """Return the states after one more part of the key, the same for all or one for each."""
    parts = part if isinstance(part, np.ndarray) else np.uint64(part)
    state = states + parts + np.uint64(_STEP)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(_FIRST)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(_SECOND)
    return state ^ (state >> np.uint64(31))


def units(states: States) -> Floats:
    """Return the numbers in [0, 1) of an array of states."""
    return (states >> np.uint64(11)).astype(np.float64) * _TO_UNIT


def device_states(seed: int, purpose: int, devices: int) -> States:
    """Return the state of each of devices 1 to N for one purpose."""
    start = mixed(mixed(0, seed), purpose)
    numbers = np.arange(1, devices + 1, dtype=np.uint64)
    return mixed_all(np.full(devices, start, dtype=np.uint64), numbers)


def normals(numbers: Sequence[float] | Floats) -> Floats:
    """Return standard normal numbers at ``numbers`` in [0, 1), by the inverse distribution function."""
    inverse = NormalDist().inv_cdf
    return np.array([inverse(max(number, 2.0**-54)) for number in numbers], dtype=np.float64)
