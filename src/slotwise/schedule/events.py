"""Virtual slots: drives a Scheduler event by event, whatever the devices are like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from slotwise.schedule.scheduler import Deliver, Delivered, Event, Grant, Ready, Scheduler, Sent

Uplink = tuple[int, int, int, int, int]  # round, device, version, start, end


class Record(NamedTuple):
    """What was seen of the completed rounds: uplinks, broadcasts, and the receivers of w_0, w_1, …"""

    uplinks: list[Uplink]
    broadcasts: list[tuple[int, int]]
    receivers: list[Sequence[int]]


class Agenda:
    """What will happen, instant by instant: a heap of slots, and the events of each slot."""

    def __init__(self) -> None:
        self._slots: list[int] = []
        self._events: dict[int, list[Event]] = {}

    def add(self, slot: int, event: Event) -> None:
        """Note an event; those of one slot keep no order, as the Scheduler asks for none."""
        events = self._events.get(slot)
        if events is None:
            heappush(self._slots, slot)
            self._events[slot] = [event]
        else:
            events.append(event)

    def next(self) -> tuple[int, list[Event]]:
        """The earliest slot in which something happens, and all that happens in it."""
        slot = heappop(self._slots)
        return slot, self._events.pop(slot)


def drive(
    scheduler: Scheduler,
    compute_slots: Callable[[int], int],
    link_slots: int,
    *,
    rounds: int | None,
    deadline: int | None,
) -> Record:
    """Play rounds until ``rounds`` are done or the next one would end after the deadline.

    ``compute_slots(device)`` is how long the device's next local training takes.
    """
    record = Record([], [], [])
    of_round: list[Uplink] = []
    agenda = Agenda()

    def hand_out(delivery: Deliver, slot: int) -> None:
        record.receivers.append(delivery.receivers)
        for device in delivery.receivers:
            ready = slot + compute_slots(device)
            agenda.add(ready, Ready(device, ready))

    hand_out(scheduler.start(), 0)
    while len(record.broadcasts) != rounds:
        slot, events = agenda.next()
        action = scheduler.step(events)
        end = slot + link_slots
        if type(action) is Grant:
            of_round.append((action.round, action.device, action.version, slot, end))
            agenda.add(end, Sent(action.device))
        elif type(action) is Deliver:
            if deadline is not None and end > deadline:
                break
            agenda.add(end, Delivered(action.version))
            hand_out(action, end)
            record.uplinks.extend(of_round)
            record.broadcasts.append((slot, end))
            of_round = []
    return record
