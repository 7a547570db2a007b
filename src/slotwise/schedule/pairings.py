"""Pairings: who sends together with the device that the selection has chosen, over a link of groups.

A pairing is one function, and its line in `PAIRINGS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from slotwise.options import Choice
from slotwise.schedule.selections import Waiting


class Pairing(Protocol):
    """Function that chooses the next device of a group among the updates that wait.

    Both are at least one; ``group`` in the order in which they were chosen, and ``waiting`` by slot and
    device. It must depend on nothing else.
    """

    def __call__(self, group: Sequence[Waiting], waiting: Sequence[Waiting], /) -> Waiting: ...  # noqa: D102


def as_selected(group: Sequence[Waiting], waiting: Sequence[Waiting]) -> Waiting:
    """Stand for the choice of the selection, which is asked instead."""
    raise NotImplementedError


def most_distinct(group: Sequence[Waiting], waiting: Sequence[Waiting]) -> Waiting:
    """Choose the SNR farthest from that of the group's first device, in dB; ties go to the lower index.

    Power-domain NOMA gains most from devices whose channels differ (Ding, Fan and Poor, IEEE Trans. Veh.
    Technol. 65(8), 2016).
    """
    first = group[0].snr_db
    return min(waiting, key=lambda update: (-abs(update.snr_db - first), update.device))


PAIRINGS: Mapping[str, Any] = {"as-selected": as_selected, "most-distinct": most_distinct}
PAIRING = Choice("pairing", PAIRINGS, own=(2,))
