"""Checks of the devices' messages: each is accepted, or rejected for a reason that is counted and logged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite, nan
from typing import NamedTuple

import numpy as np

from slotwise.aggregation import Vector
from slotwise.learning.quantisation import Packing
from slotwise.live.clock import Clock, RateLimit, Signal
from slotwise.live.device_report import DeviceReport
from slotwise.live.parts import SMALLEST_PART, Place
from slotwise.live.protocol import BadFrame, Frame, Topics, Versions, Work, decode, digest, versions_of_run
from slotwise.live.server.device_state import Grant
from slotwise.live.server.events import EventLog
from slotwise.live.server.state import LiveState
from slotwise.live.transport import Message

TEXT_LIMIT = 1 << 12  # bytes of a message without numbers
TOPIC_LIMIT = 100  # characters of a topic that are logged
READY_TWICE = "ready reported twice"  # harmless: a device that is asked again answers again
EXCLUDED = "excluded after bad or missing updates"
NO_GRANT = "update without a grant"
OUT_OF_SLOTS = "update outside its slots"
INCOMPATIBLE = "device speaks another version of the protocol"
JOINS_TOO_OFTEN = "device joins too often"
# Rejected messages of a device that are logged, at once and per second; updates beyond that are not decoded.
FLOOD_BURST, FLOOD_RATE = 200, 10.0
JOIN_BURST, JOIN_RATE = 20, 0.5  # times that a device may join, at once and per second; each is an event
REPORT_BURST, REPORT_RATE = 10, 0.2  # reports of a device that are read, at once and per second
LONGEST_NUMBER = 32  # characters
NOBODY = 0  # the sender of messages of devices that the run does not have


class Rejection(NamedTuple):
    """A rejected message and the reason, one of a fixed set, with details that the sender may have chosen."""

    topic: str
    reason: str
    detail: str = ""

    @property
    def printable_topic(self) -> str:
        """The topic, which the sender chose, without line feeds and escape sequences."""
        return ascii(self.topic[:TOPIC_LIMIT])[1:-1]

    def __str__(self) -> str:
        """Return one line of rejections.log, without its time."""
        return f"{self.printable_topic}: {self.reason}" + (f" ({self.detail})" if self.detail else "")


class Reply(NamedTuple):
    """A device that needs an answer, and the work it says it holds."""

    device: int
    holds: str = ""
    compatible: bool = True
    partial: str = ""  # the part of a model that it has received
    receiving: bool = False  # and goes on receiving


class Rejected(Exception):
    """Raised for a message that does not count.

    ``reason`` is one of a fixed set, as each is counted and remembered; ``detail`` is only logged.
    ``spoils``: it was sent as the update that the channel waits for; ``finite`` is False if its numbers are
    not. ``reply``: the sender needs an answer. ``incompatible``: the sender speaks other versions of the
    protocol, and is told so.
    """

    def __init__(
        self,
        reason: str,
        *,
        spoils: bool = False,
        finite: bool = True,
        reply: bool = False,
        incompatible: bool = False,
        detail: str = "",
    ) -> None:
        super().__init__(reason)
        self.reason, self.detail, self.spoils, self.finite = reason, detail, spoils, finite
        self.reply, self.incompatible = reply or incompatible, incompatible


class UpdateCheck(NamedTuple):
    """Requirements on an update."""

    size: int  # numbers of the model
    packing: Packing | None = None  # None for float32

    @property
    def bytes(self) -> int:
        """Length of an update in bytes."""
        return 4 * self.size if self.packing is None else self.packing.size

    def checked(self, frame: Frame) -> Vector:
        """Return the update, unpacked and checked."""
        vector, packing = frame.vector, self.packing
        if packing is not None:
            if frame.packed is None or len(frame.packed) != packing.size:
                raise Rejected(f"not the {packing.size} bytes of {self.size} packed numbers", spoils=True)
            vector = packing.unpack(frame.packed)
        if vector is None:
            raise Rejected("no float32 numbers", spoils=True)
        if len(vector) != self.size:
            raise Rejected(f"not {self.size} numbers", spoils=True)
        if not np.isfinite(vector).all():
            raise Rejected("numbers are not finite", spoils=True, finite=False)
        return vector


class Inbox:
    """Checks messages and passes what they say to the owners of the facts in `LiveState`."""

    def __init__(
        self,
        topics: Topics,
        run: str,
        devices: int,
        state: LiveState,
        updates: UpdateCheck,
        clock: Clock,
        rejected: Callable[[Rejection], None],
        log: EventLog | None = None,
        *,
        in_slots: bool = False,
    ) -> None:
        self._in_slots = in_slots  # grants are announced ahead
        self.misplaced: dict[int, float] = {}  # when the last update of a device came outside its slots
        self.topics, self._run, self._devices, self.state = topics, run, devices, state
        self._updates, self.clock, self._rejected = updates, clock, rejected
        self.log = log or EventLog()
        self._versions = versions_of_run(in_slots=in_slots)
        self._alive: dict[int, float] = {}
        self.heard: dict[int, float] = {}  # when the last message of each device came that was accepted
        self._partials: dict[int, str] = {}  # what devices had received of their models when last asked
        self._floods, self._joins = RateLimit(FLOOD_BURST, FLOOD_RATE), RateLimit(JOIN_BURST, JOIN_RATE)
        self._reports = RateLimit(REPORT_BURST, REPORT_RATE)
        self.changed = Signal()  # after every message

    def take(self, message: Message) -> Reply | None:
        """Accept or reject a message; return the device that needs an answer, if one does."""
        reply, sender = None, self.topics.sender(message.topic)
        try:
            if sender is None:
                raise Rejected("not the topic of a device")
            reply = self._take(*sender, message)
            if sender[1] != "gone":  # a last will is a message of the broker
                self.heard[sender[0]] = self.clock.now()
        except Rejected as error:
            # Numbers that the run does not have count as one sender: there is no end of them.
            number = NOBODY if sender is None or sender[0] > self._devices else sender[0]
            if self._floods.allows(number, self.clock.now()):
                self.reject(message.topic, error.reason, error.detail)
            else:
                self.state.rejected[error.reason] += 1
            if error.spoils:
                self.state.grant.spoil(finite=error.finite)
            if error.reply and sender is not None:
                reply = Reply(sender[0], compatible=not error.incompatible)
        self.changed.notify()
        return reply

    def reject(self, topic: str, reason: str, detail: str = "") -> None:
        """Count and report a rejection."""
        self.state.rejected[reason] += 1
        rejection = Rejection(topic, reason, detail)
        self._rejected(rejection)
        self.log.rejected(rejection.printable_topic, reason, detail, harmless=reason == READY_TWICE)

    def confirmed_since(self, device: int, moment: float) -> bool:
        """Return whether a device has confirmed since ``moment`` that it computes what it was assigned."""
        return self._alive.get(device, -np.inf) >= moment

    def _take(self, device: int, kind: str, message: Message) -> Reply | None:
        """Check sender and size, which need no decoding; then the content."""
        payload = message.payload
        if device > self._devices:
            raise Rejected("unknown device number")
        if device in self.state.penalties.excluded:
            # The device may not know that it is excluded, and is told when it says ``here``.
            raise Rejected(EXCLUDED, reply=kind == "here")
        # Only the device that holds the channel can spoil the update, and only with a message sent as one.
        spoils = kind == "update" and self.state.grant.for_device(device) is not None
        # Decoding takes the most time, so updates of a device that floods the server do not get so far.
        if kind == "update" and not spoils and self._floods.used(device, self.clock.now()) >= FLOOD_BURST - 1:
            raise Rejected(NO_GRANT)
        limit = TEXT_LIMIT + (self._updates.bytes if kind == "update" else 0)
        if len(payload) > limit:
            raise Rejected("message too large", spoils=spoils)
        try:
            frame = decode(payload)
        except BadFrame as error:
            raise Rejected(f"malformed message: {error}", spoils=spoils) from None
        return self._take_frame(device, kind, frame, message.begun)

    def _take_frame(self, device: int, kind: str, frame: Frame, begun: float) -> Reply | None:
        # The topic says who the sender is, as the broker's access rules protect it; the label must agree.
        if frame.label.device != device:
            raise Rejected("label names another device")
        if kind in ("gone", "status"):  # of no run: a last will is written before one is known
            self._take_about_device(device, kind, frame)
            return None
        if frame.label.run != self._run:
            raise Rejected("message of another run")
        if kind == "here":
            return self._take_here(device, frame)
        if device not in self.state.presence.connected:
            # It may not know that it was given up; the answer is a call.
            if kind == "ready":
                self.state.timings.ended_late(device)
            raise Rejected("device counts as disconnected", reply=True)
        if kind == "ready":
            if self.state.assignments.work.get(device) != frame.work:
                raise Rejected("ready with work that was not assigned")
            if not self.state.assignments.set_ready(device, frame.work):
                raise Rejected(READY_TWICE)
            self.state.timings.ready(device, frame.work, frame.fields.get("seconds", ""))
        elif kind == "update":
            return self._take_update(device, frame, begun)
        else:
            raise Rejected("not the topic of a device")
        return None

    def _take_about_device(self, device: int, kind: str, frame: Frame) -> None:
        """Take a last will, whose boot says whether it counts, or what a device says about itself."""
        if kind == "gone":
            if not self.state.presence.note_last_will(device, frame.fields.get("boot"), self.clock.now()):
                raise Rejected("last will of an earlier connection")
        elif self._reports.allows(device, self.clock.now()):
            self.state.reports[device] = DeviceReport.in_fields(frame.fields)
        else:
            raise Rejected("status sent too often")

    def _take_here(self, device: int, frame: Frame) -> Reply:
        presence, boot = self.state.presence, frame.fields.get("boot", "")
        theirs = Versions.in_fields(frame.fields)
        if not self._versions.understands(theirs):
            self.state.disconnect(device)  # it may have been replaced by another version during the run
            detail = f"device: {theirs}, server: {self._versions}"
            raise Rejected(INCOMPATIBLE, incompatible=True, detail=detail)
        restarted = presence.has_restarted(device, boot)
        joins = restarted or device not in presence.connected
        if joins and not self._joins.allows(device, self.clock.now()):
            self.state.disconnect(device)
            raise Rejected(JOINS_TOO_OFTEN, reply=True)  # it is called later, and may join then
        if restarted:
            # Its work ended with the old process, so the Scheduler has to book it anew.
            self.state.disconnect(device)
            self.log.info("left", device=device, reason="restarted")
        holds, partial = frame.fields.get("holds", ""), frame.fields.get("partial", "")
        work = self.state.assignments.work.get(device)
        has_model = work is not None and holds.startswith(f"{work}:")
        receiving = work is not None and partial.startswith(f"{work}:")
        if receiving or has_model:
            self._alive[device] = self.clock.now()
        if not has_model:
            self.state.timings.model_sent_again(device)
        if device not in presence.connected:
            self.log.info("joined", device=device, round=self.state.round, protocol=theirs.protocol)
        presence.connect(device, boot, theirs.protocol)
        # A transfer goes on by itself if more has come since the device was last asked.
        moving = receiving and "broken" not in frame.fields and self._partials.get(device) != partial
        self._partials[device] = partial
        return Reply(device, holds, partial=partial, receiving=moving)

    def _take_update(self, device: int, frame: Frame, begun: float) -> Reply | None:
        grant = self.state.grant.for_device(device)
        if self._in_slots and (grant is None or not _is_in_slots(frame, grant)):
            self.misplaced[device] = self.clock.now()
            raise Rejected(OUT_OF_SLOTS)
        if grant is None:
            raise Rejected(NO_GRANT)
        if not self._in_slots and (frame.label != grant.label or frame.fields.get("grant") != grant.number):
            # A late update is not a fault, so it does not spoil the current grant.
            raise Rejected("update for an earlier grant")
        if self.state.grant.update is not None:
            raise Rejected("update sent twice")
        if "offset" in frame.fields:
            whole = self._add_part(device, frame)
            if not isinstance(whole, Frame):
                return whole
            frame = whole
        self.state.grant.receive(self._updates.checked(frame), _loss_in(frame.fields), begun)
        self.state.timings.received()
        self.state.uploads.drop(device)
        return None

    def _add_part(self, device: int, frame: Frame) -> Frame | Reply | None:
        """Add a part of an update; return the whole with the last, or what to ask for if there is a gap."""
        place, piece, size = Place.in_fields(frame.fields), frame.packed or b"", self._updates.bytes
        if place is None or place.total != size or place.offset + len(piece) > size:
            raise Rejected(f"not a part of {size} bytes", spoils=True)
        # The limit on small parts bounds the messages that one update can cost.
        if len(piece) < min(SMALLEST_PART, size - place.offset) or not piece:
            raise Rejected(f"part of less than {SMALLEST_PART} bytes", spoils=True)
        numbers = self.state.uploads.add(device, frame.work, place, piece)
        if numbers == "more":
            return None
        if numbers == "gap":
            # As if the device had said that it holds its work: the answer repeats the grant, with the bytes
            # that have come, and does not send the model.
            return Reply(device, f"{frame.work}:{digest(self.state.models[frame.work.version])}")
        if numbers == "checksum":
            raise Rejected("wrong checksum", spoils=True)
        if self._updates.packing is not None:
            return frame._replace(packed=numbers)
        return frame._replace(vector=np.frombuffer(numbers, "<f4").astype(np.float32), packed=None)


def _is_in_slots(frame: Frame, grant: Grant) -> bool:
    """Return whether an update names work and first slot of a grant, which is all that its device knows."""
    return frame.work == Work(*grant.label[3:]) and frame.fields.get("slot") == str(grant.slot)


def _loss_in(fields: Mapping[str, str]) -> float:
    """Return the loss that a device reports; NaN if it reports none."""
    try:
        loss = float(fields.get("loss", "")[:LONGEST_NUMBER])
    except ValueError:
        return nan
    return loss if isfinite(loss) else nan
