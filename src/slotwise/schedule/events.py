"""Virtual slots: drives a Scheduler event by event, whatever the devices are like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from slotwise.fleet import Fleet
from slotwise.schedule.scheduler import (
    Deliver,
    Delivered,
    Event,
    Grant,
    Joined,
    Left,
    Lost,
    Ready,
    Scheduler,
    Sent,
)

Uplink = tuple[int, int, int, int, int]  # round, device, version, start, end


class Record(NamedTuple):
    """What was seen of the completed rounds.

    Attributes:
        uplinks: those that arrived, in the order of the channel.
        lost: those that did not.
        broadcasts: start and end of each.
        receivers: of w_0, w_1, …
    """

    uplinks: list[Uplink]
    lost: list[Uplink]
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

    def __bool__(self) -> bool:
        return bool(self._slots)

    def next(self) -> tuple[int, list[Event]]:
        """The earliest slot in which something happens, and all that happens in it."""
        slot = heappop(self._slots)
        return slot, self._events.pop(slot)


class Drive:
    """One run of a Scheduler in virtual slots."""

    def __init__(self, scheduler: Scheduler, fleet: Fleet, broadcast_slots: int) -> None:
        self._scheduler, self._fleet, self._broadcast_slots = scheduler, fleet, broadcast_slots
        self._agenda = Agenda()
        self._record = Record([], [], [], [])
        self._trainings: Counter[int] = Counter()
        self._attempts: Counter[int] = Counter()
        self._faultless = fleet.faultless
        for device, leaves, returns in fleet.absences:
            if leaves > 0:
                self._agenda.add(leaves, Left(device))
            if returns is not None:
                self._agenda.add(returns, Joined(device))

    def play(self, rounds: int | None, deadline: int | None) -> Record:
        """Play rounds until ``rounds`` are done, the next would end after the deadline, or all have left."""
        record, agenda = self._record, self._agenda
        uplinks: list[Uplink] = []
        lost: list[Uplink] = []
        self._hand_out(self._scheduler.start(), 0)
        while agenda and len(record.broadcasts) != rounds:
            slot, events = agenda.next()
            action = self._scheduler.step(events)
            if type(action) is Grant:
                end = slot + self._fleet.link_slots[action.device - 1]
                uplink = (action.round, action.device, action.version, slot, end)
                (uplinks if self._transmit(action.device, slot, end) else lost).append(uplink)
            elif type(action) is Deliver:
                end = slot + self._broadcast_slots
                if deadline is not None and end > deadline:
                    break
                agenda.add(end, Delivered(action.version))
                self._hand_out(action, end)
                record.broadcasts.append((slot, end))
                record.uplinks.extend(uplinks)
                record.lost.extend(lost)
                uplinks, lost = [], []
        return record

    def _hand_out(self, delivery: Deliver, slot: int) -> None:
        """The receivers compute from ``slot`` on, and will be ready when they are."""
        self._record.receivers.append(delivery.receivers)
        for device in delivery.receivers:
            ready = slot + self._slots_of_training(device)
            self._agenda.add(ready, Ready(device, ready, delivery.version))

    def _slots_of_training(self, device: int) -> int:
        if self._faultless:
            return self._fleet.compute_slots[device - 1]
        training = self._trainings[device]
        self._trainings[device] = training + 1
        return self._fleet.slots_of_training(device, training)

    def _transmit(self, device: int, slot: int, end: int) -> bool:
        """Take the channel from ``slot`` to ``end``; whether the update arrives."""
        arrives = self._faultless or self._arrives(device, slot, end)
        self._agenda.add(end, Sent(device) if arrives else Lost(device, end))
        return arrives

    def _arrives(self, device: int, slot: int, end: int) -> bool:
        attempt = self._attempts[device]
        self._attempts[device] = attempt + 1
        return not (self._fleet.loses(device, attempt) or self._fleet.leaves_within(device, slot, end))


def drive(
    scheduler: Scheduler,
    fleet: Fleet,
    broadcast_slots: int,
    *,
    rounds: int | None,
    deadline: int | None,
) -> Record:
    """What a Scheduler makes of a fleet; see `Drive.play`."""
    return Drive(scheduler, fleet, broadcast_slots).play(rounds, deadline)
