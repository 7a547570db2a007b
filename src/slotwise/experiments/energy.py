"""What the devices spend: slots of each activity times its power."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InputError
from slotwise.report.activity import Activity, activities
from slotwise.schedule import Timeline
from slotwise.schedule.timeline import Column


@dataclass(frozen=True, kw_only=True)
class Powers:
    """Watts of one device, and the seconds of a slot.

    Attributes:
        computing: while it trains.
        sending: while it sends, in vain or not.
        receiving: while it receives a model.
        idle: while it waits for a model or for the channel.
        slot_seconds: one slot.
    """

    computing: float
    sending: float
    receiving: float
    idle: float = 0.0
    slot_seconds: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
                raise InputError(field.name, value, "a finite number, at least 0")

    def of(self, activity: Activity) -> float:
        """Watts of an activity."""
        named = {
            Activity.COMPUTING: self.computing,
            Activity.SENDING: self.sending,
            Activity.RECEIVING: self.receiving,
            Activity.WAITING_FOR_CHANNEL: self.idle,
            Activity.WAITING_FOR_MODEL: self.idle,
        }
        return named.get(activity, 0.0)  # a device that is away spends nothing here


def joules_at(timeline: Timeline, powers: Powers, slots: Sequence[int]) -> NDArray[np.float64]:
    """Joules that all devices together have spent when each of ``slots`` begins."""
    spent = np.zeros(len(slots))
    found = activities(timeline)
    for activity in Activity:
        rows = found.select(found.kind == activity)
        spent += powers.of(activity) * _slots_until(rows.start, rows.end, timeline.last_slot)[list(slots)]
    return spent * powers.slot_seconds


def _slots_until(start: Column, end: Column, last: int) -> NDArray[np.int64]:
    """For t = 0, …, last: the slots before t that the intervals [start, end) have together."""
    change = np.bincount(start, minlength=last + 1) - np.bincount(end, minlength=last + 1)
    busy = np.cumsum(change)[:-1]
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(busy)])
