"""Experiment trackers as observers of a run; `tracker` makes one from its name."""

from slotwise.tracking.choice import TRACKERS, tracker
from slotwise.tracking.tracker_base import Tracker

__all__ = ["TRACKERS", "Tracker", "tracker"]
