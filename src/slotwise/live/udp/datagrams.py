"""What is in a datagram; docs/udp.md specifies it. All numbers are unsigned and little-endian.

Every datagram begins with its kind and the number of the device. Parsers return None for anything that is
not exactly of their form, so garbage costs one comparison.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

RANDOM_BYTES: Final = 16
TAG_BYTES: Final = 16  # of ChaCha20-Poly1305
HELLO: Final = 0x51
WELCOME: Final = 0x52
SEALED: Final = 0x53
UNKNOWN: Final = 0x54  # the server has no session with this device
GROUP: Final = 0x55  # sealed for all devices that listen to a multicast group
VERSION: Final = 1
_HEADER = struct.Struct("<BH")
_HELLO = struct.Struct(f"<BHB{RANDOM_BYTES}s")
_WELCOME = struct.Struct(f"<BHBH{RANDOM_BYTES}s{RANDOM_BYTES}s")  # version, bytes of a frame, both randoms
HEADER_BYTES: Final = _HEADER.size
COUNTER_BYTES: Final = 8
SEALED_BYTES: Final = HEADER_BYTES + COUNTER_BYTES + TAG_BYTES  # of a sealed datagram that are not content

# Sealed content: its kind, then what follows here.
PIECE: Final = 1
RECEIVED: Final = 2
PING: Final = 3
PONG: Final = 4
BYE: Final = 5
ASK: Final = 6
BEACON: Final = 7
_PIECE = struct.Struct("<BIIIH")  # kind, message, number, pieces, question
_RECEIVED = struct.Struct("<BIHI")  # kind, message, question, first missing piece; then a bitmap from it on
DIGEST_BYTES: Final = 32  # of SHA-256
# kind, message, pieces, question, message of the group, its digest
_ASK = struct.Struct(f"<BIIHI{DIGEST_BYTES}s")
_BEACON = struct.Struct("<BI")  # kind, nanoseconds since its slot began; then the frame
MOST_BEACON_AGE: Final = (1 << 32) - 1
SIGNATURE_BYTES: Final = 64  # of Ed25519
BEACON_BYTES: Final = SEALED_BYTES + _BEACON.size + SIGNATURE_BYTES  # of a datagram that are not its frame
_GROUP_PIECE = struct.Struct("<BIIIH")  # kind, message of the group, number, pieces, 0
PIECE_BYTES: Final = SEALED_BYTES + _PIECE.size  # of a datagram with a piece that are not the piece
GROUP_PIECE_BYTES: Final = SEALED_BYTES + _GROUP_PIECE.size  # the same: a piece has one length everywhere
WINDOW: Final = 128  # pieces under way
BITMAP_BYTES: Final = WINDOW // 8
SMALLEST_DATAGRAM: Final = 128  # bytes, of which a piece has 86
LARGEST_MESSAGE: Final = 4 << 20  # bytes
LARGEST_DATAGRAM: Final = 1472  # bytes that no Ethernet fragments


class Hello(NamedTuple):
    """A device's first datagram; ``said`` is what its tag proves."""

    device: int
    client_random: bytes
    said: bytes
    tag: bytes


class Welcome(NamedTuple):
    """The server's answer to a hello."""

    device: int
    frame_bytes: int
    client_random: bytes
    server_random: bytes
    said: bytes
    tag: bytes


class Piece(NamedTuple):
    """Piece ``number`` of the ``pieces`` of a message; a ``question`` that is not 0 wants an answer."""

    message: int
    number: int
    pieces: int
    question: int
    data: bytes


class Received(NamedTuple):
    """What a receiver has of a message: all pieces before ``base``, and those of the bitmap from it on."""

    message: int
    question: int
    base: int
    bitmap: int = 0

    def has(self, number: int) -> bool:
        """Return whether a piece has been received."""
        return number < self.base or bool(self.bitmap >> (number - self.base) & 1)


class Ask(NamedTuple):
    """A message went to the group: a question that brings no piece; ``digest`` is its SHA-256."""

    message: int
    pieces: int
    question: int
    group_message: int
    digest: bytes


class GroupPiece(NamedTuple):
    """Piece ``number`` of the ``pieces`` of a message of the group."""

    message: int
    number: int
    pieces: int
    data: bytes


class TimedBeacon(NamedTuple):
    """The frame of a beacon, and the nanoseconds between the beginning of its slot and its datagram."""

    age_ns: int
    frame: bytes


def header(kind: int, device: int) -> bytes:
    """Return the first bytes of a datagram."""
    return _HEADER.pack(kind, device)


