"""A multicast group: datagrams that a server sends once for all its devices.

All devices of a server share the key of the group, so nobody else can read or write what is in it. A device
could write, too. So nothing in a group is believed because of this key: a message counts when the server says
its digest in the device's own session, and a beacon has the server's signature.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from collections import deque
from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Final, NamedTuple

from slotwise.live.transport.udp_login import MulticastGroup
from slotwise.live.udp.datagrams import (
    COUNTER_BYTES,
    GROUP,
    GROUP_PIECE_BYTES,
    HEADER_BYTES,
    LARGEST_MESSAGE,
    PING,
    SIGNATURE_BYTES,
    GroupPiece,
    TimedBeacon,
    decode_group_content,
    decode_timed_beacon,
    encode_group_piece,
    header,
    kind_and_device,
)
from slotwise.live.udp.sealing import KEY_BYTES, Opener, Sealer, Signer, is_signed

# Key of the group, public key of the server, address and port of the group.
_OFFER = struct.Struct(f"<{KEY_BYTES}s{KEY_BYTES}s4sH")
EVERYBODY: Final = 0  # in place of the device in a header
MOST_KEPT = 2 * LARGEST_MESSAGE  # bytes of pieces that no session has asked for
OBJECT_BYTES = 200  # of a piece in memory beside its data, about
BURST, PAUSE = 64, 0.005  # datagrams at once, and seconds until the next: buffers of receivers are short


class Offer(NamedTuple):
    """What a device is told about a group, in its own session."""

    key: bytes
    public: bytes  # key of the server's signatures
    group: MulticastGroup

    def encode(self) -> bytes:
        """Return the payload of the message."""
        return _OFFER.pack(self.key, self.public, IPv4Address(self.group.address).packed, self.group.port)

    @classmethod
    def decode(cls, payload: bytes) -> Offer | None:
        """Return what `encode` wrote; None for anything else."""
        if len(payload) != _OFFER.size:
            return None
        key, public, address, port = _OFFER.unpack(payload)
        return cls(key, public, MulticastGroup(str(IPv4Address(address)), port))


class GroupCopy:
    """A message that goes to the group; ``sent`` once all of its pieces have gone."""

    def __init__(self, number: int, message: bytes) -> None:
        self.number, self.digest, self.sent = number, hashlib.sha256(message).digest(), False


class GroupSender:
    """The server's end: pieces of messages, a few at a time, and beacons at once."""

    def __init__(self, group: MulticastGroup, frame_bytes: int, send: Callable[[bytes], None]) -> None:
        self._signer = Signer()
        self.offer = Offer(secrets.token_bytes(KEY_BYTES), self._signer.public, group)
        self._sealer, self._send_datagram = Sealer(self.offer.key), send
        self.piece_bytes = frame_bytes - GROUP_PIECE_BYTES
        self._waiting: deque[tuple[GroupPiece, GroupCopy]] = deque()
        self._gone: list[GroupCopy] = []  # in the last burst: questions must not overtake it
        self._messages, self._next = 0, 0.0
        self.bytes_sent = 0

    def post(self, message: bytes) -> GroupCopy:
        """Add a message to those that are sent."""
        copy, size = GroupCopy(self._messages, message), self.piece_bytes
        pieces = -(-len(message) // size)
        for number in range(pieces):
            data = message[number * size : (number + 1) * size]
            self._waiting.append((GroupPiece(copy.number, number, pieces, data), copy))
        self._messages += 1
        return copy

    def due(self, now: float) -> bool:
        """Send the next pieces if it is time to; return whether a message has gone to the end."""
        if now < self._next:
            return False
        gone, self._gone = self._gone, []
        for copy in gone:
            copy.sent = True
        for _ in range(min(BURST, len(self._waiting))):
            piece, copy = self._waiting.popleft()
            self._send(encode_group_piece(piece))
            self._next = now + PAUSE
            if piece.number + 1 == piece.pieces:
                self._gone.append(copy)
        return bool(gone)

    @property
    def next_due(self) -> float | None:
        """When there is something to send, or to note as sent; None if not."""
        return self._next if self._waiting or self._gone else None

    def ping(self) -> None:
        """Send a datagram by which devices notice that they hear the group."""
        self._send(bytes([PING]))

    def beacon(self, content: bytes) -> None:
        """Send a beacon, with a signature: a device would follow a false one."""
        said = self._sealer.before_content(header(GROUP, EVERYBODY)) + content
        self._send(content + self._signer.sign(said))

    def _send(self, content: bytes) -> None:
        datagram = self._sealer.seal(header(GROUP, EVERYBODY), content)
        self.bytes_sent += len(datagram)
        self._send_datagram(datagram)


class GroupReceiver:
    """A device's end: pieces of the last messages, until its session asks for them."""

    def __init__(self, offer: Offer) -> None:
        self.offer, self._opener = offer, Opener(offer.key)
        self._messages: dict[int, dict[int, GroupPiece]] = {}
        self._bytes = 0

    def receive(self, datagram: bytes) -> GroupPiece | TimedBeacon | int | None:
        """Take a datagram from anybody; return what it says if it is one of the group."""
        if kind_and_device(datagram) != (GROUP, EVERYBODY):
            return None
        content = self._opener.open(datagram, HEADER_BYTES)
        if content is None:
            return None
        said, signature = content[:-SIGNATURE_BYTES], content[-SIGNATURE_BYTES:]
        beacon = decode_timed_beacon(said)
        if beacon is not None:
            prefix = datagram[: HEADER_BYTES + COUNTER_BYTES]
            return beacon if is_signed(self.offer.public, prefix + said, signature) else None
        piece = decode_group_content(content)
        if isinstance(piece, GroupPiece):
            self._keep(piece)
        return piece

    def take(self, message: int, pieces: int) -> dict[int, bytes]:
        """Return the pieces of a message that have come, and forget them."""
        kept = self._messages.pop(message, {})
        self._bytes -= sum(len(piece.data) + OBJECT_BYTES for piece in kept.values())
        return {number: piece.data for number, piece in kept.items() if piece.pieces == pieces}

    def _keep(self, piece: GroupPiece) -> None:
        """Keep a piece; those of the first messages give way to it."""
        kept = self._messages.setdefault(piece.message, {})
        if piece.number not in kept:
            kept[piece.number] = piece
            self._bytes += len(piece.data) + OBJECT_BYTES
        while self._bytes > MOST_KEPT:
            self.take(next(iter(self._messages)), 0)
