"""Virtual slots: drives a Scheduler event by event, whatever the devices are like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from slotwise.fleet import Fleet
from slotwise.schedule.agenda import Agenda
from slotwise.schedule.scheduler import (
    Deliver,
    Delivered,
    Grant,
    Joined,
    Left,
    Lost,
    Ready,
    Scheduler,
    Sent,
)
from slotwise.schedule.timeline import Uplink


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


class Drive:
    """One run of a Scheduler in virtual slots."""

    def __init__(self, scheduler: Scheduler, fleet: Fleet, broadcast_slots: int) -> None:
        self._scheduler, self._fleet, self._broadcast_slots = scheduler, fleet, broadcast_slots
        self._agenda = Agenda()
        self._record = Record([], [], [], [])
        self._uplinks: list[Uplink] = []  # of the round that is on
        self._lost: list[Uplink] = []
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
        last = inf if deadline is None else deadline - self._broadcast_slots
        self._hand_out(self._scheduler.start(), 0)
        for slot, events in self._agenda:
            if slot > last:
                break
            action = self._scheduler.step(events)
            if type(action) is Grant:
                self._transmit(action, slot)
            elif type(action) is Deliver:
                self._broadcast(action, slot)
                if len(self._record.broadcasts) == rounds:
                    break
        return self._record

    def _transmit(self, grant: Grant, slot: int) -> None:
        device, round_number, version = grant
        end = slot + self._fleet.link_slots[device - 1]
        uplink = (round_number, device, version, slot, end)
        if self._faultless or self._arrives(device, slot, end):
            self._agenda.add(end, Sent(device))
            self._uplinks.append(uplink)
        else:
            self._agenda.add(end, Lost(device, end))
            self._lost.append(uplink)

    def _broadcast(self, delivery: Deliver, slot: int) -> None:
        """The last word on a round: from now on it counts as completed."""
        record, end = self._record, slot + self._broadcast_slots
        self._hand_out(delivery, end)
        record.broadcasts.append((slot, end))
        record.uplinks.extend(self._uplinks)
        record.lost.extend(self._lost)
        self._uplinks, self._lost = [], []

    def _hand_out(self, delivery: Deliver, slot: int) -> None:
        """The receivers compute from ``slot`` on, and will be ready when they are."""
        version, receivers = delivery
        add, slots_of_training = self._agenda.add, self._slots_of_training
        add(slot, Delivered(version))
        for device in receivers:
            ready = slot + slots_of_training(device)
            add(ready, Ready(device, ready, version))
        self._record.receivers.append(receivers)

    def _slots_of_training(self, device: int) -> int:
        if self._faultless:
            return self._fleet.compute_slots[device - 1]
        training = self._trainings[device]
        self._trainings[device] = training + 1
        return self._fleet.slots_of_training(device, training)

    def _arrives(self, device: int, slot: int, end: int) -> bool:
        """Whether the device's next attempt to send reaches the server."""
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
