"""Devices that are not equal: speeds, links, losses, and who is there when."""

from slotwise.fleet.fleet import Absence, Fleet, Retransmission
from slotwise.fleet.fleet_config import FleetConfig

__all__ = ["Absence", "Fleet", "FleetConfig", "Retransmission"]
