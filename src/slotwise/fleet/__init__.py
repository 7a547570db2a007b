"""Unequal devices: speeds, links, losses and absences."""

from slotwise.fleet.fleet import Absence, Fleet, Retransmission
from slotwise.fleet.fleet_config import FleetConfig

__all__ = ["Absence", "Fleet", "FleetConfig", "Retransmission"]
