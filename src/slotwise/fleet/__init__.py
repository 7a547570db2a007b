"""Unequal devices: speeds, links, losses, absences and batteries."""

from slotwise.fleet.battery import Batteries
from slotwise.fleet.devices import Devices
from slotwise.fleet.fleet import Absence, Fleet, Retransmission

__all__ = ["Absence", "Batteries", "Devices", "Fleet", "Retransmission"]
