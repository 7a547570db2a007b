"""Virtual slots: drive a Scheduler event by event, for any devices, any link and any policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import islice
from math import inf
from typing import cast

from slotwise.base.errors import UserError
from slotwise.fleet import Fleet
from slotwise.fleet.battery import NANOJOULES
from slotwise.scenario import Scenario
from slotwise.schedule.decisions import OF_GROUPS, Answer, Decision, DecisionKind
from slotwise.schedule.energy_use import EnergyUse
from slotwise.schedule.group_decisions import ask_for_group
from slotwise.schedule.link import AllocatingLink, FleetLink, GroupLink, Link, Transmission, has_groups
from slotwise.schedule.policy import Delivery, Policy, bound_delivery
from slotwise.schedule.scheduler import Scheduler
from slotwise.schedule.scheduler_events import (
    Action,
    Deliver,
    Delivered,
    Event,
    Grant,
    Joined,
    Left,
    Lost,
    Opened,
    Ready,
    Repeat,
    Sent,
)
from slotwise.schedule.timeline import NEVER_CHARGED, Record, Reduced, Timeline, Uplink, Wait


def event_timeline(
    scenario: Scenario, policy: Policy, fleet: Fleet, rounds: int | None, link: Link
) -> Timeline:
    """Return what a Scheduler makes of a policy; the timeline is empty if no round fits."""
    drive = driven(scenario, policy, fleet, rounds, link)
    record = drive.play(rounds, scenario.deadline)
    return Timeline.of(scenario, policy.name, drive.delivery.delay, record, fleet)


def driven(
    scenario: Scenario,
    policy: Policy,
    fleet: Fleet,
    rounds: int | None,
    link: Link,
    asks: Collection[DecisionKind] = (),
) -> Drive:
    """Return a Scheduler in virtual slots, before the first of them."""
    delivery = planned_delivery(policy, scenario, fleet, link, rounds)
    at_once, reach = scenario.sub_channels, fleet.windows
    scheduler = Scheduler(
        scenario.group_size,
        delivery,
        selection=policy.selection,
        retransmission=fleet.retransmission,
        absent=fleet.absent_at_first,
        changes=scenario.group_size_changes,
        sub_channels=at_once if reach is None else reach.uplinks_at_once(at_once, scenario.devices),
        full_duplex=scenario.has_full_duplex,
        link=link,
        windows=reach,
        asks=[kind for kind in asks if kind not in OF_GROUPS],
    )
    return Drive(scheduler, fleet, link, [kind for kind in asks if kind in OF_GROUPS])


def planned_delivery(
    policy: Policy, scenario: Scenario, fleet: Fleet, link: Link, rounds: int | None
) -> Delivery:
    """Return the policy's delivery; a plan it makes assumes the planned slots of the link."""
    if policy.plans and not isinstance(link, FleetLink):
        fleet = replace(fleet, link_slots=tuple(link.planned_slots))
        together = link.most_senders if has_groups(link) else scenario.sub_channels
        scenario = replace(scenario, link_slots=link.planned_broadcast_slots, sub_channels=together)
        policy = policy.for_planned_slots()
    return bound_delivery(policy, scenario, fleet, rounds)


