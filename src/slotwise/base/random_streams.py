"""Random streams: what numbers are drawn for, and the generator of the schedule.

Every random number is a function of (seed, purpose, device, count). Numbers of the schedule come from
SplitMix64 (Steele, Lea and Flood, 2014), applied here to one part of the key after another: the state after
the first parts may be kept, so that a further part costs one step. Those of the learning come from Philox
(`slotwise.learning.randomness`), so the two lists of purposes may have the same values. A value never
changes: it is part of every published result.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, unique

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
States = NDArray[np.uint64]

STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = 2**64 - 1
# Of 64 bits the upper 53 are used: all integers of so many bits are exact as float64.
_TO_UNIT = 2.0**-53


@unique
class SchedulePurpose(IntEnum):
    """Purpose of random numbers of devices, links and selections."""

    JITTER = 1
    UPLINK_LOSS = 2
    COMPUTE_SLOTS = 3
    LINK_SLOTS = 4
    PRESENCE = 5
    ABSENCE = 6
    SELECTION = 7
    HARVEST = 8
    PARTICIPANTS = 9
    CLOCK_DRIFT = 21
    CLOCK_OFFSET = 22
    AIR_DELAY = 23
    FRAME_LOSS = 24
    DISTANCE = 41
    SHADOWING = 42
    FADING = 43
    PLANNED_FADING = 44


@unique
class Purpose(IntEnum):
    """Purpose of random numbers of the learning."""

    MODEL = 1
    PARTITION = 2
    BATCHES = 3
    QUANTISATION = 4
    COMPRESSION = 5
    ATTACK = 8
    LAYERS = 12
    APP_TRAINING = 20
    APP_EVALUATION = 21
    RECEIVER_NOISE = 30
    PHASE_ERROR = 31


def chance(*key: int) -> float:
    """Return a number in [0, 1) that depends on ``key`` alone."""
    return (state_after(key) >> 11) * _TO_UNIT


def chances(key: Sequence[int], last: States) -> Floats:
    """Return ``chance(*key, number)`` of every number in ``last``."""
    return units(mixed_all(np.array(state_after(key), dtype=np.uint64), last))


def state_after(key: Sequence[int], state: int = 0) -> int:
    """Return the state after all parts of a key, or after more of them than led to ``state``."""
    # Masked in each step: Python's integers do not wrap at 64 bits as those of numpy do.
    for part in key:
        state = (state + part + STEP) & _MASK
        state = ((state ^ (state >> 30)) * FIRST) & _MASK
        state = ((state ^ (state >> 27)) * SECOND) & _MASK
        state ^= state >> 31
    return state


def device_states(seed: int, purpose: SchedulePurpose, devices: int) -> States:
    """Return the state of each of devices 1 to N for one purpose of random numbers."""
    start = np.full(devices, state_after((seed, purpose)), dtype=np.uint64)
    return mixed_all(start, np.arange(1, devices + 1, dtype=np.uint64))


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
