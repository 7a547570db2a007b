"""Unequal devices: speeds, links, losses, absences and batteries."""

from slotwise.fleet.battery import Batteries
from slotwise.fleet.devices import (
    Devices,
    DrawnSpeeds,
    DrawnUplinks,
    EqualBatteries,
    EqualHarvest,
    EqualLosses,
    EqualSpeeds,
    EqualUplinks,
    ListedAbsences,
    ListedBatteries,
    ListedHarvest,
    ListedLosses,
    ListedSpeeds,
    ListedUplinks,
    NoBatteries,
    RandomAbsences,
    RecordedHarvest,
)
from slotwise.fleet.fleet import Absence, Fleet, Retransmission

__all__ = [
    "Absence", "Batteries", "Devices", "DrawnSpeeds", "DrawnUplinks", "EqualBatteries", "EqualHarvest",
    "EqualLosses", "EqualSpeeds", "EqualUplinks", "Fleet", "ListedAbsences", "ListedBatteries",
    "ListedHarvest", "ListedLosses", "ListedSpeeds", "ListedUplinks", "NoBatteries", "RandomAbsences",
    "RecordedHarvest", "Retransmission",
]  # fmt: skip