def kind_and_device(datagram: bytes) -> tuple[int, int] | None:
    """Return the first two fields; None if they are not there."""
    if len(datagram) < HEADER_BYTES:
        return None
    kind, device = _HEADER.unpack_from(datagram)
    return kind, device


def hello_said(device: int, client_random: bytes) -> bytes:
    """Return what a hello says."""
    return _HELLO.pack(HELLO, device, VERSION, client_random)


def parse_hello(datagram: bytes) -> Hello | None:
    """Return a hello of this version."""
    if len(datagram) != _HELLO.size + TAG_BYTES:
        return None
    kind, device, version, client_random = _HELLO.unpack_from(datagram)
    if (kind, version) != (HELLO, VERSION):
        return None
    return Hello(device, client_random, datagram[: _HELLO.size], datagram[_HELLO.size :])


def welcome_said(device: int, frame_bytes: int, client_random: bytes, server_random: bytes) -> bytes:
    """Return what a welcome says."""
    return _WELCOME.pack(WELCOME, device, VERSION, frame_bytes, client_random, server_random)


def parse_welcome(datagram: bytes) -> Welcome | None:
    """Return a welcome of this version."""
    if len(datagram) != _WELCOME.size + TAG_BYTES:
        return None
    kind, device, version, frame_bytes, client_random, server_random = _WELCOME.unpack_from(datagram)
    usable = SMALLEST_DATAGRAM <= frame_bytes <= LARGEST_DATAGRAM
    if (kind, version) != (WELCOME, VERSION) or not usable:
        return None
    said, tag = datagram[: _WELCOME.size], datagram[_WELCOME.size :]
    return Welcome(device, frame_bytes, client_random, server_random, said, tag)


def encode_piece(piece: Piece) -> bytes:
    """Return the content of a frame with a piece."""
    return _PIECE.pack(PIECE, *piece[:-1]) + piece.data


def encode_received(received: Received) -> bytes:
    """Return the content of a frame that acknowledges pieces."""
    bitmap = received.bitmap.to_bytes(BITMAP_BYTES, "little").rstrip(b"\0")
    return _RECEIVED.pack(RECEIVED, *received[:-1]) + bitmap


def encode_ask(ask: Ask) -> bytes:
    """Return the content of a frame that asks what has come of a message of the group."""
    return _ASK.pack(ASK, *ask)


def encode_group_piece(piece: GroupPiece) -> bytes:
    """Return the content of a datagram of the group with a piece."""
    return _GROUP_PIECE.pack(PIECE, *piece[:-1], 0) + piece.data


def encode_timed_beacon(beacon: TimedBeacon) -> bytes:
    """Return the content of a datagram with a beacon; in a group its signature follows."""
    return _BEACON.pack(BEACON, beacon.age_ns) + beacon.frame


def decode_timed_beacon(content: bytes) -> TimedBeacon | None:
    """Return what `encode_timed_beacon` wrote; None for anything else."""
    if len(content) <= _BEACON.size or content[0] != BEACON:
        return None
    return TimedBeacon(_BEACON.unpack_from(content)[1], content[_BEACON.size :])


def decode_group_content(content: bytes) -> GroupPiece | int | None:
    """Return what a datagram of the group says that has no signature: a piece, or its kind if that is all."""
    if len(content) == 1 and content[0] == PING:
        return PING
    if len(content) < _GROUP_PIECE.size or content[0] != PIECE:
        return None
    _, message, number, pieces, _ = _GROUP_PIECE.unpack_from(content)
    return GroupPiece(message, number, pieces, content[_GROUP_PIECE.size :]) if number < pieces else None


def decode_content(content: bytes) -> Piece | Received | Ask | TimedBeacon | int | None:
    """Return what a sealed frame says; its kind if that is all."""
    if len(content) == 1 and content[0] in (PING, PONG, BYE):
        return content[0]
    if len(content) >= _PIECE.size and content[0] == PIECE:
        piece = Piece._make((*_PIECE.unpack_from(content)[1:], content[_PIECE.size :]))
        return piece if piece.number < piece.pieces else None
    if len(content) == _ASK.size and content[0] == ASK:
        ask = Ask._make(_ASK.unpack(content)[1:])
        return ask if ask.pieces else None
    if _RECEIVED.size <= len(content) <= _RECEIVED.size + BITMAP_BYTES and content[0] == RECEIVED:
        bitmap = int.from_bytes(content[_RECEIVED.size :], "little")
        return Received._make((*_RECEIVED.unpack_from(content)[1:], bitmap))
    return decode_timed_beacon(content)
