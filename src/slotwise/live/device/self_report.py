"""SelfReport: what a device remembers of itself, and when it is time to tell the server."""

from __future__ import annotations

import time
from math import inf

from slotwise.base.machine import resident_memory
from slotwise.live.device_report import DeviceReport

INTERVAL = 60.0  # seconds between two reports


class SelfReport:
    """Reports of one device: one every minute at most, and one after each error."""

    def __init__(self, build: str) -> None:
        self._build, self._started = build, time.monotonic()
        self.is_wanted = False  # the server takes reports
        self._sent = -inf
        self._error, self._failed = "", 0.0

    def note_error(self, text: str) -> None:
        """Remember an error in place of the last one; the next report is due."""
        self._error, self._failed, self._sent = text, time.monotonic(), -inf

    def due(self, trainings: int) -> DeviceReport | None:
        """Return a report if it is time for one."""
        now = time.monotonic()
        if not self.is_wanted or now - self._sent < INTERVAL:
            return None
        self._sent = now
        return DeviceReport(
            self._build,
            resident_memory() / 1e6,
            now - self._started,
            trainings,
            self._error,
            now - self._failed if self._error else 0.0,
        )
