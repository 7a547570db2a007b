"""Devices that are not equal: speeds, links, losses, and who is there when."""

from slotwise.fleet.fleet import Absence, Fleet, Retransmission

__all__ = ["Absence", "Fleet", "Retransmission"]
