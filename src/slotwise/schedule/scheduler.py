"""The Scheduler: who uses the channel next. Events in, at most one action out.

It has no clock, does no I/O and holds no arrays, so virtual slots and a real network can drive the same
object. It never asks how long anything takes: a driver tells it what has happened, and it answers with what
the channel does next, or with nothing while the channel is taken or has to wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from slotwise.schedule.delivery import Delivery

Retransmission = Literal["next-turn", "at-once"]


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
    """The broadcast of a model has ended; its receivers now compute."""

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


class Scheduler:
    """One server, one channel, rounds of ``group_size`` uplinks followed by one broadcast.

    A driver calls `start` once and then `step` with all the events of one instant. Events of the same instant
    belong into the same call: the device whose turn comes first sends first, and ties go to the lower index.
    Its turn is when it finished computing, unless the delivery policy has planned otherwise.

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
        self._senders: list[int] = []
        self._ready: list[tuple[int, int]] = []
        self._computing: set[int] = set()
        self._granted: tuple[int, int] | None = None
        self._booked: dict[int, list[int]] = {}
        self._version: dict[int, int] = {}
        self._channel_taken = False
        for version, devices in delivery.initial(self._absent):
            self._book(version, devices)

    def start(self) -> Deliver:
        """Hand out w_0: the devices named here compute from the first slot on."""
        return self._deliver(0)

    def step(self, events: Iterable[Event]) -> Action | None:
        """Take in what happened in one instant and say what the channel does next."""
        for event in events:
            if type(event) is Ready:
                device, slot, version = event
                if device in self._computing and self._version[device] == version:
                    self._computing.remove(device)
                    turn = self._turns.get((device, version), slot) if self._turns else slot
                    heapq.heappush(self._ready, (turn, device))
            elif type(event) is Sent:
                self._channel_taken = False
                self._senders.append(event.device)
            elif type(event) is Delivered:
                self._channel_taken = False
            else:
                self._take_misfortune(event)
        return None if self._channel_taken else self._next()

    def _take_misfortune(self, event: Event) -> None:
        if type(event) is Lost:
            self._take_lost(event)
        elif type(event) is Left:
            self._absent.add(event.device)
            self._forget(event.device)
        elif type(event) is Joined:
            self._absent.discard(event.device)
            version = self.delivery.joining(self.round)
            if version is not None:
                self._book(version, [event.device])

    def _take_lost(self, event: Lost) -> None:
        """Queue the update again: before all others, or behind those who are ready by now."""
        self._channel_taken = False
        if event.device in self._absent or self._granted is None:
            return
        turn = self._granted[0] if self._at_once else event.slot
        heapq.heappush(self._ready, (turn, event.device))

    def _forget(self, device: int) -> None:
        self._computing.discard(device)
        self._ready = [entry for entry in self._ready if entry[1] != device]
        heapq.heapify(self._ready)
        for devices in self._booked.values():
            if device in devices:
                devices.remove(device)

    def _next(self) -> Action | None:
        """The free channel's next use: the broadcast of a full round, the first of the ready, or nothing."""
        if len(self._senders) == self.group_size:
            return self._close_round()
        if self._ready and not (self._waits_for_all and self._computing):
            self._granted = heapq.heappop(self._ready)
            device = self._granted[1]
            self._channel_taken = True
            return Grant(device, self.round, self._version[device])
        if self._computing or self._ready:
            return None
        if not self._senders:
            self._call_in_the_next()
        return self._close_round() if self._senders or self._booked.get(self.round + 1) else None

    def _close_round(self) -> Deliver:
        for version, devices in self.delivery.after(self.round, self._senders, self._absent):
            self._book(version, devices)
        self._senders = []
        self.round += 1
        self._channel_taken = True
        return self._deliver(self.round)

    def _call_in_the_next(self) -> None:
        """Nobody computes, is ready or has sent: whoever waits for the earliest model takes the next one.

        The round is then closed without an update, which costs a broadcast and gets things going again.
        """
        waiting = [version for version, devices in self._booked.items() if devices]
        if waiting and self.round + 1 not in waiting:
            self._book(self.round + 1, self._booked.pop(min(waiting)))

    def _book(self, version: int, devices: Iterable[int]) -> None:
        present = devices if not self._absent else [n for n in devices if n not in self._absent]
        self._booked.setdefault(version, []).extend(present)

    def _deliver(self, version: int) -> Deliver:
        receivers = sorted(self._booked.pop(version, ()))
        self._version.update(dict.fromkeys(receivers, version))
        self._computing.update(receivers)
        return Deliver(version, receivers)
