"""Mailbox: what the server has been told, and what of it counts.

Nothing here waits and nothing here decides what the channel does. Every message is either taken in or
rejected for a reason, and rejections are counted and told.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from slotwise.aggregation import Vector
from slotwise.learning.quantisation import Packing
from slotwise.live.channel import Message
from slotwise.live.topics import Topics
from slotwise.live.wire import BadFrame, Frame, Label, decode
from slotwise.schedule import Event, Joined, Left

WORDS_LIMIT = 1 << 12  # bytes of a message without numbers
TOPIC_LIMIT = 100  # characters of a topic that are told
READY_TWICE = "ready, said twice"  # as happens to a device that is asked again: no harm done
STRIKES = 3  # bad or missing updates in a row after which a device is out for good


class Rejection(NamedTuple):
    """A message that did not count."""

    topic: str
    reason: str

    def __str__(self) -> str:
        """In one line; the topic is of the sender's choice, and may hold line feeds and colours."""
        return f"{ascii(self.topic[:TOPIC_LIMIT])[1:-1]}: {self.reason}"


class Rejected(Exception):
    """Why a message does not count; `spoils` if it was the update the channel waits for."""

    def __init__(self, reason: str, *, spoils: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.spoils = reason, spoils


class Admission(NamedTuple):
    """What an update must be.

    Attributes:
        size: how many numbers.
        clip_norm: longer ones are shortened to this length; None leaves them as they are.
        packing: how they travel; None as they are.
    """

    size: int
    clip_norm: float | None = None
    packing: Packing | None = None

    @property
    def limit(self) -> int:
        """Bytes beyond which a message is not even looked at."""
        return (4 * self.size if self.packing is None else self.packing.size) + WORDS_LIMIT

    def admitted(self, frame: Frame) -> Vector:
        """The update, unpacked, checked and clipped."""
        vector = frame.vector if self.packing is None else self._unpacked(self.packing, frame.packed)
        if vector is None:
            raise Rejected("no float32 numbers", spoils=True)
        if len(vector) != self.size:
            raise Rejected(f"not {self.size} numbers", spoils=True)
        if not np.isfinite(vector).all():
            raise Rejected("numbers that are not finite", spoils=True)
        if self.clip_norm is None:
            return vector
        length = float(np.linalg.norm(vector.astype(np.float64)))
        return vector if length <= self.clip_norm else (vector * np.float32(self.clip_norm / length))

    def _unpacked(self, packing: Packing, packed: bytes | None) -> Vector:
        if packed is None or len(packed) != packing.size:
            raise Rejected(f"not the {packing.size} bytes of {self.size} packed numbers", spoils=True)
        return packing.unpack(packed)


class Mailbox:
    """The server's side of what the devices say.

    Attributes:
        present: the devices that are there.
        barred: those that are out for the rest of the run.
        turned_away: those of them that have to be told.
        assigned: for each that trains or has trained, the model and the number of the training.
        farewells: when the broker has said of a device that it is gone, until it is back or counts as gone.
        said_here: devices that want to be told what to do, each with the work it says it holds.
        unplanned: who has come and gone since the driver last looked.
        rejected: how often, by reason.
        alive: when a device has last said that it is at the work it was assigned.
        update: the one that the grant was for, once it is there.
        spoiled: whether what came in its place was bad.
        changed: set whenever anything was said.
    """

    def __init__(
        self, topics: Topics, run: str, devices: int, admission: Admission, told: Callable[[Rejection], None]
    ) -> None:
        self._topics, self._run, self._devices, self._admission = topics, run, devices, admission
        self._told = told
        self._boots: dict[int, str] = {}
        self._ready: dict[int, tuple[int, int]] = {}
        self._strikes: Counter[int] = Counter()
        self._grant: tuple[Label, str] | None = None
        self.barred: set[int] = set()
        self.turned_away: set[int] = set()
        self.present: set[int] = set()
        self.assigned: dict[int, tuple[int, int]] = {}
        self.farewells: dict[int, float] = {}
        self.said_here: dict[int, str] = {}
        self.unplanned: list[Event] = []
        self.rejected: Counter[str] = Counter()
        self.alive: dict[int, float] = {}
        self.update: Vector | None = None
        self.spoiled = False
        self.changed = asyncio.Event()

    def take(self, message: Message) -> None:
        """Let a message count, or reject it."""
        try:
            self._take(message)
        except Rejected as rejection:
            self.reject(message.topic, rejection.reason)
            if rejection.spoils:
                self.spoiled = True
        self.changed.set()

    def reject(self, topic: str, reason: str) -> None:
        """Count and tell."""
        self.rejected[reason] += 1
        self._told(Rejection(topic, reason))

    @property
    def heard(self) -> set[int]:
        """Those who have told this server that they are here."""
        return set(self._boots)

    def is_ready(self, device: int) -> bool:
        """Whether it has said that what it was assigned is done."""
        return device in self.assigned and self._ready.get(device) == self.assigned[device]

    def expect(self, label: Label, number: str) -> None:
        """A grant is out: one update with this label and this number of the grant is wanted.

        Unless the device has gone since: then nothing is.
        """
        still = self.assigned.get(label.device) == (label.version, label.training)
        self._grant = (label, number) if still else None
        self.update, self.spoiled = None, False

    def close(self) -> Vector | None:
        """The slots of the grant are over: what came, if anything good did. Three bad ones bar a device."""
        grant, update = self._grant, self.update
        self._grant, self.update = None, None
        if grant is not None and update is not None:
            self._strikes.pop(grant[0].device, None)
        elif grant is not None and self.spoiled:
            self.strike(grant[0].device)
        return update

    @property
    def waits_for_update(self) -> bool:
        """Whether the update that was granted may still come."""
        return self._grant is not None and self.update is None and not self.spoiled

    def vanish(self, device: int) -> None:
        """Count a device as gone."""
        if self._grant is not None and self._grant[0].device == device and self.update is None:
            self._grant = None
        if device in self.present:
            self.present.discard(device)
            self.unplanned.append(Left(device))
        for table in (self.assigned, self._ready, self.farewells):
            table.pop(device, None)
        self.changed.set()

    def let_go(self, before: float) -> None:
        """Count those as gone whose farewell is older and who are not back."""
        for device in [n for n, since in self.farewells.items() if since <= before]:
            self.vanish(device)

    def strike(self, device: int) -> None:
        """A bad update, or none at all in spite of a grant; several in a row bar a device."""
        self._strikes[device] += 1
        if self._strikes[device] >= STRIKES:
            self.barred.add(device)
            self.turned_away.add(device)
            self.vanish(device)

    def _take(self, message: Message) -> None:
        sender = self._topics.sender(message.topic)
        if sender is None:
            raise Rejected("a topic of no device")
        device, kind = sender
        if device > self._devices:
            raise Rejected("a stranger: no device of this run")
        if device in self.barred:
            if kind == "here":
                self.turned_away.add(device)
            raise Rejected(f"out since {STRIKES} bad or missing updates in a row")
        granted = kind == "update" and self._grant is not None and self._grant[0].device == device
        if len(message.payload) > (self._admission.limit if kind == "update" else WORDS_LIMIT):
            raise Rejected("too large", spoils=granted)
        try:
            frame = decode(message.payload)
        except BadFrame as error:
            raise Rejected(f"garbage: {error}", spoils=granted) from None
        self._take_frame(device, kind, frame)

    def _take_frame(self, device: int, kind: str, frame: Frame) -> None:
        if frame.label.device != device:
            raise Rejected("speaks for another device")
        if kind == "gone":  # written before the device knew of any run: its boot says whether it counts
            self._take_gone(device, frame)
        elif frame.label.run != self._run:
            raise Rejected("of another run")
        elif kind == "here":
            self._take_here(device, frame)
        elif device not in self.present:
            self.said_here.setdefault(device, "")
            raise Rejected("from a device that counts as gone")
        elif kind == "ready":
            self._take_ready(device, frame)
        elif kind == "update":
            self._take_update(device, frame)
        else:
            raise Rejected("a topic of no device")

    def _take_here(self, device: int, frame: Frame) -> None:
        boot = frame.words.get("boot", "")
        if device in self.farewells and self._boots.get(device) != boot:
            self.vanish(device)  # started again, it has lost its work
        self.farewells.pop(device, None)
        self._boots[device] = boot
        holds = self.said_here[device] = frame.words.get("holds", "")
        version, training = self.assigned.get(device, (-1, -1))
        if holds.startswith(f"{version}:{training}:"):
            self.alive[device] = time.monotonic()
        if device not in self.present:
            self.present.add(device)
            self.unplanned.append(Joined(device))

    def _take_gone(self, device: int, frame: Frame) -> None:
        if device not in self.present or frame.words.get("boot") != self._boots.get(device):
            raise Rejected("a farewell of somebody who had gone before")
        self.farewells.setdefault(device, time.monotonic())

    def _take_ready(self, device: int, frame: Frame) -> None:
        key = (frame.label.version, frame.label.training)
        if self.assigned.get(device) != key:
            raise Rejected("ready with something that was not asked for")
        if self._ready.get(device) == key:
            raise Rejected(READY_TWICE)
        self._ready[device] = key

    def _take_update(self, device: int, frame: Frame) -> None:
        if self._grant is None or self._grant[0].device != device:
            raise Rejected("an update without a grant")
        label, number = self._grant
        if frame.label != label or frame.words.get("grant") != number:
            raise Rejected("an update of an earlier grant")
        if self.update is not None:
            raise Rejected("an update sent twice")
        self.update = self._admission.admitted(frame)
