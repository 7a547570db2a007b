"""The clock of a device, which drifts, and the slot counter that beacons synchronise; integers only."""

from __future__ import annotations

from typing import NamedTuple

BILLION = 10**9
RATE_UNIT = 10**12  # an estimated drift counts in parts of this


class DriftingClock(NamedTuple):
    """A clock that shows ``offset`` nanoseconds at moment 0 and gains ``ppb`` nanoseconds a second."""

    offset: int = 0
    ppb: int = 0

    def local(self, moment: int) -> int:
        """Return what the clock shows at a moment."""
        return self.offset + moment + moment * self.ppb // BILLION

    def moment(self, local: int) -> int:
        """Return the first moment at which the clock shows ``local`` or more."""
        return -((self.offset - local) * BILLION // (BILLION + self.ppb))


class SlotCounter:
    """Says when slots begin by the local clock, from the beacons that were heard.

    The second beacon gives the drift; later ones correct offset and drift by fixed shares of the error, so
    that one that is off by some noise does not move much. A beacon that is off by more than half a slot
    begins anew. Without ``estimate_drift`` only the offset is followed.
    """

    PHASE_SHARE, RATE_SHARE = 2, 4  # one half and one quarter of the error

    def __init__(self, slot_ns: int, *, estimate_drift: bool = True) -> None:
        self._slot_ns, self._estimate_drift = slot_ns, estimate_drift
        self.beacons = 0  # heard since it began anew
        self.slot = 0  # that of the last beacon
        self._local, self._rate = 0, 0

    @property
    def drift_ppb(self) -> int:
        """The estimated drift of the local clock in parts per billion."""
        return self._rate * BILLION // RATE_UNIT

    def local(self, slot: int) -> int:
        """Return the local time at which a slot begins."""
        passed = (slot - self.slot) * self._slot_ns
        return self._local + passed + passed * self._rate // RATE_UNIT

    def hear(self, slot: int, local: int) -> None:
        """Take a beacon: slot ``slot`` began at local time ``local``."""
        passed = (slot - self.slot) * self._slot_ns
        error = local - self.local(slot)
        if not self.beacons or abs(error) > self._slot_ns // 2:
            self.beacons, self.slot, self._local, self._rate = 1, slot, local, 0
            return
        if passed <= 0:
            return  # an old one
        self.beacons += 1
        if not self._estimate_drift:
            self._local = local
        elif self.beacons == 2:
            self._local, self._rate = local, error * RATE_UNIT // passed
        else:
            self._local = local - error + error // self.PHASE_SHARE
            self._rate += error * RATE_UNIT // passed // self.RATE_SHARE
        self.slot = slot
