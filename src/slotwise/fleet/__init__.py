"""Unequal devices: speeds, links, losses, absences and batteries."""

from slotwise.fleet.battery import Batteries
from slotwise.fleet.fleet import Absence, Fleet, Retransmission
from slotwise.fleet.fleet_config import FleetConfig

__all__ = ["Absence", "Batteries", "Fleet", "FleetConfig", "Retransmission"]
