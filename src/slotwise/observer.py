"""Observer: the callbacks of runs, batches and live servers. There is only this kind of observer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slotwise.learning.history import History, Point
    from slotwise.schedule import Timeline


class Observer:
    """Callbacks that do nothing; subclasses override the ones they need."""

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:
        """Training begins, or resumes after the rounds of ``resumed``."""

    def round_done(self, round_number: int) -> None:
        """Round ``round_number`` has been applied."""

    def evaluated(self, point: Point) -> None:
        """A model has been evaluated."""

    def wants_stop(self) -> bool:
        """Return whether to stop early, with a checkpoint."""
        return False

    # Live runs

    def note(self, text: str) -> None:
        """Report a line about the connection, such as a broker that is lost or found again."""

    def checkpoints_skipped(self, damaged: Sequence[Path], round_number: int) -> None:
        """Damaged checkpoints were skipped; the run resumes from ``round_number``, 0 for the start."""

    def devices_connected(self, present: int, expected: int) -> None:
        """``present`` of the ``expected`` devices are connected; the server waits for the others."""

    def started_without(self, devices: Sequence[int]) -> None:
        """The run starts without these devices; they may join later."""

    def message_rejected(self, topic: str, reason: str) -> None:
        """A message of a device was rejected."""
