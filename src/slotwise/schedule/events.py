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


def drive(
    scheduler: Scheduler,
    compute_slots: Callable[[int], int],
    link_slots: int,
    *,
    rounds: int | None,
    deadline: int | None,
) -> Record:
    """Play rounds until ``rounds`` are done or the next one would end after the deadline.

    ``compute_slots(device)`` is how long the device's next local training takes. The agenda is one heap,
    totally ordered by (slot, device); the channel counts as device 0.
    """
    record = Record([], [], [])
    of_round: list[Uplink] = []
    agenda: list[tuple[int, int, Event]] = []

    def hand_out(delivery: Deliver, slot: int) -> None:
        record.receivers.append(delivery.receivers)
        for device in delivery.receivers:
            ready = slot + compute_slots(device)
            heappush(agenda, (ready, device, Ready(device, ready)))

    hand_out(scheduler.start(), 0)
    while len(record.broadcasts) != rounds:
        slot, _, event = heappop(agenda)
        events = [event]
        while agenda and agenda[0][0] == slot:
            events.append(heappop(agenda)[2])
        action = scheduler.step(events)
        end = slot + link_slots
        if type(action) is Grant:
            of_round.append((action.round, action.device, action.version, slot, end))
            heappush(agenda, (end, 0, Sent(action.device)))
        elif type(action) is Deliver:
            if deadline is not None and end > deadline:
                break
            heappush(agenda, (end, 0, Delivered(action.version)))
            hand_out(action, end)
            record.uplinks.extend(of_round)
            record.broadcasts.append((slot, end))
            of_round = []
    return record
