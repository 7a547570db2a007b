"""Selection and Waiting: the choice among updates that wait for the channel, and what it sees of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Waiting(NamedTuple):
    """An update that waits for the channel: who computed it, when, from which model, and the channel now.

    For a choice of participants of synchronous FL it is a device, before it has a model: ``slot`` is that of
    the choice and ``version`` the model it would receive.
    """

    slot: int  # in which its training ended; after a lost uplink its place in the queue, maybe in the future
    device: int
    version: int
    age: int = 0  # rounds since the round of the device's last update; k+1 in round k if there was none
    arrived: int = 0  # updates of the device that have arrived so far
    snr_db: float = 0.0  # of its uplink in this slot; 0 for all if the link has none
    planned_slots: int = 1  # that its uplink typically takes
    lost_in_round: int = 0  # uplinks of any device that were lost in this round so far


class Selection(Protocol):
    """Function that chooses one of the updates that wait for the channel.

    They are at least one, ordered by slot and device; the last sender is 0 at first. It must depend on
    nothing else: the same question has the same answer, in a simulation, on a network and after a restart.
    Round, last sender and ``lost_in_round`` together are different for every choice of a run.
    """

    def __call__(self, waiting: Sequence[Waiting], round_number: int, last_sender: int, /) -> Waiting: ...  # noqa: D102
