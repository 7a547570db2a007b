"""What a slot is in real time: so many milliseconds, or no longer than what happens in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil

from slotwise.errors import InputError


class Clock:
    """Slots as fast as possible: time stands still until what the plan has for a slot has happened."""

    paced = False

    def start(self, slot: int) -> None:
        """It is ``slot`` now."""

    def seconds_until(self, slot: int) -> float:
        """How long it is until ``slot`` begins; never above 0."""
        del slot
        return 0.0

    def next_slot(self, after: int) -> int:
        """The first slot that begins now or later, and after slot ``after``."""
        return after + 1

    def reached(self, slot: int) -> int:
        """The slot it is now, at least ``slot``: later if the server is behind."""
        return slot


class PacedClock(Clock):
    """A slot takes ``slot_ms`` milliseconds of the seconds that ``now`` counts, whatever happens in it."""

    paced = True

    def __init__(self, slot_ms: float, now: Callable[[], float] = time.monotonic) -> None:
        if not 0 < slot_ms < 1e9:
            raise InputError("slot_ms", slot_ms, "a number of milliseconds above 0 and below a billion")
        self._seconds = slot_ms / 1000
        self._now, self._origin = now, now()

    def start(self, slot: int) -> None:
        """It is ``slot`` now."""
        self._origin = self._now() - slot * self._seconds

    def seconds_until(self, slot: int) -> float:
        """How long it is until ``slot`` begins."""
        return self._origin + slot * self._seconds - self._now()

    def next_slot(self, after: int) -> int:
        """The first slot that begins now or later, and after slot ``after``."""
        return max(after + 1, ceil((self._now() - self._origin) / self._seconds))

    def reached(self, slot: int) -> int:
        """The slot it is now, at least ``slot``: later if the server is behind."""
        return max(slot, int((self._now() - self._origin) / self._seconds))
