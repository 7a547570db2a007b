"""Fast simulation of devices that come and go, and send one at a time in the order in which they get ready.

Departures and returns grow with the number of devices and uplinks do not, so between two uplinks a compiled
loop follows presence; bookings are made by the same `Delivery` that a Scheduler asks, once a round. It must
equal the Scheduler driven event by event: tests compare both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from itertools import islice
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from slotwise.base.random_streams import SchedulePurpose, device_states
from slotwise.fleet import Fleet
from slotwise.scenario import Scenario
from slotwise.schedule.policy import Booking, Delivery, Policy, bound_delivery
from slotwise.schedule.timeline import Record, Timeline

Slots = NDArray[np.int64]
_NO_LIMIT = 2**62
_ROWS = 4096  # rows that are made room for at first


def presence_timeline(scenario: Scenario, policy: Policy, fleet: Fleet, rounds: int | None) -> Timeline:
    """Return the timeline, empty if no round fits; only where `simulator_of` says so."""
    delivery = bound_delivery(policy, scenario, fleet, rounds)
    simulation = _Simulation(scenario, delivery, fleet)
    for _ in islice(simulation.rounds(scenario.deadline), rounds):
        pass
    return simulation.timeline(policy.name)


class _Absent(Set[int]):
    """The devices that are absent now."""

    def __init__(self, does: Slots, away: int) -> None:
        self._does, self._away = does, away

    def __contains__(self, device: object) -> bool:
        return bool(self._does[device - 1] == self._away)  # type: ignore[operator]

    def __iter__(self) -> Iterator[int]:
        return iter((np.flatnonzero(self._does == self._away) + 1).tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self._does == self._away))


class _Simulation:
    """State of one run: arrays for the compiled loop, and the rounds that are complete."""

    def __init__(self, scenario: Scenario, delivery: Delivery, fleet: Fleet) -> None:
        # Imported here: compiled code takes time to load, and few runs need it.
        from slotwise.schedule import presence_kernel as kernel  # noqa: PLC0415

        self.kernel, self.scenario, self.delivery, self.fleet = kernel, scenario, delivery, fleet
        count, again = fleet.devices, fleet.retransmission
        self.limits = np.array([0, delivery.waits_for_all, again == "erasure", again == "at-once"])
        self.devices, self.booked = np.zeros((count, 8), dtype=np.int64), np.full(count, -1)
        self.does = self.devices[:, kernel.DOES]
        self.does[[n - 1 for n in fleet.absent_at_first]] = kernel.IS_AWAY
        self.absent = _Absent(self.does, kernel.IS_AWAY)
        self.away, self.back = fleet.absence_table.events
        self.pending, self.ready = (np.empty((2, 2 * count), dtype=np.int64) for _ in range(2))
        self.speeds = [
            np.array(slots) for slots in (fleet.compute_slots, *(s for _, s in fleet.compute_changes))
        ]
        self.slots, self.losses = np.array(fleet.link_slots), np.zeros(count)
        self.losses[:] = fleet.device_uplink_loss or fleet.uplink_loss
        purposes = SchedulePurpose.JITTER, SchedulePurpose.UPLINK_LOSS
        self.draws = [device_states(fleet.seed, purpose, count) for purpose in purposes]
        self.rows, self.lost = (np.empty((_ROWS, 5), dtype=np.int64) for _ in range(2))
        self.senders = np.empty(scenario.group_size, dtype=np.int64)
        self.state = np.zeros(13, dtype=np.int64)
        self.state[[kernel.LAST, kernel.SENDING, kernel.LEFT]] = -1
        self.broadcasts, self.receivers = list[tuple[int, int]](), list[Slots]()
        self.sent, self.failed = 0, 0  # rows of the rounds that are complete

    def timeline(self, name: str) -> Timeline:
        """Return the rounds that are complete."""
        # There may be millions of rows: they stay arrays, and are not put into the lists of a Record.
        record = Record([], [], self.broadcasts, [])
        timeline = Timeline.of(self.scenario, name, self.delivery.delay, record, self.fleet)
        k, device, version, start, end = self.rows[: self.sent].T
        narrow = {"round": k, "device": device, "version": version}
        narrow["receiver"] = np.concatenate(self.receivers)
        columns = {name: column.astype(np.int32) for name, column in narrow.items()}
        columns |= {"start": start.copy(), "end": end.copy(), "lost": self.lost[: self.failed].copy()}
        columns["receiver_offsets"] = np.cumsum([0, *map(len, self.receivers)], dtype=np.int64)
        return replace(timeline, **columns)

    def rounds(self, deadline: int | None) -> Iterator[int]:
        """Play round after round, and yield the slot at which each is complete, not after the deadline."""
        kernel, state, broadcast = self.kernel, self.state, self.scenario.link_slots
        self.limits[kernel.DEADLINE] = last = _NO_LIMIT if deadline is None else deadline
        self._book(self.delivery.initial(self.absent))
        self._hand_out(self._waiting_for(0), 0, 0)
        while True:
            k, size = len(self.broadcasts), self.scenario.group_size
            joins, waits = self._joins(k), False
            state[kernel.MISSING], state[kernel.SENDERS] = size, 0
            while True:
                if self._play(k, joins, waits) == kernel.OVER:
                    return
                receivers = self._close(k)
                # Without an update and a receiver, the round waits for a device to join.
                if len(receivers) or state[kernel.MISSING] < size:
                    break
                waits = True
            slot = int(state[kernel.SLOT])
            end = slot + broadcast
            if end > last:
                return
            self._hand_out(receivers, k + 1, end)
            presence = (self.devices, self.booked, self.away, self.back)
            kernel.follow_presence(state, *presence, end, self._joins(k + 1))
            state[kernel.SLOT] = end
            self.broadcasts.append((slot, end))
            self.sent, self.failed = int(state[kernel.ROWS]), int(state[kernel.LOST])
            yield end

    def _joins(self, k: int) -> int:
        version = self.delivery.joining(k)
        return -1 if version is None else version

    def _play(self, k: int, joins: int, waits: bool) -> int:
        """Run the compiled loop, with room for more rows if it needs some."""
        while True:
            tables = (self.away, self.back, self.slots, self.losses, self.draws[1], self.rows, self.lost)
            arrays = (self.devices, self.booked, self.pending, self.ready, *tables, self.senders)
            outcome = int(self.kernel.play_round(self.state, self.limits, *arrays, k, joins, waits))
            if outcome != self.kernel.NEEDS_ROOM:
                return outcome
            self.rows, self.lost = (np.concatenate([t, np.empty_like(t)]) for t in (self.rows, self.lost))

    def _close(self, k: int) -> Slots:
        """Book after a round and return the receivers of the next model."""
        state, has_sent = self.state, self.devices[:, self.kernel.HAS_SENT]
        sent = self.senders[: state[self.kernel.SENDERS]]
        sent = sent[has_sent[sent - 1] > 0]  # the others have left since
        has_sent[sent - 1] = 0
        state[self.kernel.SENDERS] = 0
        self._book(self.delivery.after(k, sent.tolist(), self.absent))
        receivers, idle = self._waiting_for(k + 1), not state[self.kernel.COMPUTING]
        if len(receivers) or not idle or (self.does == self.kernel.IS_READY).any():
            return receivers
        # All devices wait: if none does for the next model, those who wait for the earliest receive it.
        earliest = self.booked[self.booked >= 0].min(initial=_NO_LIMIT)
        self.booked[self.booked == earliest] = k + 1
        return self._waiting_for(k + 1)

    def _waiting_for(self, version: int) -> Slots:
        return np.flatnonzero(self.booked == version) + 1

    def _book(self, bookings: Iterable[Booking]) -> None:
        for version, devices in bookings:
            entries = np.asarray(devices, dtype=np.int64) - 1
            self.booked[entries[self.does[entries] != self.kernel.IS_AWAY]] = version

    def _hand_out(self, receivers: Slots, version: int, slot: int) -> None:
        """Let the receivers of a model compute from ``slot`` on."""
        self._make_room(len(receivers))
        self.receivers.append(receivers)
        compute = self.speeds[bisect_right(self.fleet.compute_changes, slot, key=itemgetter(0))]
        turns = self._turns(receivers, version)
        arrays = (self.devices, self.booked, self.pending, receivers, turns, version, slot, compute)
        self.kernel.hand_out(self.state, *arrays, self.fleet.jitter, self.draws[0])

    def _make_room(self, receivers: int) -> None:
        """Let the heaps hold the updates of so many more devices; who has left is still in them."""
        pending = int(self.state[self.kernel.PENDING]) + receivers
        ready = int(self.state[self.kernel.READY]) + pending + 1
        if pending > self.pending.shape[1]:
            self.pending = np.concatenate([self.pending, np.empty((2, pending), dtype=np.int64)], axis=1)
        if ready > self.ready.shape[1]:
            self.ready = np.concatenate([self.ready, np.empty((2, ready), dtype=np.int64)], axis=1)

    def _turns(self, receivers: Slots, version: int) -> Slots:
        """Return the planned turns of devices; −1 where none is planned."""
        planned = self.delivery.turns
        if not planned:
            return np.full(len(receivers), -1)
        # A turn that never comes leaves room for those behind it.
        return np.array([min(planned.get((n, version), -1), _NO_LIMIT) for n in receivers.tolist()], np.int64)
