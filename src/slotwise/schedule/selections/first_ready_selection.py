"""First ready: updates are sent in the order in which they were finished, as in the paper."""

from collections.abc import Sequence

from slotwise.schedule.selection import Waiting


def first_ready(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:  # noqa: ARG001
    """Choose the update that was ready first; ties go to the lower index."""
    return min(waiting)
