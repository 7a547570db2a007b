"""SelfReport: what a device remembers of itself, and when it is time to tell the server."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from math import inf
from pathlib import Path

from slotwise.base.machine import resident_memory
from slotwise.live.device_report import DeviceReport
from slotwise.live.transport.certificate_end import certificate_end

INTERVAL = 60.0  # seconds between two reports


class SelfReport:
    """Reports of one device: one every minute at most, and one after each error."""

    def __init__(self, build: str, certificate: Path | None = None) -> None:
        self._build, self._certificate, self._started = build, certificate, time.monotonic()
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
            self._certificate_days(),
        )

    def _certificate_days(self) -> float:
        """Return the days until the certificate ends, which may have been renewed since the last report."""
        end = None if self._certificate is None else certificate_end(self._certificate)
        return 0.0 if end is None else max(0.1, (end - datetime.now(UTC)).total_seconds() / 86400)
