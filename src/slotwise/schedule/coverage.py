"""Coverage: which updates wait until their device may send, and which devices have missed a broadcast.

The Scheduler asks it in every instant. Slots in which something may change are kept in heaps, so devices are
looked at when their windows open and close, or when they own a slot, not in every instant.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from heapq import heappop, heappush

from slotwise.fleet import Reach
from slotwise.schedule.link import FleetLink, Link
from slotwise.schedule.ready_queue import Update


class Coverage:
    """The windows, or owned slots, of the devices over a link, and who waits for one of them.

    An uplink may start if the slots that the link plans for it fit into the window. A broadcast reaches a
    device if it lies within a window, with the slots that it takes for all who are in their windows.
    """

    def __init__(self, windows: Reach, link: Link) -> None:
        self._windows, self._link, self._uplink = windows, link, link.planned_slots
        known = isinstance(link, FleetLink)
        windows.refuse_unfit(self._uplink, link.planned_broadcast_slots, known=known)
        self.queued: dict[int, Update] = {}  # updates that may be sent now
        self.held: dict[int, Update] = {}  # updates whose devices are out of their windows
        self.missed: set[int] = set()  # devices that wait for a model since they missed one
        self._closings: list[tuple[int, int]] = []  # (slot, device), of what is queued
        self._openings: list[tuple[int, int]] = []  # of what is held
        self._receptions: list[tuple[int, int]] = []  # slots from which a missed model may be received
        self._in_reach: set[int] = set()  # of those who missed a model, the ones to look at in every instant

    def may_send(self, device: int, slot: int) -> bool | None:
        """Return whether an uplink may start in ``slot``; None if none may start there or later."""
        starts = self._windows.uplink_starts(device, slot, self._uplink[device - 1])
        return None if starts is None else starts[0] == slot

    def queue(self, update: Update, slot: int) -> None:
        """Note an update that may be sent in ``slot``."""
        device = update[1]
        starts = self._windows.uplink_starts(device, slot, self._uplink[device - 1])
        self.queued[device] = update
        heappush(self._closings, (slot if starts is None else starts[1] + 1, device))

    def hold(self, update: Update, slot: int) -> None:
        """Note an update that may be sent later than in ``slot``."""
        device = update[1]
        starts = self._windows.uplink_starts(device, slot, self._uplink[device - 1])
        self.held[device] = update
        heappush(self._openings, (slot if starts is None else starts[0], device))

    def closed(self, slot: int) -> Iterator[Update]:
        """Remove and yield updates that were queued and may not be sent in ``slot``."""
        for device in sorted(_due(self._closings, slot)):
            update = self.queued.pop(device, None)
            if update is not None and self.may_send(device, slot):
                self.queue(update, slot)
            elif update is not None:
                yield update

    def opened(self, slot: int) -> Iterator[Update]:
        """Remove and yield updates that were held and may be sent in ``slot``, or never."""
        for device in sorted(_due(self._openings, slot)):
            update = self.held.pop(device, None)
            if update is not None and self.may_send(device, slot) is False:
                self.hold(update, slot)
            elif update is not None:
                yield update

    def reached(self, devices: Iterable[int], slot: int) -> list[int]:
        """Return the devices that a broadcast to them reaches if it starts in ``slot``."""
        listening = sorted(n for n in devices if self._windows.receives(n, slot, slot + 1))
        if not listening:
            return []
        end = slot + self._link.broadcast(listening, slot)
        return [n for n in listening if self._windows.receives(n, slot, end)]

    def miss(self, device: int, slot: int) -> bool:
        """Note that a device missed a model; return whether it can receive one after ``slot``."""
        starts = self._windows.reception_starts(device, slot + 1, self._link.planned_broadcast_slots)
        if starts is None:
            return False
        self.missed.add(device)
        heappush(self._receptions, (starts[0], device))
        return True

    def out_of_reach(self, slot: int) -> list[int]:
        """Return those who missed a model and can never receive one from ``slot`` on."""
        self._in_reach |= _due(self._receptions, slot)
        self._in_reach &= self.missed
        lost = []
        for device in sorted(self._in_reach):
            if not self._windows.receives(device, slot, slot + self._link.planned_broadcast_slots):
                self._in_reach.discard(device)
                if not self.miss(device, slot):
                    lost.append(device)
        return lost

    def awaited(self, slot: int) -> list[int]:
        """Return the devices that missed a model and that a repetition in ``slot`` would reach."""
        self._in_reach &= self.missed
        return self.reached(self._in_reach, slot) if self._in_reach else []

    def drop(self, device: int) -> None:
        """Forget a device that left."""
        self.queued.pop(device, None)
        self.held.pop(device, None)
        self.missed.discard(device)

    def next_slot(self, slot: int) -> int | None:
        """Return the next slot after ``slot`` in which a device that waits may send or receive."""
        heaps = ((self._openings, self.held), (self._receptions, self.missed))
        slots = [heap[0][0] for heap, waiting in heaps if _has_entries(heap, waiting)]
        # The slots of a broadcast may depend on when it starts, so it is tried again in every slot.
        polled = [slot + 1] if self._in_reach & self.missed else []
        return min([*slots, *polled], default=None)


def _has_entries(heap: list[tuple[int, int]], waiting: Container[int]) -> bool:
    """Drop entries of devices that wait no more; return whether one is left."""
    while heap and heap[0][1] not in waiting:
        heappop(heap)
    return bool(heap)


def _due(heap: list[tuple[int, int]], slot: int) -> set[int]:
    """Remove and return the devices in a heap up to a slot."""
    devices = set()
    while heap and heap[0][0] <= slot:
        devices.add(heappop(heap)[1])
    return devices
