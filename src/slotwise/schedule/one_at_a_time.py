"""Fast simulation of devices that send one at a time, in the order in which they get ready.

Between two uplinks nothing is decided, so there is no need for events: the loop goes from the end of an
uplink to that of the next. The devices may have any speeds, jitter and losses; bookings are made by the same
`Delivery` that a Scheduler asks. It must equal the Scheduler driven event by event: tests compare both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice
from math import inf

from slotwise.fleet import Fleet
from slotwise.scenario import Scenario
from slotwise.schedule.policy import Booking, Delivery, Policy, bound_delivery
from slotwise.schedule.timeline import Record, Timeline

_AT_ONCE = -1  # a turn before every slot
_NONE_ABSENT: frozenset[int] = frozenset()


def one_at_a_time(scenario: Scenario, policy: Policy, fleet: Fleet, rounds: int | None) -> Timeline:
    """Return the timeline, empty if no round fits; only where `sends_one_at_a_time` holds."""
    delivery = bound_delivery(policy, scenario, fleet, rounds)
    simulation = OneAtATime(scenario, delivery, fleet)
    for _ in islice(simulation.rounds(scenario.deadline), rounds):
        pass
    return Timeline.of(scenario, policy.name, delivery.delay, simulation.record, fleet)


class OneAtATime:
    """State of one simulation; `record` has the rounds that are complete.

    ``ready`` and ``pending`` are heaps: updates that wait for the channel, by turn, and trainings under way,
    by the slot in which they end. Both have entries (slot, device, version).
    """

    def __init__(self, scenario: Scenario, delivery: Delivery, fleet: Fleet) -> None:
        self.record = Record([], [], [], [])
        self._scenario, self._delivery, self._fleet = scenario, delivery, fleet
        self._ready: list[tuple[int, int, int]] = []
        self._pending: list[tuple[int, int, int]] = []
        self._last_turn = _AT_ONCE  # the largest in the heap of ready updates
        numbers = range(1, fleet.devices + 1)
        self._slots = {device: fleet.training_slots(device) for device in numbers} if fleet.jitter else None
        self._losses = {device: fleet.losses(device) for device in numbers} if fleet.largest_loss else None
        self._booked: dict[int, list[int]] = {}
        self._book(delivery.initial(_NONE_ABSENT))

    def rounds(self, deadline: int | None = None) -> Iterator[int]:
        """Play round after round, and yield the slot at which each is complete, not after the deadline."""
        record, last, slot = self.record, inf if deadline is None else deadline, 0
        broadcast = self._scenario.link_slots
        self._hand_out(0, 0)
        while True:
            k, sent, lost = len(record.broadcasts), len(record.uplinks), len(record.lost)
            found = self._play_uplinks(k, slot, last)
            receivers = None if found is None else self._close_round(k, found[1])
            if found is None or receivers is None or found[0] + broadcast > last:
                del record.uplinks[sent:], record.lost[lost:]  # of a round that is not complete
                return
            slot = found[0] + broadcast
            record.broadcasts.append((found[0], slot))
            self._hand_out(k + 1, slot)
            yield slot

    def _play_uplinks(self, k: int, slot: int, last: float) -> tuple[int, list[int]] | None:
        """Play the uplinks of a round; return the slot in which it is full and its senders, None if late.

        A round ends early if no device can add an update: all others wait for a model.
        """
        ready, pending, losses = self._ready, self._pending, self._losses
        fleet, link_slots = self._fleet, self._fleet.link_slots
        uplinks, size, senders = self.record.uplinks, self._scenario.group_size, list[int]()
        while len(senders) < size and slot <= last:
            if pending and (not ready or self._delivery.waits_for_all):
                # Synchronous FL waits for the last training of the round. Otherwise the channel waits for
                # the next one, and only while the queue is empty.
                slot = max(slot, max(pending)[0] if self._delivery.waits_for_all else pending[0][0])
                if slot > last:
                    return None
            if pending and pending[0][0] <= slot:
                self._queue_ready(slot)
            if not ready:
                break
            # Trainings that end during the uplink are queued later: nobody is chosen before it has ended.
            _, device, version = heappop(ready)
            end = slot + link_slots[device - 1]
            lost = losses is not None and next(losses[device])
            (self.record.lost if lost else uplinks).append((k, device, version, slot, end))
            slot = end
            if lost and fleet.retransmission != "erasure":
                # First whatever ended by now: the Scheduler also takes the lost updates of a slot last.
                self._queue_ready(slot)
                self._queue_lost(slot, device, version)
            else:
                senders.append(device)
        return None if slot > last else (slot, senders)

    def _queue_ready(self, slot: int) -> None:
        """Queue the updates of trainings that end by ``slot``."""
        ready, pending, turns = self._ready, self._pending, self._delivery.turns
        while pending and pending[0][0] <= slot:
            update = heappop(pending)
            if turns:
                update = (turns.get(update[1:], update[0]), update[1], update[2])
            if not ready or update[0] > self._last_turn:
                self._last_turn = update[0]
            heappush(ready, update)

    def _queue_lost(self, slot: int, device: int, version: int) -> None:
        """Queue a lost update again: before all others, or behind those that are ready."""
        ready, turn = self._ready, slot
        if self._fleet.retransmission == "at-once":
            turn = _AT_ONCE
        elif ready:
            # With the turn of the last in the queue, the lower index would send first.
            turn = max(slot, self._last_turn + 1)
        if not ready or turn > self._last_turn:
            self._last_turn = turn
        heappush(ready, (turn, device, version))

    def _close_round(self, k: int, senders: list[int]) -> Sequence[int] | None:
        """Book after a round and return the receivers of the next model; None if nothing can follow."""
        booked = self._booked
        self._book(self._delivery.after(k, senders, _NONE_ABSENT))
        if not self._pending and not self._ready:
            # All devices wait: if none does for the next model, those who wait for the earliest receive it.
            waiting = [version for version, devices in booked.items() if devices]
            if waiting and k + 1 not in waiting:
                booked[k + 1] = booked.pop(min(waiting))
        receivers = booked.setdefault(k + 1, [])
        return receivers if senders or receivers else None

    def _book(self, bookings: Iterable[Booking]) -> None:
        for version, devices in bookings:
            self._booked.setdefault(version, []).extend(devices)

    def _hand_out(self, version: int, slot: int) -> None:
        """Let the receivers of a model compute from ``slot`` on."""
        compute_slots, slots, pending = self._fleet.compute_slots, self._slots, self._pending
        receivers = sorted(self._booked.pop(version, ()))
        self.record.receivers.append(receivers)
        for device in receivers:
            took = compute_slots[device - 1] if slots is None else next(slots[device])
            heappush(pending, (slot + took, device, version))
