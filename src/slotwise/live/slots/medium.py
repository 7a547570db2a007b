"""A shared medium in virtual time, in integer nanoseconds: transmissions that overlap are lost.

There is one place: what is on the air is judged where the server is. A frame of a device that is at a
distance is on the air there by its delay later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush
from itertools import count

from slotwise.live.slots.slot_layout import air_ns

SERVER = 0  # the number of the sender; devices are numbered from 1


class Order(IntEnum):
    """Order of what happens in the same nanosecond: transmissions that only touch do not collide."""

    END = 0
    SLOT = 1
    BEGIN = 2


class VirtualTime:
    """Calls functions at their moments, in order; time passes only from one to the next."""

    def __init__(self) -> None:
        self.now = 0
        self._numbers = count()
        self._heap: list[tuple[int, int, int, Callable[[], None]]] = []

    def at(self, moment: int, function: Callable[[], None], order: Order = Order.BEGIN) -> None:
        """Call a function at a moment, at once if that is over."""
        heappush(self._heap, (max(moment, self.now), order, next(self._numbers), function))

    def run(self) -> None:
        """Call all functions, also those that are added meanwhile."""
        while self._heap:
            self.now, _, _, function = heappop(self._heap)
            function()

    def stop(self) -> None:
        """Forget everything that has not happened yet."""
        self._heap.clear()


@dataclass(eq=False)
class Transmission:
    """One frame on the air in [start, end)."""

    number: int
    sender: int
    frame: bytes
    start: int
    end: int
    with_senders: set[int] = field(default_factory=set)  # that it has collided with

    @property
    def collided(self) -> bool:
        """Whether it overlapped with another one."""
        return bool(self.with_senders)


Receiver = Callable[[Transmission], None]


class SharedMedium:
    """One medium for all: a frame occupies it for the time of its bytes at ``bit_rate``.

    Frames of the server go to all devices, those of a device to the server. ``loses(receiver, sender,
    number)`` says whether a frame that did not collide is lost on the way to one receiver; ``number`` counts
    all transmissions.
    """

    def __init__(
        self,
        time: VirtualTime,
        bit_rate: int,
        loses: Callable[[int, int, int], bool] = lambda *_: False,
    ) -> None:
        self._time, self._bit_rate, self._loses = time, bit_rate, loses
        self._receivers: dict[int, Receiver] = {}
        self._on_air: list[Transmission] = []
        self._count = 0
        self.collisions: list[Transmission] = []
        self._last_lost: dict[int, int] = {}  # when the last frame of each sender began that was lost

    def attach(self, number: int, receiver: Receiver) -> None:
        """Add a device, or the server."""
        self._receivers[number] = receiver

    def air_ns(self, size: int) -> int:
        """Return how long a frame of ``size`` bytes occupies the medium."""
        return air_ns(size, self._bit_rate)

    def send(self, sender: int, frames: list[bytes], start: int) -> None:
        """Put frames on the air one after another, from ``start`` on."""
        for frame in frames:
            end = start + self.air_ns(len(frame))
            self._count += 1
            transmission = Transmission(self._count, sender, frame, start, end)
            self._time.at(start, lambda one=transmission: self._begin(one), Order.BEGIN)  # type: ignore[misc]
            start = end

    def senders_on_air(self) -> set[int]:
        """Return those whose frames are on the air at the moment."""
        return {one.sender for one in self._on_air}

    def lost_senders(self, since: int) -> set[int]:
        """Return those of whom a frame that began at ``since`` or later was lost without a collision."""
        return {sender for sender, start in self._last_lost.items() if start >= since}

    def _begin(self, one: Transmission) -> None:
        for other in self._on_air:
            one.with_senders.add(other.sender)
            other.with_senders.add(one.sender)
        self._on_air.append(one)
        self._time.at(one.end, lambda: self._end(one), Order.END)

    def _end(self, one: Transmission) -> None:
        self._on_air.remove(one)
        if one.collided:
            self.collisions.append(one)
            return
        receivers = [SERVER] if one.sender != SERVER else [n for n in self._receivers if n != SERVER]
        for number in receivers:
            if self._loses(number, one.sender, one.number):
                self._last_lost[one.sender] = one.start
            else:
                self._receivers[number](one)
