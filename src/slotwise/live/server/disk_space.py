"""DiskSpace: warns before the disk of a live run is full."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from slotwise.live.server.events import EventLog

LITTLE = 256 << 20  # free bytes


class DiskSpace:
    """The space that is free on the disk with a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._warned = folder, False

    def log_to(self, log: EventLog) -> None:
        """Warn if little space is left; again only after there was enough."""
        with suppress(OSError):
            free = shutil.disk_usage(self._folder).free
            if free < LITTLE and not self._warned:
                remedy = "free some, or the run will stop with its last checkpoint"
                log.warning("little_space", folder=str(self._folder), free_mb=free >> 20, remedy=remedy)
            self._warned = free < LITTLE
