"""Joules: the slots of a timeline, times the powers of its devices."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InputError
from slotwise.schedule.usage import TotalUsage, Usage


@dataclass(frozen=True, kw_only=True)
class Powers:
    """What a device draws while it computes, sends, receives and idles, and how long a slot is."""

    compute_watts: float
    send_watts: float
    receive_watts: float
    idle_watts: float
    slot_seconds: float

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not isfinite(value)
                or value < 0
            ):
                raise InputError(field.name, value, "a finite number of at least 0")
        if not self.slot_seconds:
            raise InputError("slot_seconds", self.slot_seconds, "above 0")


@overload
def joules(usage: Usage, powers: Powers) -> NDArray[np.float64]: ...
@overload
def joules(usage: TotalUsage, powers: Powers) -> float: ...
def joules(usage: Usage | TotalUsage, powers: Powers) -> Any:
    """The energy of each device; of all together for ``usage.total``. Who is away costs nothing."""
    watt_slots = (
        usage.computing * powers.compute_watts
        + usage.sending * powers.send_watts
        + usage.receiving * powers.receive_watts
        + usage.idle * powers.idle_watts
    )
    return watt_slots * powers.slot_seconds
