"""Joules: the slots of a timeline, times the powers of its devices."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InputError
from slotwise.schedule.usage import TotalUsage, Usage

LARGEST_POWER = 1_000_000_000  # far from what a device draws, and from where sums of joules overflow


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
            if value > LARGEST_POWER:
                raise InputError(field.name, value, f"at most {LARGEST_POWER:,}")
        if not self.slot_seconds:
            raise InputError("slot_seconds", self.slot_seconds, "above 0")


@overload
def joules(usage: Usage, powers: Powers) -> NDArray[np.float64]: ...
@overload
def joules(usage: TotalUsage, powers: Powers) -> float: ...
def joules(usage: Usage | TotalUsage, powers: Powers) -> Any:
    """The energy of each entry; of all devices together for ``usage.total``. Who is away costs nothing."""
    watt_slots = (
        usage.computing * powers.computing
        + usage.sending * powers.sending
        + usage.receiving * powers.receiving
        + usage.idle * powers.idle
    )
    return watt_slots * powers.slot_seconds
