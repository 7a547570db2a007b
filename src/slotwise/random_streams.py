"""What random numbers are drawn for: the purposes of all random streams, which never share numbers.

Every random number is a function of (seed, purpose, device, count). Numbers of the schedule come from
SplitMix64 (`slotwise.fleet.chances`), those of the learning from Philox (`slotwise.learning.randomness`), so
the two lists may have the same values. A value never changes: it is part of every published result.
"""

from enum import IntEnum, unique


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
    ATTACK = 8
    LAYERS = 12
    APP_TRAINING = 20
    APP_EVALUATION = 21
