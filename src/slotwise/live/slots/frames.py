"""Frames on the air: beacons with the coming grants, and messages in pieces; docs/slots.md specifies them.

All numbers are little-endian. The last four bytes of every frame are the CRC-32 of those before.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple
from zlib import crc32

BEACON: Final = 1
UPDATE: Final = 2
MODEL: Final = 3
_PIECE = struct.Struct("<BHIIHH")  # kind, device, version, training, number, pieces
_BEACON = struct.Struct("<BQQB")  # kind, slot, nanoseconds of a slot, number of grants
_GRANT = struct.Struct("<iIHII")  # first slot after that of the beacon, slots, device, version, training
_SUM = struct.Struct("<I")
PIECE_BYTES = _PIECE.size + _SUM.size  # of a frame that are not its piece
SMALLEST_FRAME: Final = _BEACON.size + 2 * _GRANT.size + _SUM.size  # bytes, so that a beacon has two grants
MOST_PIECES = (1 << 16) - 1  # of one message
LARGEST_FRAME = 1472  # bytes of a datagram that no Ethernet fragments


class AheadGrant(NamedTuple):
    """Slots [first, first + slots) are those of a device, for the update of this training."""

    first: int
    slots: int
    device: int
    version: int
    training: int

    @property
    def end(self) -> int:
        """The first slot after it."""
        return self.first + self.slots

    def __str__(self) -> str:
        return f"device {self.device}: slots {self.first}-{self.end - 1}"


class Beacon(NamedTuple):
    """The beginning of a slot, and the grants from it on in the order of the channel."""

    slot: int
    slot_ns: int
    grants: tuple[AheadGrant, ...]


class Piece(NamedTuple):
    """One piece of a message: of an update of ``device``, or of a model (device and training are 0)."""

    kind: Literal[2, 3]
    device: int
    version: int
    training: int
    number: int  # from 0
    pieces: int  # of the whole message
    data: bytes

    @property
    def message(self) -> tuple[int, int, int, int, int]:
        """What the pieces of one message share."""
        return self.kind, self.device, self.version, self.training, self.pieces


def grants_in_beacon(frame_bytes: int) -> int:
    """Return how many grants fit into a beacon."""
    return min(255, (frame_bytes - _BEACON.size - _SUM.size) // _GRANT.size)


def pieces_of(length: int, frame_bytes: int) -> int:
    """Return the number of frames of a message of ``length`` bytes."""
    return max(1, -(-length // (frame_bytes - PIECE_BYTES)))


def encode_beacon(beacon: Beacon) -> bytes:
    """Return the frame of a beacon."""
    body = _BEACON.pack(BEACON, beacon.slot, beacon.slot_ns, len(beacon.grants))
    for first, *rest in beacon.grants:
        body += _GRANT.pack(first - beacon.slot, *rest)
    return body + _SUM.pack(crc32(body))


def encode_piece(piece: Piece) -> bytes:
    """Return the frame of a piece."""
    body = _PIECE.pack(*piece[:-1]) + piece.data
    return body + _SUM.pack(crc32(body))


def decode(frame: bytes) -> Beacon | Piece | None:
    """Return what a frame says; None for bytes that are no frame."""
    body = frame[: -_SUM.size]
    if len(frame) < PIECE_BYTES or _SUM.pack(crc32(body)) != frame[-_SUM.size :]:
        return None
    if body[0] in (UPDATE, MODEL):
        piece = Piece._make((*_PIECE.unpack_from(body), body[_PIECE.size :]))
        return piece if piece.number < piece.pieces else None
    if body[0] != BEACON or len(body) < _BEACON.size:
        return None
    _, slot, slot_ns, count = _BEACON.unpack_from(body)
    if len(body) != _BEACON.size + count * _GRANT.size:
        return None
    rows = _GRANT.iter_unpack(body[_BEACON.size :])
    return Beacon(slot, slot_ns, tuple(AheadGrant(slot + first, *rest) for first, *rest in rows))


def split(kind: Literal[2, 3], work: Sequence[int], message: bytes, frame_bytes: int) -> list[bytes]:
    """Return the frames of a message; ``work`` is device, version and training."""
    size = frame_bytes - PIECE_BYTES
    count = pieces_of(len(message), frame_bytes)
    device, version, training = work
    return [
        encode_piece(Piece(kind, device, version, training, n, count, message[n * size : (n + 1) * size]))
        for n in range(count)
    ]


class Reassembly:
    """The pieces of one message; a piece of another message replaces all of them.

    So a sender makes a receiver keep at most ``most`` pieces, whatever it sends.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._message: tuple[int, ...] | None = None
        self._pieces: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._pieces)

    def add(self, piece: Piece) -> bytes | None:
        """Add a piece, in any order; return the message with the last one that was missing."""
        if piece.pieces > self._most:
            return None
        if piece.message != self._message:
            self._message, self._pieces = piece.message, {}
        if piece.number in self._pieces:
            return None
        self._pieces[piece.number] = piece.data
        if len(self._pieces) < piece.pieces:
            return None
        return b"".join(self._pieces[index] for index in range(piece.pieces))
