"""Selections: who sends next.

A selection is a function of the updates that wait for the channel (at least one, ordered by slot and device),
the round and the device that sent last (0 at first). It returns one of the updates. It must depend on nothing
else: the same question has the same answer, in a simulation, on a network and after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from slotwise.fleet.fleet import chance

_RANDOM_SELECTION = 7  # 1 to 6 are the purposes that slotwise.fleet draws numbers for


class Waiting(NamedTuple):
    """An update that waits for the channel.

    Attributes:
        slot: the slot in which its training ended; after a lost uplink, its new place in the queue.
        device: the device that computed it.
        version: the model it was trained on.
    """

    slot: int
    device: int
    version: int


Selection = Callable[[Sequence[Waiting], int, int], Waiting]


def first_ready(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:  # noqa: ARG001
    """Choose the update that was ready first; ties go to the lower index."""
    return min(waiting)


def round_robin(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:  # noqa: ARG001
    """Choose the next device after the last sender, in the order 1, …, N, 1, …"""
    return min(waiting, key=lambda update: (update.device <= last_sender, update.device))


@dataclass(frozen=True)
class RandomSelection:
    """Choose at random, as a function of the seed, the round and the last sender."""

    seed: int = 0
    depends_on_seed: ClassVar[bool] = True

    def __call__(self, waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:
        """Choose the update whose device draws the lowest number."""
        key = (self.seed, _RANDOM_SELECTION, round_number, last_sender)
        return min(waiting, key=lambda update: (chance(*key, update.device), update.device))