class Agenda:
    """Future events: a heap of slots, and the events of each slot in no particular order."""

    def __init__(self) -> None:
        # Only slots are in the heap: many events share a slot, and their order there does not matter.
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
    """One run of a Scheduler in virtual slots; ``asks`` is decided when the uplinks of a group begin."""

    def __init__(
        self, scheduler: Scheduler, fleet: Fleet, link: Link, asks: Collection[DecisionKind] = ()
    ) -> None:
        self._scheduler, self._fleet, self._link = scheduler, fleet, link
        self.delivery = scheduler.delivery
        self._agenda = Agenda()
        self._waits: list[Wait] = []
        self._repeats: list[Wait] = []  # of the current round
        self._reduced: list[Reduced] = []
        self._wake: int | None = None  # the slot for which an Opened event was added last
        self._sent_again: list[Wait] = []
        self._all_reduced: list[Reduced] = []
        # Of the rounds that are complete.
        self.record = Record([], [], [], [], self._waits, self._sent_again, self._all_reduced)
        self._uplinks: list[Uplink] = []  # of the current round
        self._lost: list[Uplink] = []
        self._trainings: Counter[int] = Counter()
        self._attempts: Counter[int] = Counter()
        # Then the slots of a training are known as soon as its model is there.
        self._steady = fleet.is_steady and fleet.batteries is None
        self._absences = bool(fleet.absences)
        self._energy = None if fleet.batteries is None else EnergyUse(fleet, link)
        # Without faults the slots of every uplink are known: to ask the link for each would only take time.
        self._groups: GroupLink | None = link if has_groups(link) else None
        self._asks = asks  # of an AllocatingLink
        self._group: list[Grant] = []  # those of the present instant
        self._fixed_slots = fleet.link_slots if fleet.faultless and isinstance(link, FleetLink) else None
        for device, leaves, returns in fleet.absences:
            # The Scheduler knows from its start who is absent in slot 0.
            if leaves > 0:
                self._agenda.add(leaves, Left(device))
            if returns is not None:
                self._agenda.add(returns, Joined(device))

    def play(self, rounds: int | None, deadline: int | None) -> Record:
        """Play until ``rounds`` are done, the next round would end after the deadline, or all have left."""
        for _ in islice(self.rounds(deadline), rounds):
            pass
        return self.record

    def rounds(self, deadline: int | None = None) -> Iterator[int]:
        """Play round after round, and yield the slot at which each is complete, not after the deadline."""
        for end in self.steps(deadline):
            assert not isinstance(end, Decision)  # the Scheduler asks nothing
            yield end

    def steps(self, deadline: int | None = None) -> Generator[Decision | int, Answer | None]:
        """Play, and yield each decision, which is sent its answer, and the slot at which a round is complete.

        What is yielded for a round is sent None.
        """
        scheduler, last = self._scheduler, inf if deadline is None else deadline
        while scheduler.undecided is not None:
            scheduler.decide((yield scheduler.undecided))
        self._hand_out(scheduler.start(), 0, 0)
        for slot, happened in self._agenda:
            if slot > last:
                break
            events: Sequence[Event] = happened
            while True:
                for action in scheduler.actions(events, slot):
                    end = self._carry_out(action, slot, last)
                    if end is not None:
                        if end > last:
                            return
                        yield end
                if scheduler.undecided is None:
                    break
                scheduler.decide((yield scheduler.undecided))
                events = ()
            if self._groups is not None and self._group:
                yield from self._transmit_group(self._groups, slot)
            wake = scheduler.next_window
            if wake is not None and wake != self._wake:
                self._agenda.add(wake, Opened())
                self._wake = wake

    def _carry_out(self, action: Action, slot: int, last: float) -> int | None:
        """Let the channel carry something; return the slot at which a round ends if it is complete now."""
        if type(action) is Grant:
            if self._groups is None:
                self._transmit(action, slot)
            else:
                self._group.append(action)
        elif type(action) is Deliver:  # the round is complete from now on
            # Only complete rounds are recorded: the uplinks of one that ends too late are dropped.
            end = slot + self._link.broadcast(action.receivers, slot)
            if end <= last:
                self._complete_round(action, slot, end)
            return end
        elif type(action) is Repeat:
            self._send_model_again(action, slot)
        return None

    def _complete_round(self, delivery: Deliver, slot: int, end: int) -> None:
        record = self.record
        self._hand_out(delivery, slot, end)
        record.broadcasts.append((slot, end))
        record.uplinks.extend(self._uplinks)
        record.lost.extend(self._lost)
        self._sent_again.extend(self._repeats)
        self._all_reduced.extend(self._reduced)
        self._uplinks, self._lost, self._repeats, self._reduced = [], [], [], []

    @property
    def scheduler(self) -> Scheduler:
        """The Scheduler that is driven."""
        return self._scheduler

    @property
    def has_started(self) -> bool:
        """True once w_0 is handed out."""
        return bool(self.record.receivers)

    @property
    def uplinks_in_round(self) -> Sequence[Uplink]:
        """Uplinks of the round that is not complete, except those that were lost."""
        return self._uplinks

    def joules(self, slot: int) -> list[float]:
        """Return what the battery of each device holds; infinity if it has none."""
        everyone = range(1, self._fleet.devices + 1)
        if self._energy is None:
            return [inf for _ in everyone]
        return [self._energy.ledger.charge_at(n, slot) / NANOJOULES for n in everyone]

    def _transmit(self, grant: Grant, slot: int) -> None:
        device = grant.device
        if self._fixed_slots is not None:
            self._carry(grant, slot, Transmission(self._fixed_slots[device - 1]))
            return
        attempt = self._attempts[device]
        self._attempts[device] = attempt + 1
        self._carry(grant, slot, self._cut_short(device, slot, self._link.uplink(device, slot, attempt)))

    def _transmit_group(self, link: GroupLink, slot: int) -> Generator[Decision, Answer | None, None]:
        """Let the devices of a group send; one whose uplink is broken off changes nothing for the others."""
        devices = [grant.device for grant in self._group]
        attempts = [self._attempts[device] for device in devices]
        for device in devices:  # each is there once; `Counter.update` would take several times as long
            self._attempts[device] += 1
        if self._asks:
            telling = cast("AllocatingLink", link)
            allocated = yield from ask_for_group(self._scheduler, telling, devices, slot, self._asks)
            uplinks = telling.sent(devices, slot, allocated)
        else:
            uplinks = link.uplinks(devices, slot, attempts)
        for grant, sent in zip(self._group, uplinks, strict=True):
            self._carry(grant, slot, self._cut_short(grant.device, slot, sent))
        self._group = []

    def _cut_short(self, device: int, slot: int, transmission: Transmission) -> Transmission:
        """Return what becomes of an uplink that its battery, its window or its departure may break off."""
        if self._energy is not None:
            transmission = self._energy.send(device, slot, transmission)
        if self._fleet.windows is not None:
            slots, complete = self._fleet.windows.uplink(device, slot, transmission.slots)
            transmission = transmission._replace(slots=slots, lost=transmission.lost or not complete)
        # A departure in its last slot's end is late enough: all slots of the uplink are over.
        end = slot + transmission.slots
        if self._absences and self._fleet.leaves_within(device, slot, end):
            return transmission._replace(lost=True)
        return transmission

    def _carry(self, grant: Grant, slot: int, transmission: Transmission) -> None:
        """Note an uplink and when it ends."""
        device, round_number, version = grant
        lost, end = transmission.lost, slot + transmission.slots
        if transmission.power < 1:
            until = self._fleet.departure(device, slot, end) if self._absences else end
            self._reduced.append((device, slot, until, transmission.power))
        if not lost:
            self._agenda.add(end, Sent(device))
        elif self._energy is None or not self._sends_again(device, slot, end):
            # The Scheduler alone decides: it queues the update again, erases it or drops it.
            self._agenda.add(end, Lost(device, end))
        else:
            self._send_again(device, version, end)
        (self._lost if lost else self._uplinks).append((round_number, device, version, slot, end))

    def _send_model_again(self, repeat: Repeat, slot: int) -> None:
        """Let devices that missed the broadcast of the newest model compute from the end of this one on."""
        version, receivers = repeat
        end = slot + self._link.broadcast(receivers, slot)
        self._agenda.add(end, Delivered(version))
        self._repeats.extend((device, version, slot, end) for device in receivers)
        # How long a training takes may depend on when its model was complete, not on when it was received.
        self._start_trainings(version, receivers, slot, end, self.record.broadcasts[version - 1][1])

    def _hand_out(self, delivery: Deliver, since: int, slot: int) -> None:
        """Let the receivers compute from ``slot`` on, when the broadcast that began in ``since`` ends."""
        version, receivers = delivery
        devices = self._fleet.devices
        if receivers and not 1 <= receivers[0] <= receivers[-1] <= devices:
            numbers = f"{receivers[0]} to {receivers[-1]}"
            raise UserError(f"policy: receivers of model {version} are {numbers}, not 1 to {devices}")
        self._agenda.add(slot, Delivered(version))
        self._start_trainings(version, receivers, since, slot, slot)
        self.record.receivers.append(receivers)

    def _start_trainings(
        self, version: int, receivers: Sequence[int], since: int, slot: int, complete: int
    ) -> None:
        """Let devices compute from ``slot`` on, with a model that was complete in slot ``complete``."""
        fleet, add = self._fleet, self._agenda.add
        for device in receivers:
            if self._steady:
                ready = slot + fleet.compute_slots[device - 1]
            else:
                # Every model received counts, also if its training is broken off, as in `Trainings`.
                training = self._trainings[device]
                self._trainings[device] = training + 1
                slots = fleet.slots_of_training(device, training, complete)
                begins = slot if self._energy is None else self._energy.train(device, since, slot, slots)
                if begins != slot:
                    self._wait(device, version, slot, begins)
                # The device never has the energy: `_wait` has reported that it leaves.
                if begins is None:
                    continue
                ready = begins + slots
            add(ready, Ready(device, ready, version))

    def _sends_again(self, device: int, slot: int, end: int) -> bool:
        """Return whether a lost uplink will be sent again: not if it is erased or the device leaves."""
        fleet = self._fleet
        # Slot ``end`` included: a device that leaves when the loss is known does not send again either.
        return fleet.retransmission != "erasure" and not fleet.leaves_within(device, slot, end + 1)

    def _send_again(self, device: int, version: int, slot: int) -> None:
        """Report a lost uplink; its device sends again when its battery can pay for it."""
        energy, agenda = self._energy, self._agenda
        again = slot if energy is None else energy.uplink_slot(device, slot)
        # The loss is reported in any case, because it frees the sub-channel.
        agenda.add(slot, Lost(device, slot, waits=again != slot))
        if again != slot:
            self._wait(device, version, slot, again)
            if again is not None:
                agenda.add(again, Ready(device, again, version))

    def _wait(self, device: int, version: int, slot: int, until: int | None) -> None:
        """Note that a device waits for energy; one that waits for ever takes no part any more."""
        self._waits.append((device, version, slot, NEVER_CHARGED if until is None else until))
        if until is None:
            self._agenda.add(slot, Left(device))
