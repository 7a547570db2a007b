"""The Scheduler: decides what the channel carries next. Events in, at most one action out.

It has no clock, does no I/O and holds no arrays, so virtual slots and a real network can drive the same
object. It never asks how long anything takes: a driver reports what has happened, and it answers with what
the channel does next, or with None while the channel is busy or has to wait.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from slotwise.errors import UserError
from slotwise.fleet import Retransmission
from slotwise.schedule.policy import Booking, Delivery, Selection, Waiting, first_ready


class Ready(NamedTuple):
    """A device has finished computing, in ``slot``, an update made from model ``version``.

    Slot and version are part of the event: the order of arrival means nothing, and an update that a device
    has left from before an absence is distinguished from the one it was asked for.
    """

    device: int
    slot: int
    version: int


class Sent(NamedTuple):
    """The granted device's update has arrived."""

    device: int


class Lost(NamedTuple):
    """The granted device's slots have passed, in ``slot``, and no intact update has arrived."""

    device: int
    slot: int


class Delivered(NamedTuple):
    """The broadcast of a model has ended (w_0 takes none); its receivers now compute."""

    version: int


class Left(NamedTuple):
    """A device has left. If it was sending, the channel stays busy until a Lost event frees it."""

    device: int


class Joined(NamedTuple):
    """A device has joined, or joined again."""

    device: int


Event = Ready | Sent | Lost | Delivered | Left | Joined


class Grant(NamedTuple):
    """Let ``device`` send its update, trained on model ``version``, in round ``round``."""

    device: int
    round: int
    version: int


class Deliver(NamedTuple):
    """Broadcast model ``version`` to ``receivers``. Version 0 is known from the start and takes no slot."""

    version: int
    receivers: Sequence[int]


Action = Grant | Deliver

_Update = tuple[int, int, int]  # (turn, device, version): `Waiting` without its names, which cost time
_AT_ONCE = -1  # a turn before every slot


class SchedulerState(NamedTuple):
    """Everything a Scheduler knows at one instant, as plain values."""

    round: int
    absent: list[int]
    booked: dict[int, list[int]]  # the devices that receive each later model
    computing: dict[int, int]  # the model each device trains on
    ready: list[_Update]  # those that wait for the channel
    granted: _Update | None  # the last uplink granted; None if its device has left since
    senders: list[int]  # the devices whose updates arrived in this round and that are still present
    missing: int  # the number of updates the round still lacks
    channel_taken: bool  # by an uplink or a broadcast
    last_sender: int = 0
    size: int | None = None  # the group size of this round; None in states of earlier versions: the first


