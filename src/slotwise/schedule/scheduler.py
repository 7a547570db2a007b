"""The Scheduler: decides what the channel carries next. Events in, actions out.

It has no clock, does no I/O and holds no arrays, so virtual slots and a real network can drive the same
object. It never asks how long anything takes: a driver reports what has happened, and it answers with what
the channel does next, or with nothing while the channel is busy or has to wait.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from slotwise.base.errors import UserError
from slotwise.base.user_code import described_function, user_errors
from slotwise.fleet import Reach, Retransmission
from slotwise.schedule.coverage import Coverage
from slotwise.schedule.decisions import OF_ROUNDS, Answer, Decision, DecisionKind
from slotwise.schedule.link import Link, devices_of, has_groups
from slotwise.schedule.pairings import Pairing, as_selected, most_distinct
from slotwise.schedule.policy import Booking, Delivery
from slotwise.schedule.ready_queue import AT_ONCE, Candidates, Instant, Named, ReadyQueue, Update, queue_of
from slotwise.schedule.scheduler_events import (
    Action,
    Deliver,
    Delivered,
    Event,
    Grant,
    Joined,
    Left,
    Lost,
    Ready,
    Repeat,
    Sent,
)
from slotwise.schedule.selections import Selection, Waiting, first_ready


class SchedulerState(NamedTuple):
    """Everything a Scheduler knows at one instant, as plain values."""

    round: int
    absent: list[int]
    booked: dict[int, list[int]]  # the devices that receive each later model
    computing: dict[int, int]  # the model each device trains on
    ready: list[Update]  # those that wait for the channel
    sending: list[Update]  # uplinks that were granted to devices which are still present
    senders: list[int]  # the devices that have sent in this round and are still present
    missing: int  # the number of updates the round still lacks
    in_flight: int  # uplinks that take a sub-channel
    broadcasting: bool
    last_sender: int = 0
    size: int | None = None  # the group size of this round; None: the first
    arrived: Sequence[tuple[int, int, int]] = ()  # (device, updates that arrived, round of the last one)
    lost_in_round: int = 0  # uplinks
    recharging: Sequence[int] = ()  # of those computing, the ones that have trained and wait to send again
    held: Sequence[Update] = ()  # of those, updates whose devices are out of their windows
    missed: Sequence[int] = ()  # devices that wait for a model since they were out of their windows


class Scheduler:
    """One server, one channel, rounds of ``group_size`` uplinks followed by one broadcast.

    A driver calls `start` once and then `step` with all the events of one instant, the delivery of w_0 first.
    Events of the same instant belong in the same call. The selection chooses who sends next; by default it is
    the device whose turn comes first, and ties go to the lower index. A device's turn is the slot in which it
    finished computing, unless the delivery has planned another.

    With several ``sub_channels`` as many devices send at once; `actions` then grants several uplinks. Over a
    ``link`` with groups (`GroupLink`) a group begins together when no uplink is under way. A broadcast takes
    the whole channel, or with ``full_duplex`` a band of its own: uplinks of the next round go on beside it.

    A round ends early, with the updates it has, when no present device could add one: all others have left or
    wait for a model. With the retransmission "erasure" a lost update counts as one of the round's uplinks,
    and its device as a sender; the round just has an update less.

    ``changes`` are (slot, group size): a round has the size that holds when its model's broadcast begins.
    ``link`` is what selections see of the channel. With ``windows``, which need a link, an uplink starts only
    within a window of its device, or in a slot that it owns, and who misses a model is sent the newest one in
    a later window.

    What ``asks`` names is left to the driver: where it has to be decided, `actions` stops, `undecided` is the
    decision, and after `decide` the driver calls `actions` again in the same instant. That needs a link, too.
    """

    def __init__(
        self,
        group_size: int,
        delivery: Delivery,
        *,
        selection: Selection = first_ready,
        retransmission: Retransmission = "next-turn",
        absent: Iterable[int] = (),
        changes: Sequence[tuple[int, int]] = (),
        sub_channels: int = 1,
        full_duplex: bool = False,
        link: Link | None = None,
        windows: Reach | None = None,
        asks: Collection[DecisionKind] = (),
    ) -> None:
        self.undecided: Decision | None = None
        self._asks, self._answers = frozenset(asks), dict[DecisionKind, Any]()
        self.group_size, self.delivery, self._changes = group_size, delivery, changes
        self._in_groups, self._full_duplex, self._windows = has_groups(link), full_duplex, windows
        self._choosing = False  # True while a group waits for an answer
        self.sub_channels = link.most_senders if has_groups(link) else sub_channels
        self._pairing: Pairing = getattr(link, "pairing", as_selected)
        self._link, self._slot = link, 0
        self._waits_for_all, self._turns = delivery.waits_for_all, delivery.turns
        # Planned turns decide instead of a selection.
        self._selection = first_ready if delivery.turns else selection
        self._retransmission = retransmission
        start = SchedulerState(0, list(absent), {}, {}, [], [], [], group_size, 0, broadcasting=False)
        self.restore(start)
        if "participants" in self._asks:
            self.undecided = self._open_decision(0, ("participants",))
            return
        self._book(delivery.initial(self._absent), earliest=0)
        self._book(self._participants(0), earliest=0)

    @property
    def state(self) -> SchedulerState:
        """A copy of everything it knows; `restore` continues from there."""
        return SchedulerState(
            self.round,
            sorted(self._absent),
            {version: list(devices) for version, devices in self._booked.items()},
            dict(self._computing),
            list(self._ready),
            sorted(self._sending.values()),
            list(self._senders),
            self._missing,
            self._in_flight,
            self._broadcasting,
            self._last_sender,
            self.group_size,
            [(device, *history) for device, history in self._arrived.items()],
            self._lost_in_round,
            sorted(self._recharging),
            [] if self._coverage is None else sorted(self._coverage.held.values()),
            [] if self._coverage is None else sorted(self._coverage.missed),
        )

    def restore(self, state: SchedulerState) -> None:
        """Restore the state returned by `state`, in which nothing is to be decided."""
        self.undecided, self._answers = None, {}
        self.round, self._missing = state.round, state.missing
        self._in_flight, self._broadcasting = state.in_flight, state.broadcasting
        self._absent, self._senders = set(state.absent), list(state.senders)
        self._booked = {version: list(devices) for version, devices in state.booked.items()}
        self._computing = dict(state.computing)
        self._recharging = set(state.recharging)
        self._sending = {update[1]: update for update in state.sending}
        self._last_sender, self._lost_in_round = state.last_sender, state.lost_in_round
        self._arrived = {device: (count, last) for device, count, last in state.arrived}
        self._candidates = self._all_candidates()
        self._coverage = self._restored_coverage(state)
        asked = "sender" in self._asks
        self._ready: ReadyQueue = Named() if asked else queue_of(self._selection, self._link, self._seen)
        for turn, device, version in state.ready:
            self._queue(turn, device, version)
        # The devices that received a model and have not sent since.
        self._busy = {*self._computing, *self._sending, *(device for _, device, _ in self._ready)}
        if state.size is not None:
            self._resize(state.size)

    def _restored_coverage(self, state: SchedulerState) -> Coverage | None:
        if self._windows is None or self._link is None:
            return None
        coverage = Coverage(self._windows, self._link)
        for update in state.held:
            coverage.hold(update, 0)  # looked at in the next instant, whichever slot that is
        for device in state.missed:
            coverage.miss(device, -1)
        return coverage

    def start(self) -> Deliver:
        """Hand out w_0: its receivers compute from the first slot on."""
        if "participants" in self._answers:
            self._book([(0, self._answers.pop("participants"))], earliest=0)
        return self._deliver(0)

    def decide(self, answer: Answer | None) -> None:
        """Answer `undecided`.

        Raises:
            InputError: the answer is not allowed.
        """
        decision = self.undecided
        if decision is None:
            raise UserError("nothing is to be decided")
        self._answers[decision.kind] = decision.checked(answer)
        self.undecided = None

    def step(self, events: Iterable[Event], slot: int = 0) -> Action | None:
        """Process the events of one instant and return what the only sub-channel does next; see `actions`."""
        actions = self.actions(events, slot)
        return actions[0] if actions else None

    def actions(self, events: Iterable[Event], slot: int = 0) -> list[Action]:
        """Process the events of one instant and return what the channel does next.

        That is the broadcast of a complete round, or as many grants as there are free sub-channels and
        updates that the round lacks. ``slot`` is that of the instant; only group sizes that change with time
        and selections that look at the channel depend on it.
        """
        self._slot = slot
        if self._coverage is not None:
            self._follow_windows(self._coverage)
        lost: list[Lost] = []
        for event in events:
            if type(event) is Ready:
                device, finished, version = event
                # An update of another version is left from before an absence, and is ignored.
                if self._computing.get(device) == version:
                    del self._computing[device]
                    self._recharging.discard(device)
                    turn = self._turns.get((device, version), finished) if self._turns else finished
                    self._queue(turn, device, version)
            elif type(event) is Sent:
                count, _ = self._arrived.get(event.device, (0, 0))
                self._arrived[event.device] = (count + 1, self.round)
                if self._candidates is not None:
                    self._candidates.change(event.device)
                self._end_uplink(event.device)
            elif type(event) is Delivered:
                self._broadcasting = False
            elif type(event) is Lost:
                lost.append(event)
            elif type(event) is Left or type(event) is Joined:
                self._update_presence(event)
        self._lost_in_round += len(lost)
        # Sorted by device: the order in which a driver reports the events of one instant must not matter.
        for event in sorted(lost):  # after all others: the queue must be complete
            self._requeue_lost_update(event)
        return [] if self._broadcasting and not self._full_duplex else self._next()

    @property
    def next_window(self) -> int | None:
        """The next slot in which a device that waits for its window may send or receive; None if none does.

        While the channel or the round has no room for another uplink, what ends then is waited for.
        """
        taken = self._in_flight >= min(self.sub_channels, self._missing)
        if self._coverage is None or self._broadcasting or taken:
            return None
        return self._coverage.next_slot(self._slot)

    def _follow_windows(self, coverage: Coverage) -> None:
        """Hold updates whose devices went out of their windows, and queue those of the others again."""
        for update in list(coverage.closed(self._slot)):
            self._ready.remove(update[1])
            self._queue(*update)
        for turn, device, version in list(coverage.opened(self._slot)):
            del self._computing[device]
            self._recharging.discard(device)
            self._queue(turn, device, version)
        for device in coverage.out_of_reach(self._slot):
            self._update_presence(Left(device))

    def _queue(self, turn: int, device: int, version: int) -> None:
        coverage = self._coverage
        if coverage is not None and not (may_send := coverage.may_send(device, self._slot)):
            if may_send is None:  # it has no window any more
                self._update_presence(Left(device))
                return
            # It counts as computing, so that the round does not end without it.
            self._computing[device] = version
            self._recharging.add(device)
            coverage.hold((turn, device, version), self._slot)
            return
        if coverage is not None:
            coverage.queue((turn, device, version), self._slot)
        self._ready.push((turn, device, version), *self._arrived.get(device, (0, -1)))

    def _end_uplink(self, device: int) -> None:
        """Count one of the round's uplinks; its device, if still present, waits for another model."""
        self._in_flight -= 1
        self._missing -= 1
        if self._sending.pop(device, None) is not None:  # otherwise it has left, and may be booked anew
            self._senders.append(device)
            self._busy.discard(device)

    def _requeue_lost_update(self, event: Lost) -> None:
        """Queue a lost update again, or drop it for good."""
        if self._retransmission == "erasure":
            self._end_uplink(event.device)
            return
        self._in_flight -= 1
        update = self._sending.pop(event.device, None)
        if update is None:
            return
        _, device, version = update
        # Until its next Ready event it counts as computing, so that the round does not end without it.
        if event.waits:
            self._computing[device] = version
            self._recharging.add(device)
        elif self._retransmission == "at-once":
            self._queue(AT_ONCE, device, version)
        else:
            # Behind all that are ready now. With an equal turn the lower index would send first.
            self._queue(max(event.slot, self._ready.last_turn + 1), device, version)

    def _update_presence(self, event: Left | Joined) -> None:
        """Drop all work and bookings of a device that left or joins again, and book one that joins."""
        # Work is dropped, but an uplink in flight still counts: its slots are taken until its Lost event.
        device = event.device
        if self._candidates is not None:
            self._candidates.change(device)
        if device not in self._absent:  # otherwise there is nothing to drop
            self._drop_work(device)
        if type(event) is Left:
            self._absent.add(device)
            return
        self._absent.discard(device)
        version = self.delivery.joining(self.round)
        if version is not None:
            self._book([(version, [device])], earliest=self.round + 1)

    def _drop_work(self, device: int) -> None:
        self._busy.discard(device)
        self._recharging.discard(device)
        if self._coverage is not None:
            self._coverage.drop(device)
        self._sending.pop(device, None)
        # A device is in one place only: if it was not computing, it may be in the queue, a sender or booked.
        if self._computing.pop(device, None) is None and not self._ready.remove(device):
            for devices in (self._senders, *self._booked.values()):
                if device in devices:
                    devices.remove(device)

    def _next(self) -> list[Action]:
        """Return what the channel carries next: uplinks, the broadcast of a full round, or nothing."""
        if self._coverage is not None and self._missing:
            awaited = self._coverage.awaited(self._slot)
            if awaited:  # as soon as the uplinks under way have ended
                return [] if self._in_flight else [self._repeat(self._coverage, awaited)]
        grants = self._grants()
        # A round ends when it is full, or when no present device computes that could still fill it.
        under_way = self._in_flight or self._broadcasting or self.undecided
        if under_way or (self._missing and (self._computing or self._missed)):
            return grants
        if self._asks:
            self.undecided = self._open_decision(self.round + 1, OF_ROUNDS)
            if self.undecided is not None:
                return []
        closed = self._close_round()
        if closed is None:
            return []
        return [closed, *self._grants()] if self._full_duplex else [closed]

    def _grants(self) -> list[Action]:
        """Return the uplinks that begin now."""
        grants: list[Action] = []
        # Never more uplinks at once than the round lacks, so a round has at most its group size.
        most = min(self.sub_channels, self._missing)
        if self._in_groups and self._in_flight and not self._choosing:
            return grants
        self._choosing = False
        while self._ready and self._in_flight < most:
            # Who has trained and waits for energy to send again keeps nobody else from sending.
            if self._waits_for_all and len(self._computing) > len(self._recharging):
                break
            if self._asks and self._waits_for_answer():
                self._choosing = True  # the group goes on in this instant
                return grants
            grants.append(self._grant())
        return grants

    def _waits_for_answer(self) -> bool:
        """Ask who sends next, unless it is answered, or a retransmission or a pairing decides."""
        if "sender" not in self._asks or "sender" in self._answers or self._ready.sends_at_once:
            return False
        if self._in_groups and self._in_flight and self._pairing is not as_selected:
            return False
        updates, lost = list(self._ready), self._lost_in_round
        self.undecided = Decision(
            "sender",
            self._slot,
            self.round,
            [device for _, device, _ in updates],
            last_sender=self._last_sender,
            group_size=self.group_size,
            _seen=lambda: self._seen(updates, lost),
        )
        return True

    def _open_decision(self, version: int, kinds: Iterable[DecisionKind]) -> Decision | None:
        """Return the first decision about round ``version`` that is not taken yet; None if all are."""
        for kind in kinds:
            if kind in self._asks and kind not in self._answers:
                allowed, count, updates = self._choices(kind, version)
                if allowed:
                    return Decision(
                        kind,
                        self._slot,
                        version,
                        allowed,
                        count,
                        self._last_sender,
                        self.group_size,
                        _seen=lambda updates=updates: self._seen(updates),  # type: ignore[misc]
                    )
                self._answers[kind] = ()  # nobody is there to decide about
        return None

    def _choices(self, kind: DecisionKind, version: int) -> tuple[Sequence[int], int, list[Update]]:
        """Return what a decision chooses from, how many of it, and the updates that its waiting shows."""
        devices = 0 if self._link is None else devices_of(self._link)
        size = self._next_size() if version else self.group_size
        if kind == "group_size":
            return range(1, devices + 1), 1, []
        if kind == "delay":
            return (range(devices // size) if self._senders else ()), 1, []
        away = self._absent | self._missed | self._busy
        present = [n for n in range(1, devices + 1) if n not in away]
        return present, min(size, len(present)), [(self._slot, n, version) for n in present]

    def _grant(self) -> Grant:
        """Let the device that is chosen send."""
        now = Instant(self._slot, self.round, self._last_sender, self._lost_in_round)
        if "sender" in self._answers:
            update = self._ready.take(self._answers.pop("sender"))
        elif self._in_flight and self._pairing is not as_selected and not self._ready.sends_at_once:
            update = self._ready.take(self._partner())
        else:
            update = self._ready.pop(now)
        if self._coverage is not None:
            del self._coverage.queued[update[1]]
        self._in_flight += 1
        self._sending[update[1]], self._last_sender = update, update[1]
        return Grant(update[1], self.round, update[2])

    def _partner(self) -> int:
        """Return the device that the pairing chooses for the group that begins now."""
        # No uplink was under way before the first of the group, so these are its devices.
        group = list(self._sending.values())
        if self._pairing is most_distinct and self._link is not None:
            # The same without a Waiting for each device.
            snr = self._link.snr_db(self._slot)
            difference = np.abs(snr - snr[group[0][1] - 1])
            return int(np.where(self._ready.mask(len(snr)), difference, -1.0).argmax()) + 1
        lost = self._lost_in_round
        updates = self._seen(self._ready, lost)
        name = described_function("pairing", self._pairing)
        with user_errors(name, anywhere=False):
            chosen = self._pairing(self._seen(group, lost), updates)
        if chosen not in updates:
            raise UserError(f"{name}: returned {chosen!r}, which is not one of the waiting updates")
        return chosen.device

    def seen_of_senders(self, devices: Iterable[int]) -> list[Waiting]:
        """Return what a selection sees of devices that send, in this instant."""
        return self._seen([self._sending[device] for device in devices], self._lost_in_round)

    def _seen(self, updates: Iterable[Update], lost: int = 0) -> list[Waiting]:
        """Return updates with what a selection sees of their devices and of the channel."""
        now, arrived, link = self.round, self._arrived, self._link
        snr = None if link is None else link.snr_db(self._slot).tolist()
        planned = None if link is None else link.planned_slots
        seen = []
        for turn, device, version in updates:
            count, last = arrived.get(device, (0, -1))
            db = 0.0 if snr is None else snr[device - 1]
            slots = 1 if planned is None else planned[device - 1]
            seen.append(Waiting(turn, device, version, now - last, count, db, slots, lost))
        return seen

    def _all_candidates(self) -> Candidates | None:
        """Return the devices that participants are chosen from; None if bookings decide."""
        selection = getattr(self.delivery, "participant_selection", None)
        if selection is None:
            return None
        candidates = Candidates(selection, self._link, self._seen)
        for device in range(1, self.delivery.devices + 1):
            candidates.change(device)
        return candidates

    @property
    def arrived(self) -> Mapping[int, tuple[int, int]]:
        """Updates that have arrived and the round of the last one, of the devices that sent any."""
        return self._arrived

    def _participants(self, version: int) -> Iterator[Booking]:
        """Yield the participants of round ``version``, if the delivery leaves the choice to a selection."""
        if self._candidates is not None:
            now = Instant(self._slot, version, 0, 0)
            for device in self._candidates.choose(self.group_size, now, self._absent, self._arrived):
                yield version, [device]

    def _close_round(self) -> Deliver | None:
        """Broadcast the next model; without an update and a receiver, wait for a device to join instead."""
        # Before the group size may change: both numbers belong to the round that ends.
        no_update = self._missing == self.group_size
        self._resize(self._next_size())
        self._answers.pop("group_size", None)
        # Bookings follow the change of the group size: they are for the rounds that have the new one.
        following = self.round + 1
        self._book(self._following_bookings(following), earliest=following)
        if not self._computing and not self._ready and not self._missed:
            # All devices wait: if none does for the next model, those who wait for the earliest receive it.
            waiting = [version for version, devices in self._booked.items() if devices]
            if waiting and following not in waiting:
                self._booked[following] = self._booked.pop(min(waiting))
        self._missing = self.group_size
        if no_update and not self._booked.get(following):
            return None
        self._senders, self._lost_in_round = [], 0
        self.round, self._broadcasting = following, True
        return self._deliver(following)

    def _following_bookings(self, following: int) -> Iterable[Booking]:
        """Return the bookings made at the end of a round, by the delivery or as it was decided."""
        if "participants" in self._asks:
            return [(following, self._answers.pop("participants"))]
        if "delay" in self._asks:
            delay = self._answers.pop("delay")
            return [(following + delay, self._senders)] if self._senders else []
        decided = self.delivery.after(self.round, self._senders, self._absent)
        return chain(decided, self._participants(following))

    def _next_size(self) -> int:
        """Return the group size of a round whose model's broadcast begins now."""
        if self._changes:
            place = bisect_right(self._changes, self._slot, key=lambda change: change[0])
            return self._changes[place - 1][1] if place else self.group_size
        return int(self._answers.get("group_size", self.group_size))

    def _resize(self, group_size: int) -> None:
        if group_size != self.group_size:
            self.group_size, self.delivery = group_size, self.delivery.resized(group_size)

    def _book(self, bookings: Iterable[Booking], earliest: int) -> None:
        for version, devices in bookings:
            if version < earliest:
                raise UserError(f"policy: devices are booked for model {version}, not {earliest} or later")
            away = self._absent | self._missed if self._missed else self._absent
            present = [n for n in devices if n not in away] if away else devices
            self._booked.setdefault(version, []).extend(present)

    def _deliver(self, version: int) -> Deliver:
        receivers = sorted(self._booked.pop(version, ()))
        if self._coverage is not None and version:
            receivers = self._reached(self._coverage, receivers)
        # The set grows by fewer than the receivers if one of them is busy or booked twice.
        busy = len(self._busy)
        self._busy.update(receivers)
        if len(self._busy) != busy + len(receivers):
            raise UserError(f"policy: a receiver of model {version} has not sent its last update yet")
        self._computing.update(dict.fromkeys(receivers, version))
        return Deliver(version, receivers)

    @property
    def _missed(self) -> Set[int]:
        """The devices that missed a model and will be sent the newest one."""
        return frozenset() if self._coverage is None else self._coverage.missed

    def _reached(self, coverage: Coverage, booked: Sequence[int]) -> list[int]:
        """Return the receivers of a broadcast that starts now; the others will be sent a later model."""
        reached = coverage.reached({*booked, *coverage.missed}, self._slot)
        coverage.missed.difference_update(reached)
        for device in sorted({*booked}.difference(reached)):
            if not coverage.miss(device, self._slot):
                self._update_presence(Left(device))
        return reached

    def _repeat(self, coverage: Coverage, receivers: Sequence[int]) -> Repeat:
        coverage.missed.difference_update(receivers)
        self._busy.update(receivers)
        self._computing.update(dict.fromkeys(receivers, self.round))
        self._broadcasting = True
        return Repeat(self.round, receivers)
