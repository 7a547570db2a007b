"""Virtual slots: drive a Scheduler event by event, for any devices and any policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush
from math import inf

from slotwise.errors import UserError
from slotwise.fleet import Fleet
from slotwise.scenario import Scenario
from slotwise.schedule.link import FleetLink, Link
from slotwise.schedule.policy import Delivery, Policy, bound_delivery
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
from slotwise.schedule.timeline import Record, Timeline, Uplink


def event_timeline(
    scenario: Scenario,
    policy: Policy,
    fleet: Fleet | None,
    rounds: int | None,
    link: Link | None = None,
) -> Timeline:
    """Return what a Scheduler makes of a policy; the timeline is empty if no round fits."""
    scenario.check_horizon(rounds)
    devices = fleet or Fleet.equal(scenario)
    delivery = planned_delivery(policy, scenario, fleet, rounds, link)
    scheduler = Scheduler(
        scenario.group_size,
        delivery,
        selection=policy.selection,
        retransmission=devices.retransmission,
        absent=devices.absent_at_first,
        changes=scenario.group_size_changes,
    )
    used = FleetLink.of(scenario, devices) if link is None else link
    record = Drive(scheduler, devices, used).play(rounds, scenario.deadline)
    own = None if devices.is_equal_to(scenario) else devices
    return Timeline.of(scenario, policy.name, delivery.delay, record, own)


def planned_delivery(
    policy: Policy, scenario: Scenario, fleet: Fleet | None, rounds: int | None, link: Link | None
) -> Delivery:
    """Return the delivery of a policy; with a link it plans with the link's planned slots.

    What will happen on the link is not known in advance.
    """
    if link is None:
        return bound_delivery(policy, scenario, fleet, rounds)
    planned = replace(scenario, link_slots=link.planned_broadcast_slots)
    expected = replace(fleet or Fleet.equal(scenario), link_slots=tuple(link.planned_slots))
    return bound_delivery(policy, planned, expected, rounds)


class Agenda:
    """Future events: a heap of slots, and the events of each slot in no particular order."""

    def __init__(self) -> None:
        self._slots: list[int] = []
        self._events: dict[int, list[Event]] = {}

    def add(self, slot: int, event: Event) -> None:
        """Add an event that happens in a slot."""
        events = self._events.get(slot)
        if events is None:
            heappush(self._slots, slot)
            self._events[slot] = [event]
        else:
            events.append(event)

    @property
    def next_slot(self) -> int | None:
        """The first slot that has events; None if there is none."""
        return self._slots[0] if self._slots else None

    def pop(self) -> tuple[int, list[Event]]:
        """Remove and return the first slot and its events."""
        slot = heappop(self._slots)
        return slot, self._events.pop(slot)

    def __iter__(self) -> Iterator[tuple[int, list[Event]]]:
        while self._slots:  # events may be added meanwhile
            yield self.pop()

    def entries(self) -> list[tuple[int, Event]]:
        """Return all events by slot, without removing them."""
        return [(slot, event) for slot in sorted(self._events) for event in self._events[slot]]


class Drive:
    """One run of a Scheduler in virtual slots."""

    def __init__(self, scheduler: Scheduler, fleet: Fleet, link: Link) -> None:
        self._scheduler, self._fleet, self._link = scheduler, fleet, link
        self._agenda = Agenda()
        self._record = Record([], [], [], [])
        self._uplinks: list[Uplink] = []  # of the current round
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
        """Play until ``rounds`` are done, the next round would end after the deadline, or all have left."""
        record = self._record
        last = inf if deadline is None else deadline
        self._hand_out(self._scheduler.start(), 0)
        for slot, events in self._agenda:
            if slot > last:
                break
            action = self._scheduler.step(events, slot)
            if type(action) is Grant:
                self._transmit(action, slot)
            elif type(action) is Deliver:  # the round is complete from now on
                end = slot + self._link.broadcast(action.receivers, slot)
                if end > last:
                    break
                self._hand_out(action, end)
                record.broadcasts.append((slot, end))
                record.uplinks.extend(self._uplinks)
                record.lost.extend(self._lost)
                self._uplinks, self._lost = [], []
                if len(record.broadcasts) == rounds:
                    break
        return record

    def _transmit(self, grant: Grant, slot: int) -> None:
        device, round_number, version = grant
        fleet = self._fleet
        attempt = self._attempts[device]
        self._attempts[device] = attempt + 1
        slots, lost = self._link.uplink(device, slot, attempt)
        end = slot + slots
        uplink = (round_number, device, version, slot, end)
        arrives = not (lost or fleet.leaves_within(device, slot, end))
        self._agenda.add(end, Sent(device) if arrives else Lost(device, end))
        (self._uplinks if arrives else self._lost).append(uplink)

    def _hand_out(self, delivery: Deliver, slot: int) -> None:
        """Let the receivers compute from ``slot`` on."""
        version, receivers = delivery
        fleet, add = self._fleet, self._agenda.add
        if receivers and not 1 <= receivers[0] <= receivers[-1] <= fleet.devices:
            numbers = f"{receivers[0]} to {receivers[-1]}"
            raise UserError(f"policy: receivers of model {version} are {numbers}, not 1 to {fleet.devices}")
        add(slot, Delivered(version))
        for device in receivers:
            if self._faultless:
                ready = slot + fleet.compute_slots[device - 1]
            else:
                training = self._trainings[device]
                self._trainings[device] = training + 1
                ready = slot + fleet.slots_of_training(device, training)
            add(ready, Ready(device, ready, version))
        self._record.receivers.append(receivers)
