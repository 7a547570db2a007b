"""Selections: who sends next among the updates that wait for the channel, or takes part in a round.

A selection is one function, or one class if it has options, and its line in `SELECTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from slotwise.base.random_streams import SchedulePurpose, chance
from slotwise.options import Choice, Derived
from slotwise.schedule.link import Floats

BITS_PER_DECIBEL = log2(10) / 10  # 10^(x/10) = 2^(x·this), which is computed ten times as fast


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


def first_ready(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:  # noqa: ARG001
    """Choose the update that was ready first, as in the paper; ties go to the lower index."""
    return min(waiting)


def round_robin(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:  # noqa: ARG001
    """Choose the next device after the last sender, in the order 1, …, N, 1, …

    For FL: Yang, Liu, Quek and Poor, 2020 (IEEE Trans. Commun. 68(1)).
    """
    # False sorts before True: first the devices after the last sender, then those up to it.
    return min(waiting, key=lambda update: (update.device <= last_sender, update.device))


@dataclass(frozen=True)
class RandomSelection:
    """Choose at random, as a function of the seed, the round, the last sender and the losses of the round.

    All waiting devices are equally likely (McMahan et al., 2017, for participants).
    """

    seed: Annotated[int, Derived()] = 0
    depends_on_seed: ClassVar[bool] = True

    def __call__(self, waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:
        """Choose the update whose device draws the lowest number."""
        # A number for each device, which does not depend on who else is waiting.
        key = [self.seed, SchedulePurpose.SELECTION, round_number, last_sender]
        # A device sends again in the same round only after a loss, and must not draw the same number again.
        if waiting[0].lost_in_round:
            key.append(waiting[0].lost_in_round)
        return min(waiting, key=lambda update: (chance(*key, update.device), update.device))


def best_channel(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:  # noqa: ARG001
    """Choose the highest SNR now (Knopp and Humblet, ICC 1995); ties go to the lower index."""
    return min(waiting, key=lambda update: (-update.snr_db, update.device))


def proportional_fair(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:  # noqa: ARG001
    """Choose the largest log2(1 + SNR) / (1 + updates arrived); ties go to the lower index.

    The highest rate relative to what a device has sent (Viswanath, Tse and Laroia, 2002). The rate is
    Shannon's. All updates have the same number of bits, so the average throughput of a device is
    proportional to the number of its updates that have arrived: the window of the average is the whole run.
    """
    rates = spectral_efficiency(np.array([update.snr_db for update in waiting])).tolist()
    # A product with the reciprocal, as in `fading_kernel.choose`: a quotient may round differently.
    shares = [-rate * (1 / (1 + update.arrived)) for rate, update in zip(rates, waiting, strict=True)]
    return min(zip(shares, waiting, strict=True), key=lambda pair: (pair[0], pair[1].device))[1]


def spectral_efficiency(snr_db: Floats) -> Floats:
    """Return log2(1 + SNR) of SNRs in dB."""
    efficiency: Floats = np.log2(1.0 + np.exp2(snr_db * BITS_PER_DECIBEL))
    return efficiency


def largest_age(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:  # noqa: ARG001
    """Choose the most rounds since the device's last update; ties go to the lower index.

    Largest age of update: Yang, Arafa, Quek and Poor, 2020 (arXiv 1910.14648).
    """
    return min(waiting, key=lambda update: (-update.age, update.device))


def shortest_uplink(waiting: Sequence[Waiting], round_number: int, last_sender: int) -> Waiting:  # noqa: ARG001
    """Choose the fewest planned slots; among equals the update that was ready first.

    Smith, 1956; for FL: Nishio and Yonetani, ICC 2019.
    """
    return min(waiting, key=lambda update: (update.planned_slots, update))


SELECTIONS: Mapping[str, Any] = {
    "first-ready": first_ready,
    "round-robin": round_robin,
    "random": RandomSelection(),
    "best-channel": best_channel,
    "proportional-fair": proportional_fair,
    "largest-age": largest_age,
    "shortest-uplink": shortest_uplink,
}
SELECTION = Choice("selection", SELECTIONS, own=(2, 3))
SelectionChoice = Annotated[Selection, SELECTION]
