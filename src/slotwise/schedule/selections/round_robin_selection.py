"""Round robin: devices take turns. For FL: Yang, Liu, Quek and Poor, 2020 (IEEE Trans. Commun. 68(1))."""

from collections.abc import Sequence

from slotwise.schedule.selection import Waiting


def round_robin(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:  # noqa: ARG001
    """Choose the next device after the last sender, in the order 1, …, N, 1, …"""
    # False sorts before True: first the devices after the last sender, then those up to it.
    return min(waiting, key=lambda update: (update.device <= last_sender, update.device))