class Scheduler:
    """One server, one channel, rounds of ``group_size`` uplinks followed by one broadcast.

    A driver calls `start` once and then `step` with all the events of one instant, the delivery of w_0 first.
    Events of the same instant belong in the same call. The selection chooses who sends next; by default it is
    the device whose turn comes first, and ties go to the lower index. A device's turn is the slot in which it
    finished computing, unless the delivery has planned another.

    A round ends early, with the updates it has, when no present device could add one: all others have left or
    wait for a model.

    ``changes`` are (slot, group size): a round has the size that holds when its model's broadcast begins.
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
    ) -> None:
        self.group_size, self.delivery, self._changes = group_size, delivery, changes
        self._waits_for_all, self._turns = delivery.waits_for_all, delivery.turns
        # The heap of ready updates is all that first-ready and planned turns need.
        self._selection = None if selection is first_ready or delivery.turns else selection
        self._at_once = retransmission == "at-once"
        start = SchedulerState(0, list(absent), {}, {}, [], None, [], group_size, channel_taken=False)
        self.restore(start)
        self._book(delivery.initial(self._absent), earliest=0)

    @property
    def state(self) -> SchedulerState:
        """A copy of everything it knows; `restore` continues from there."""
        return SchedulerState(
            self.round,
            sorted(self._absent),
            {version: list(devices) for version, devices in self._booked.items()},
            dict(self._computing),
            sorted(self._ready),
            self._granted,
            list(self._senders),
            self._missing,
            self._channel_taken,
            self._last_sender,
            self.group_size,
        )

    def restore(self, state: SchedulerState) -> None:
        """Restore the state returned by `state`."""
        self.round, self._missing, self._channel_taken = state.round, state.missing, state.channel_taken
        self._absent, self._senders = set(state.absent), list(state.senders)
        self._booked = {version: list(devices) for version, devices in state.booked.items()}
        self._computing, self._ready = dict(state.computing), list(state.ready)  # sorted, so a heap
        self._granted, self._last_sender = state.granted, state.last_sender
        if state.size is not None:
            self._resize(state.size)
        # The devices that received a model and have not sent since.
        self._busy = {*self._computing, *(device for _, device, _ in self._ready)}

    def start(self) -> Deliver:
        """Hand out w_0: its receivers compute from the first slot on."""
        return self._deliver(0)

    def step(self, events: Iterable[Event], slot: int = 0) -> Action | None:
        """Process the events of one instant and return what the channel does next.

        ``slot`` is that of the instant; only group sizes that change with time depend on it.
        """
        self._slot = slot
        lost: Lost | None = None
        for event in events:
            if type(event) is Ready:
                device, slot, version = event
                if self._computing.get(device) == version:
                    del self._computing[device]
                    turn = self._turns.get((device, version), slot) if self._turns else slot
                    heappush(self._ready, (turn, device, version))
            elif type(event) is Sent:
                self._channel_taken = False
                self._missing -= 1
                if self._granted is not None:  # otherwise the device has left, and may be booked anew
                    self._senders.append(event.device)
                    self._busy.discard(event.device)
            elif type(event) is Delivered:
                self._channel_taken = False
            elif type(event) is Lost:
                lost = event
            elif isinstance(event, Left | Joined):
                self._update_presence(event)
        if lost is not None:  # after all others: the queue must be complete
            self._channel_taken = False
            if self._granted is not None:
                _, device, version = self._granted
                behind = max((turn + 1 for turn, _, _ in self._ready), default=lost.slot)
                again = _AT_ONCE if self._at_once else max(lost.slot, behind)
                heappush(self._ready, (again, device, version))
        return None if self._channel_taken else self._next()

    def _update_presence(self, event: Left | Joined) -> None:
        """Drop all work and bookings of a device that left or joins again, and book one that joins."""
        device = event.device
        self._busy.discard(device)
        if self._computing.pop(device, None) is None:
            self._ready = [update for update in self._ready if update[1] != device]
            heapify(self._ready)
            if self._granted is not None and self._granted[1] == device:
                self._granted = None
            for devices in (self._senders, *self._booked.values()):
                if device in devices:
                    devices.remove(device)
        if isinstance(event, Left):
            self._absent.add(device)
            return
        self._absent.discard(device)
        version = self.delivery.joining(self.round)
        if version is not None:
            self._book([(version, [device])], earliest=self.round + 1)

    def _next(self) -> Action | None:
        """Return what the free channel carries next: the broadcast of a full round, an uplink, or nothing."""
        if not self._missing:
            return self._close_round()
        if self._ready and not (self._waits_for_all and self._computing):
            self._channel_taken = True
            update: _Update
            if self._selection is None or self._ready[0][0] == _AT_ONCE:
                update = heappop(self._ready)
            else:
                waiting = [Waiting(*one) for one in sorted(self._ready)]
                update = self._selection(waiting, self.round, self._last_sender)
                if update not in waiting:
                    raise UserError(
                        f"selection: returned {update!r}, which is not one of the waiting updates"
                    )
                self._ready.remove(update)
                heapify(self._ready)
            self._granted, self._last_sender = update, update[1]
            return Grant(update[1], self.round, update[2])
        return None if self._computing else self._close_round()

    def _close_round(self) -> Deliver | None:
        """Broadcast the next model; without an update and a receiver, wait for a device to join instead."""
        no_update = self._missing == self.group_size
        if self._changes:
            place = bisect_right(self._changes, self._slot, key=lambda change: change[0])
            self._resize(self._changes[place - 1][1] if place else self.group_size)
        self._book(self.delivery.after(self.round, self._senders, self._absent), earliest=self.round + 1)
        if not self._computing and not self._ready:
            # All devices wait: if none does for the next model, those who wait for the earliest receive it.
            waiting = [version for version, devices in self._booked.items() if devices]
            if waiting and self.round + 1 not in waiting:
                self._booked[self.round + 1] = self._booked.pop(min(waiting))
        self._missing = self.group_size
        if no_update and not self._booked.get(self.round + 1):
            return None
        self._senders = []
        self.round += 1
        self._channel_taken = True
        return self._deliver(self.round)

    def _resize(self, group_size: int) -> None:
        if group_size != self.group_size:
            self.group_size, self.delivery = group_size, self.delivery.resized(group_size)

    def _book(self, bookings: Iterable[Booking], earliest: int) -> None:
        for version, devices in bookings:
            if version < earliest:
                raise UserError(f"policy: devices are booked for model {version}, not {earliest} or later")
            present = [n for n in devices if n not in self._absent] if self._absent else devices
            self._booked.setdefault(version, []).extend(present)

    def _deliver(self, version: int) -> Deliver:
        receivers = sorted(self._booked.pop(version, ()))
        busy = len(self._busy)
        self._busy.update(receivers)
        if len(self._busy) != busy + len(receivers):
            raise UserError(f"policy: a receiver of model {version} has not sent its last update yet")
        self._computing.update(dict.fromkeys(receivers, version))
        return Deliver(version, receivers)
