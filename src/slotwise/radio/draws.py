"""Random numbers of the radio: functions of (seed, purpose, device, count), in arrays."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from slotwise.fleet.chances import Floats, States, mixed_all, state_after

# Purposes of random numbers; smaller ones are in slotwise.fleet and slotwise.schedule.
DISTANCE, SHADOWING, FADING, PLANNING = 41, 42, 43, 44


def device_states(seed: int, purpose: int, devices: int) -> States:
    """Return the state of each of devices 1 to N for one purpose."""
    start = np.full(devices, state_after((seed, purpose)), dtype=np.uint64)
    return mixed_all(start, np.arange(1, devices + 1, dtype=np.uint64))


def normals(numbers: Sequence[float] | Floats) -> Floats:
    """Return standard normal numbers at ``numbers`` in [0, 1), by the inverse distribution function."""
    inverse = NormalDist().inv_cdf
    return np.array([inverse(max(number, 2.0**-54)) for number in numbers], dtype=np.float64)
