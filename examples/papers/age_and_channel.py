"""A selection by age and channel: the oldest device among those with a good channel."""

from collections.abc import Sequence
from statistics import median

from slotwise.schedule import Waiting


def oldest_of_the_good(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:  # noqa: ARG001
    """Choose the largest age among the better half of the channels; ties go to the better channel."""
    limit = median(update.snr_db for update in waiting)
    good = [update for update in waiting if update.snr_db >= limit]
    return max(good, key=lambda update: (update.age, update.snr_db, -update.device))
