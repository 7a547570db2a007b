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


class Correction(NamedTuple):
    """How a counter follows beacons: by which part of the error, and up to which drift.

    A beacon is never heard before it is sent. So where some are heard late by more than clocks drift, an
    early one says more than a late one.
    """

    early_share: int  # the expected time moves by one part in so many if a beacon comes before it
    late_share: int  # and if it comes after it
    rate_share: int  # the same for the drift
    most_rate: int  # in parts of RATE_UNIT
    trusts_second: bool  # the second beacon gives the drift

    def rate(self, rate: int) -> int:
        """Return a drift within the limit."""
        return max(-self.most_rate, min(rate, self.most_rate))


ON_AIR = Correction(2, 2, 4, RATE_UNIT, trusts_second=True)  # beacons are exact but for some noise
OVER_UDP = Correction(1, 16, 64, RATE_UNIT // 2000, trusts_second=False)  # programs delay them


class SlotCounter:
    """Says when slots begin by the local clock, from the beacons that were heard.

    Beacons correct offset and drift by shares of the error, so that one that is off by some noise does not
    move much; on the air the second one gives the drift. A beacon that is off by more than half a slot
    begins anew. Without ``estimate_drift`` only the offset is followed.
    """

    def __init__(self, slot_ns: int, *, estimate_drift: bool = True, correction: Correction = ON_AIR) -> None:
        self._slot_ns, self._estimate_drift, self._correction = slot_ns, estimate_drift, correction
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
        error, correct = local - self.local(slot), self._correction
        if not self.beacons or abs(error) > self._slot_ns // 2:
            self.beacons, self.slot, self._local, self._rate = 1, slot, local, 0
            return
        if passed <= 0:
            return  # an old one
        self.beacons += 1
        if not self._estimate_drift:
            self._local = local
        elif self.beacons == 2 and correct.trusts_second:
            self._local, self._rate = local, correct.rate(error * RATE_UNIT // passed)
        else:
            share = correct.early_share if error < 0 else correct.late_share
            self._local = local - error + error // share
            self._rate = correct.rate(self._rate + error * RATE_UNIT // passed // correct.rate_share)
        self.slot = slot
