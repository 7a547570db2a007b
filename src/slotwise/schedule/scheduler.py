"""The Scheduler: who uses the channel next. Events in, at most one action out.

It has no clock, does no I/O and holds no arrays, so virtual slots and a real network can drive the same
object. It never asks how long anything takes: a driver tells it what has happened, and it answers with what
the channel does next, or with nothing while the channel is taken or has to wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from slotwise.fleet import Retransmission
from slotwise.schedule.delivery import Booking, Delivery


class Ready(NamedTuple):
    """A device has finished computing, in ``slot``, an update made from model ``version``.

    Slot and version are part of the event: the order of arrival means nothing, and what a device has left
    over from before it went away is told from what it was asked for.
    """

    device: int
    slot: int
    version: int


class Sent(NamedTuple):
    """The granted device's update has arrived."""

    device: int


class Lost(NamedTuple):
    """The granted device's slots have passed, in ``slot``, and no good update has arrived."""

    device: int
    slot: int


class Delivered(NamedTuple):
    """The broadcast of a model has ended (w_0 takes none); its receivers now compute."""

    version: int


class Left(NamedTuple):
    """A device has gone. If it was sending, its slots stay taken until a Lost event says they are over."""

    device: int


class Joined(NamedTuple):
    """A device has come, or come back."""

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

_Update = tuple[int, int, int]  # whose turn comes when: (turn, device, the model it was made from)
_AT_ONCE = -1  # a turn before every slot


class SchedulerState(NamedTuple):
    """What a Scheduler knows at one instant.

    Attributes:
        round: k.
        absent: the devices that are away.
        booked: who receives which later model.
        computing: the model each device trains on.
        ready: (turn, device, version) of those who wait for the channel.
        granted: the same of the last that was let onto it.
        senders: those of this round who are still there.
        missing: updates the round has not got yet.
        channel_taken: whether somebody sends, or the server broadcasts.
    """

    round: int
    absent: list[int]
    booked: dict[int, list[int]]
    computing: dict[int, int]
    ready: list[_Update]
    granted: _Update | None
    senders: list[int]
    missing: int
    channel_taken: bool


class Scheduler:
    """One server, one channel, rounds of ``group_size`` uplinks followed by one broadcast.

    A driver calls `start` once and then `step` with all the events of one instant, the delivery of w_0 before
    all. Events of the same instant belong into the same call: the device whose turn comes first sends first,
    and ties go to the lower index. Its turn is when it finished computing, unless the delivery policy has
    planned otherwise.

    A round ends early, with the updates it has, when nobody is left who could add one: all others have gone
    or wait for a model.
    """

    def __init__(
        self,
        group_size: int,
        delivery: Delivery,
        *,
        retransmission: Retransmission = "next-turn",
        absent: Iterable[int] = (),
    ) -> None:
        self.group_size = group_size
        self.delivery = delivery
        self.round = 0
        self._waits_for_all, self._turns = delivery.waits_for_all, delivery.turns
        self._at_once = retransmission == "at-once"
        self._absent = set(absent)
        self._booked: dict[int, list[int]] = {}
        self._computing: dict[int, int] = {}  # the model each device trains on
        self._ready: list[_Update] = []
        self._granted: _Update | None = None
        self._senders: list[int] = []  # those of this round who are still there
        self._missing = group_size  # updates the round has not got yet
        self._channel_taken = False
        self._book(delivery.initial(self._absent))

    @property
    def state(self) -> SchedulerState:
        """Everything it knows, as a value of its own: `restore` goes on from there."""
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
        )

    def restore(self, state: SchedulerState) -> None:
        """Be as the Scheduler was that this state is of."""
        self.round, self._missing, self._channel_taken = state.round, state.missing, state.channel_taken
        self._absent, self._senders = set(state.absent), list(state.senders)
        self._booked = {version: list(devices) for version, devices in state.booked.items()}
        self._computing, self._ready = dict(state.computing), list(state.ready)  # sorted, so a heap
        self._granted = state.granted

    def start(self) -> Deliver:
        """Hand out w_0: the devices named here compute from the first slot on."""
        return self._deliver(0)

    def step(self, events: Iterable[Event]) -> Action | None:
        """Take in what happened in one instant and say what the channel does next."""
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
                if self._granted is not None:  # or it has left meanwhile, and may have been booked anew
                    self._senders.append(event.device)
            elif type(event) is Delivered:
                self._channel_taken = False
            elif type(event) is Lost:
                lost = event
            else:
                self._take_coming_or_going(event)
        if lost is not None:  # after all others: who is ready by now must be known
            self._take_lost(lost.slot)
        return None if self._channel_taken else self._next()

    def _take_coming_or_going(self, event: Event) -> None:
        match event:
            case Left(device):
                self._absent.add(device)
                self._forget(device)
            case Joined(device):
                self._absent.discard(device)
                self._forget(device)
                version = self.delivery.joining(self.round)
                if version is not None:
                    self._book([(version, [device])])

    def _take_lost(self, slot: int) -> None:
        """Queue the update again, before all others or behind those who are ready by now, if it still is."""
        self._channel_taken = False
        if self._granted is not None:
            _, device, version = self._granted
            behind = max((turn + 1 for turn, _, _ in self._ready), default=slot)
            heappush(self._ready, (_AT_ONCE if self._at_once else max(slot, behind), device, version))

    def _forget(self, device: int) -> None:
        """Whatever it computes, or else waits with, sends or waits for."""
        if self._computing.pop(device, None) is not None:
            return
        self._ready = [update for update in self._ready if update[1] != device]
        heapify(self._ready)
        if self._granted is not None and self._granted[1] == device:
            self._granted = None
        for devices in (self._senders, *self._booked.values()):
            if device in devices:
                devices.remove(device)

    def _next(self) -> Action | None:
        """The free channel's next use: the broadcast of a full round, the first of the ready, or nothing."""
        if not self._missing:
            return self._close_round()
        if self._ready and not (self._waits_for_all and self._computing):
            self._channel_taken = True
            self._granted = _, device, version = heappop(self._ready)
            return Grant(device, self.round, version)
        return None if self._computing else self._close_round()

    def _close_round(self) -> Deliver | None:
        """Broadcast the next model, unless nothing was sent and nobody wants one: then wait for who joins."""
        self._book(self.delivery.after(self.round, self._senders, self._absent))
        if not self._computing and not self._ready:
            self._call_in_the_next()
        if self._missing == self.group_size and not self._booked.get(self.round + 1):
            return None
        self._senders, self._missing = [], self.group_size
        self.round += 1
        self._channel_taken = True
        return self._deliver(self.round)

    def _call_in_the_next(self) -> None:
        """Nobody is at work: if nobody takes the next model either, those who wait for the earliest do."""
        waiting = [version for version, devices in self._booked.items() if devices]
        if waiting and self.round + 1 not in waiting:
            self._booked[self.round + 1] = self._booked.pop(min(waiting))

    def _book(self, bookings: Iterable[Booking]) -> None:
        for version, devices in bookings:
            present = [n for n in devices if n not in self._absent] if self._absent else devices
            self._booked.setdefault(version, []).extend(present)

    def _deliver(self, version: int) -> Deliver:
        receivers = sorted(self._booked.pop(version, ()))
        self._computing.update(dict.fromkeys(receivers, version))
        return Deliver(version, receivers)
