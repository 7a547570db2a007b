"""Reception: slots, SNR and energy of an uplink, by which a rule may weigh its update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slotwise.fleet import Reach
from slotwise.schedule import Timeline
from slotwise.schedule.link import FleetLink, Link, snr_db_of


class Reception(NamedTuple):
    """The uplink that brought an update.

    Attributes:
        slot: The slot in which it started.
        slots: Slots from then to its end.
        snr_db: SNR in its first slot, in dB; 0 for all devices over a link without SNR.
        bits: Bits of the update.
        joules: Energy of sending it; 0 if nothing says what a slot of sending takes.
    """

    slot: int = 0
    slots: int = 1
    snr_db: float = 0.0
    bits: int = 0
    joules: float = 0.0


@dataclass(frozen=True)
class UplinkRadio:
    """Link, bits and energy of the uplinks of a run.

    Attributes:
        link: The link that they go over.
        bits: Bits of an update.
        sending_joules: Joules of a slot of sending, of all devices or of devices 1 to N one by one.
        reach: Slots that devices own, if they have such; only these are paid for.
        seed: Seed of the noise that the server receives, if updates are added over the air.
    """

    link: Link
    bits: int = 0
    sending_joules: Sequence[float] = (0.0,)
    reach: Reach | None = None
    seed: int = 0

    @classmethod
    def of(cls, timeline: Timeline, bits: int = 0) -> UplinkRadio:
        """Return that of a timeline alone, which says nothing of SNR and energy."""
        return cls(FleetLink.of(timeline.scenario, timeline.fleet), bits, reach=timeline.fleet.windows)

    def reception(self, device: int, start: int, end: int, power: float = 1.0) -> Reception:
        """Return the uplink of a device in slots [start, end), sent with this part of its power."""
        each = power * self.sending_joules[0 if len(self.sending_joules) == 1 else device - 1]
        joules = each * self._slots_on_air(device, start, end) if each else 0.0
        return Reception(start, end - start, snr_db_of(self.link, device, start), self.bits, joules)

    def _slots_on_air(self, device: int, start: int, end: int) -> int:
        if self.reach is None:
            return end - start
        _, first, after = self.reach.on_air(*(np.array([number]) for number in (device, start, end)))
        return int((after - first).sum())
