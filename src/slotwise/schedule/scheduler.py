"""The Scheduler: who uses the channel next. Events in, at most one action out.

It has no clock, does no I/O and holds no arrays, so virtual slots and a real network can drive the same
object. It never asks how long anything takes: a driver tells it what has happened, and it answers with what
the channel does next, or with nothing while the channel is taken or has to wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from slotwise.schedule.delivery import Delivery


class Ready(NamedTuple):
    """A device has finished computing, in ``slot``: the slot is part of the event, arrival order is not."""

    device: int
    slot: int


class Sent(NamedTuple):
    """The granted device's update has arrived."""

    device: int


class Delivered(NamedTuple):
    """The broadcast of a model has ended; its receivers now compute."""

    version: int


Event = Ready | Sent | Delivered


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
    belong into the same call: the device that finished first sends first, and ties go to the lower index.
    """

    def __init__(self, group_size: int, delivery: Delivery) -> None:
        self.group_size = group_size
        self.delivery = delivery
        self.round = 0
        self._waits_for_all = delivery.waits_for_all
        self._senders: list[int] = []
        self._ready: list[tuple[int, int]] = []
        self._booked: dict[int, list[int]] = {}
        self._version: dict[int, int] = {}
        self._channel_taken = False
        for version, devices in delivery.initial():
            self._book(version, devices)

    def start(self) -> Deliver:
        """Hand out w_0: the devices named here compute from the first slot on."""
        return self._deliver(0)

    def step(self, events: Iterable[Event]) -> Action | None:
        """Take in what happened in one instant and say what the channel does next."""
        for event in events:
            if type(event) is Ready:
                heapq.heappush(self._ready, (event.slot, event.device))
            else:
                self._channel_taken = False
                if type(event) is Sent:
                    self._senders.append(event.device)
        return None if self._channel_taken else self._next()

    def _next(self) -> Action | None:
        """The free channel's next use: the broadcast of a full round, the first of the ready, or nothing."""
        if len(self._senders) == self.group_size:
            return self._close_round()
        if not self._ready or (self._waits_for_all and not self._all_ready()):
            return None
        _, device = heapq.heappop(self._ready)
        self._channel_taken = True
        return Grant(device, self.round, self._version[device])

    def _all_ready(self) -> bool:
        return len(self._ready) + len(self._senders) == self.group_size

    def _close_round(self) -> Deliver:
        for version, devices in self.delivery.after(self.round, self._senders):
            self._book(version, devices)
        self._senders = []
        self.round += 1
        self._channel_taken = True
        return self._deliver(self.round)

    def _book(self, version: int, devices: Iterable[int]) -> None:
        self._booked.setdefault(version, []).extend(devices)

    def _deliver(self, version: int) -> Deliver:
        receivers = sorted(self._booked.pop(version, ()))
        self._version.update(dict.fromkeys(receivers, version))
        return Deliver(version, receivers)
