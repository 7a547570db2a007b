"""Largest age of update: who was heard longest ago (Yang, Arafa, Quek and Poor, 2020, arXiv 1910.14648)."""

from collections.abc import Sequence

from slotwise.schedule.selection import Waiting


def largest_age(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:  # noqa: ARG001
    """Choose the most rounds since the device's last update; ties go to the lower index."""
    return min(waiting, key=lambda update: (-update.age, update.device))
