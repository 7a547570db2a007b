"""Best channel: the device with the highest SNR sends (Knopp and Humblet, ICC 1995)."""

from collections.abc import Sequence

from slotwise.schedule.selection import Waiting


def best_channel(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:  # noqa: ARG001
    """Choose the highest SNR now; ties go to the lower index."""
    return min(waiting, key=lambda update: (-update.snr_db, update.device))
