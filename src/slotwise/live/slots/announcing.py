"""GrantAnnouncer: when a server sends a beacon, and which grants it announces."""

from __future__ import annotations

from collections.abc import Callable

from slotwise.live.slots.frames import AheadGrant, Beacon
from slotwise.live.slots.plan_ahead import PlanAhead, SlotPlan

FIRST_BEACONS = 4  # one in each of the first slots: devices learn their drift before they send
FEW_AHEAD = 2  # announced grants; with fewer a beacon announces more
BEACON_EVERY = 10  # slots between two beacons


class GrantAnnouncer:
    """The coming grants, and when devices are told of them.

    There is a beacon in the first slots and every ``beacon_every``, and one more when the plan has changed,
    as it does if an uplink was lost, or when few of the announced grants are left. ``plan`` returns a copy of
    the plan as it is now, and ``is_over`` says of a slot and a version whether the run ends before.

    Attributes:
        beat: Slot of the next beacon that is sent in any case.
    """

    def __init__(
        self,
        plan: Callable[[], SlotPlan],
        is_over: Callable[[int, int], bool],
        slot_ns: int,
        most: int,
        *,
        beacon_every: int = BEACON_EVERY,
        first: int = 0,
    ) -> None:
        self._ahead, self._slot_ns, self._most = PlanAhead(plan, is_over), slot_ns, most
        self._beacon_every, self._quickly_until = beacon_every, first + FIRST_BEACONS
        self._announced: tuple[AheadGrant, ...] = ()
        self.beat = first

    def renew(self) -> None:
        """Plan again: something has happened that was not planned."""
        self._ahead.renew()

    def expect(self, grant: AheadGrant) -> bool:
        """Take the next grant; return False, after planning again, if another was foreseen."""
        return self._ahead.expect(grant)

    def beacon(self, slot: int, current: AheadGrant | None, *, changed: bool) -> Beacon | None:
        """Return a beacon with the current grant and the coming ones, if it is due."""
        left = sum(grant.first > slot for grant in self._announced)
        due = changed or slot >= self.beat
        if slot >= self.beat:
            step = self._beacon_every
            self.beat = slot + 1 if slot + 1 < self._quickly_until else (slot // step + 1) * step
        if not due and left >= FEW_AHEAD:
            return None
        grants = () if current is None else (current,)
        grants = (*grants, *self._ahead.next(self._most - len(grants)))
        if not due and grants[-1:] == self._announced[-1:]:
            return None  # there are no further ones
        self._announced = grants
        return Beacon(slot, self._slot_ns, grants)
