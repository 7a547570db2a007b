"""Parts: a message whose numbers are longer than a broker's packets is sent as several, and can be resumed.

Each part is a frame with the label and the fields of the whole message and a piece of its numbers as packed
bytes. Its fields say where the piece belongs: ``offset`` of its first byte, ``total`` bytes of the numbers,
and ``sum``, their checksum. Parts come in order; a receiver keeps what it has without gaps, and says how
many bytes that are when a transfer is to be continued.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple
from zlib import crc32

import numpy as np

from slotwise.live.protocol import Label, Work, encode

if TYPE_CHECKING:
    from slotwise.aggregation import Vector

HEADER_BYTES = 8192  # at most, of a packet with a part: topic, label and fields; 100 receivers take 2,000
SMALLEST_PART = 1024  # bytes of a part that is not the last
UNLIMITED = 1 << 28  # bytes; no MQTT packet is longer
Missing = Literal["more", "gap", "checksum"]  # parts after this one, parts before it, or all of them


class Place(NamedTuple):
    """Place of a part in the numbers of its message."""

    offset: int
    total: int
    checksum: str

    @classmethod
    def in_fields(cls, fields: Mapping[str, str]) -> Place | None:
        """Return the place of a part; None for a whole message, or if the fields cannot be read."""
        offset, total, checksum = (fields.get(name, "") for name in ("offset", "total", "sum"))
        if not all(re.fullmatch("[0-9]{1,12}", text) for text in (offset, total)):
            return None
        return cls(int(offset), int(total), checksum)


class Assembly:
    """The first bytes of the numbers of one message."""

    def __init__(self, work: Work, place: Place) -> None:
        self.work, self.total, self.checksum = work, place.total, place.checksum
        self._bytes = bytearray()
        self._gap: Place | None = None  # of the last part that came after a gap

    def is_of(self, work: Work, place: Place) -> bool:
        """Return whether a part belongs to this message."""
        return (work, place.total, place.checksum) == (self.work, self.total, self.checksum)

    @property
    def received(self) -> int:
        """Number of bytes that are there without a gap."""
        return len(self._bytes)

    def add(self, place: Place, piece: bytes) -> bool:
        """Add the bytes of a part that are new; False if parts before it are missing."""
        if place.offset > self.received:
            return False
        # A transfer that is repeated from an earlier byte overlaps with what is here.
        self._bytes += piece[self.received - place.offset :]
        # There is no gap any more, so the next one is reported again.
        self._gap = None
        return True

    def is_new_gap(self, place: Place) -> bool:
        """Return whether to report the gap before a part: once for each time that parts are sent.

        They are sent in order, so an offset that is not above the last one is of another time.
        """
        last, self._gap = self._gap, place
        return last is None or place.offset <= last.offset

    @property
    def complete(self) -> bytes | None:
        """All bytes, if they are there and have the right checksum."""
        right = self.received == self.total and f"{crc32(self._bytes):08x}" == self.checksum
        return bytes(self._bytes) if right else None

    def __str__(self) -> str:
        """Return the text with which a receiver says what it has."""
        return f"{self.work}:{self.checksum}:{self.received}"


def checksum(numbers: Vector | bytes) -> str:
    """Return the checksum of the bytes of a message's numbers."""
    return f"{crc32(_raw(numbers)):08x}"


def _raw(numbers: Vector | bytes) -> bytes:
    return numbers if isinstance(numbers, bytes) else np.ascontiguousarray(numbers, dtype="<f4").tobytes()


def received_of(partial: str, work: Work, checksum: str) -> int:
    """Return how many bytes of a message a receiver has, from what it says in ``partial``; 0 for others."""
    matched = re.fullmatch(re.escape(f"{work}:{checksum}:") + "([0-9]{1,12})", partial)
    return int(matched[1]) if matched else 0


def frames(
    label: Label, numbers: Vector | bytes, fields: Mapping[str, str], part_bytes: int, first: int = 0
) -> Iterator[bytes]:
    """Yield the frame of a message or, if its numbers are longer than a part, its parts from a byte on."""
    size = len(numbers) if isinstance(numbers, bytes) else 4 * len(numbers)
    if size <= part_bytes:
        yield encode(label, numbers, **fields)
        return
    raw = _raw(numbers)
    whole = {**fields, "total": str(size), "sum": checksum(raw)}
    # ``first`` is what the receiver says it has, which may be more than there is.
    for offset in range(min(first, size), size, part_bytes):
        yield encode(label, raw[offset : offset + part_bytes], **whole, offset=str(offset))


class Transfers:
    """Owner of the parts that have come, by sender; those of another message replace what there is.

    So no sender can fill the memory with parts. On a server they outlast a grant that ends too early.
    """

    def __init__(self) -> None:
        self._assemblies: dict[int, Assembly] = {}

    def add(self, sender: int, work: Work, place: Place, piece: bytes) -> bytes | Missing:
        """Add a part; return all bytes with the last one, or else what is missing.

        A gap (parts before this one have not come) is reported once each time that parts are sent. If the
        checksum is wrong, everything has to be sent again from the start.
        """
        held = self._assemblies.get(sender)
        if held is None or not held.is_of(work, place):
            held = self._assemblies[sender] = Assembly(work, place)
        if not held.add(place, piece):
            return "gap" if held.is_new_gap(place) else "more"
        if held.received < place.total:
            return "more"
        self.drop(sender)
        return "checksum" if held.complete is None else held.complete

    def partial(self, sender: int, work: Work | None = None) -> str:
        """Return the text that says what has come, of ``work`` if it is given; empty if there is nothing."""
        held = self._assemblies.get(sender)
        return "" if held is None or work not in (None, held.work) else str(held)

    def drop(self, sender: int) -> None:
        """Forget the parts of a sender."""
        self._assemblies.pop(sender, None)
