"""Session: messages in order between two peers, in sealed frames that may be lost, doubled or reordered.

There is no clock and no socket here: datagrams go in, datagrams come out, and the caller says what time it
is. One message is under way at a time, in pieces that fill a frame each. The last of the pieces that are sent
at once asks what has come; the answer is a bitmap, and what is missing is sent again. If no answer comes, one
piece is repeated after a time that doubles. A message that went to a multicast group begins with a question
instead of its pieces: only what has not come by the group is sent.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import NamedTuple

from slotwise.live.udp.datagrams import (
    BYE,
    HEADER_BYTES,
    LARGEST_MESSAGE,
    PIECE_BYTES,
    PING,
    PONG,
    SEALED,
    WINDOW,
    Ask,
    Piece,
    Received,
    TimedBeacon,
    decode_content,
    encode_ask,
    encode_piece,
    encode_received,
    header,
)
from slotwise.live.udp.group import GroupCopy, GroupReceiver
from slotwise.live.udp.sealing import Opener, Sealer

MOST_QUESTIONS = (1 << 16) - 1  # numbers of questions begin again at 1 afterwards
FIRST_PAUSE, SHORTEST_PAUSE, LONGEST_PAUSE = 0.25, 0.02, 1.0  # seconds without an answer before a repetition


class Taken(NamedTuple):
    """What follows from a datagram: messages that are complete, and datagrams to send.

    ``begun`` is when the first datagram of the message came.
    """

    messages: list[bytes]
    datagrams: list[bytes]
    begun: float = 0.0
    beacon: TimedBeacon | None = None


class Session:
    """One end of a session.

    Attributes:
        heard: When the last frame of the peer came.
        spoken: When the last frame was sent.
        over: Whether the peer has said that it leaves.
        acknowledged: Messages that the peer has acknowledged.
        queued: Bytes of messages that are not acknowledged yet.
        group: The group that this end listens to, if it does.
        arriving: When the message began that is coming in; None if none is.
    """

    def __init__(self, device: int, sealer: Sealer, opener: Opener, frame_bytes: int, now: float) -> None:
        self._header, self._sealer, self._opener = header(SEALED, device), sealer, opener
        piece_bytes = frame_bytes - PIECE_BYTES
        self._incoming, self._piece_bytes = _Incoming(piece_bytes), piece_bytes
        self._queue: deque[tuple[bytes, GroupCopy | None]] = deque()
        self.group: GroupReceiver | None = None
        self.arriving: float | None = None
        self._outgoing: _Outgoing | None = None
        self._question, self._asked = 0, now
        self._pause, self._round_trip = FIRST_PAUSE, 0.0
        self.heard = self.spoken = now
        self.over, self.acknowledged, self.queued = False, 0, 0

    @property
    def replayed(self) -> int:
        """Frames that came again."""
        return self._opener.replayed

    @property
    def forged(self) -> bool:
        """Whether what came by the group was not sent by the peer."""
        return self._incoming.forged

    def post(self, message: bytes, copy: GroupCopy | None = None) -> int:
        """Add a message to those that wait; return how many have been acknowledged once it is.

        With a ``copy`` it waits until that has gone to the group.
        """
        self._queue.append((message, copy))
        self.queued += len(message)
        return self.acknowledged + len(self._queue) + (self._outgoing is not None)

    def bye(self, now: float) -> bytes:
        """Return the datagram that ends the session."""
        return self._seal(bytes([BYE]), now)

    def beacon(self, content: bytes, now: float) -> bytes:
        """Return the datagram of a beacon, which is not repeated: the next one says more."""
        return self._seal(content, now)

    def ping(self, now: float) -> bytes:
        """Return a datagram that the peer answers."""
        return self._seal(bytes([PING]), now)

    @property
    def next_due(self) -> float | None:
        """When `due` has something to send; None if nothing waits."""
        if self._outgoing is None:
            return 0.0 if self._can_begin else None
        return self._asked + self._pause

    @property
    def _can_begin(self) -> bool:
        """Whether the next message may begin: not before it has gone to the group."""
        return bool(self._queue) and (self._queue[0][1] is None or self._queue[0][1].sent)

    def due(self, now: float) -> list[bytes]:
        """Return the datagrams to send now: those of the next message, or one that is repeated."""
        one = self._outgoing
        if one is None:
            if not self._can_begin:
                return []
            one = self._outgoing = _Outgoing(self.acknowledged, *self._queue.popleft(), self._piece_bytes)
            if one.copy is not None:
                return self._ask(one, one.copy, now)
            return self._send(one, one.missing(Received(one.number, 0, 0)), now)
        if now < self._asked + self._pause:
            return []
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return self._send(one, [one.base], now) if one.copy is None else self._ask(one, one.copy, now)

    def take(self, datagram: bytes, now: float) -> Taken | None:
        """Take a datagram; None if it is not one of the peer's, or came before."""
        content = self._opener.open(datagram, HEADER_BYTES)
        if content is None:
            return None
        self.heard = now
        said = decode_content(content)
        if isinstance(said, TimedBeacon):
            return Taken([], [], beacon=said)
        if isinstance(said, Piece | Ask):
            begun = self.arriving = now if self.arriving is None else self.arriving
            coming = self._incoming
            message, received = coming.add(said, self.group)
            if not coming.is_under_way:
                self.arriving = None
            answers = [] if received is None else [self._seal(encode_received(received), now)]
            return Taken([] if message is None else [message], answers, begun)
        if isinstance(said, Received):
            return Taken([], self._take_answer(said, now))
        if said == PING:
            return Taken([], [self._seal(bytes([PONG]), now)])
        self.over = self.over or said == BYE
        return Taken([], [])

    def _take_answer(self, received: Received, now: float) -> list[bytes]:
        one = self._outgoing
        if one is None or received.message != one.number:
            return []
        one.copy = None  # from now on the pieces that are missing are sent
        wanted = one.missing(received)
        latest = received.question == self._question
        if latest:
            measured = now - self._asked
            self._round_trip += (measured - self._round_trip) / (8 if self._round_trip else 1)
            self._pause = min(max(2 * self._round_trip, SHORTEST_PAUSE), LONGEST_PAUSE)
        if one.base < one.pieces:
            # An earlier question was answered late: the answer to the latest one will come, too.
            return self._send(one, wanted, now) if latest else []
        self.queued -= one.length
        self._outgoing, self.acknowledged = None, self.acknowledged + 1
        return self.due(now)

    def _ask(self, one: _Outgoing, copy: GroupCopy, now: float) -> list[bytes]:
        """Return the datagram that asks what has come of a message by the group."""
        self._question, self._asked = self._question % MOST_QUESTIONS + 1, now
        ask = Ask(one.number, one.pieces, self._question, copy.number, copy.digest)
        return [self._seal(encode_ask(ask), now)]

    def _send(self, one: _Outgoing, numbers: list[int], now: float) -> list[bytes]:
        """Return the datagrams of some pieces, of which the last one asks for an answer."""
        self._question, self._asked = self._question % MOST_QUESTIONS + 1, now
        asking = [0] * (len(numbers) - 1) + [self._question]
        pieces = (one.piece(number, question) for number, question in zip(numbers, asking, strict=True))
        return [self._seal(encode_piece(piece), now) for piece in pieces]

    def _seal(self, content: bytes, now: float) -> bytes:
        self.spoken = now
        return self._sealer.seal(self._header, content)


class _Outgoing:
    """The message under way; pieces before ``base`` are acknowledged."""

    def __init__(self, number: int, message: bytes, copy: GroupCopy | None, piece_bytes: int) -> None:
        self.number, self._message, self.copy, self._size = number, message, copy, piece_bytes
        self.length = len(message)
        self.pieces = max(1, -(-self.length // piece_bytes))
        self.base = 0

    def piece(self, number: int, question: int) -> Piece:
        data = self._message[number * self._size : (number + 1) * self._size]
        return Piece(self.number, number, self.pieces, question, data)

    def missing(self, received: Received) -> list[int]:
        """Take an acknowledgement; return the pieces to send now: those that are lost, and the next ones."""
        self.base = max(self.base, min(received.base, self.pieces))
        end = min(self.base + WINDOW, self.pieces)
        return [number for number in range(self.base, end) if not received.has(number)]


class _Incoming:
    """The message that is coming in: at most `LARGEST_MESSAGE` bytes, whatever the peer sends."""

    def __init__(self, piece_bytes: int) -> None:
        self._piece_bytes, self._most = piece_bytes, -(-LARGEST_MESSAGE // piece_bytes)
        self._number = 0
        self._total, self._base = 0, 0
        self._pieces: dict[int, bytes] = {}
        self._digest = b""  # of a message of which pieces may have come by the group
        self.forged = False

    @property
    def is_under_way(self) -> bool:
        """Whether a message has begun to come in."""
        return self._total > 0

    def add(self, said: Piece | Ask, group: GroupReceiver | None) -> tuple[bytes | None, Received | None]:
        """Add a piece, or what has come by the group; return a complete message, and what to answer."""
        if not self._is_next(said) or (isinstance(said, Piece) and len(said.data) > self._piece_bytes):
            return None, self._answer_again(said)
        self._total = said.pieces
        if isinstance(said, Piece):
            if self._base <= said.number < self._base + WINDOW:
                self._pieces.setdefault(said.number, said.data)
        elif group is not None:
            self._pieces = group.take(said.group_message, said.pieces) | self._pieces
            self._digest = said.digest
        return self._advance(said)

    def _is_next(self, said: Piece | Ask) -> bool:
        """Return whether this is about the message that is coming in."""
        total = self._total or said.pieces
        return said.message == self._number and said.pieces == total <= self._most

    def _answer_again(self, said: Piece | Ask) -> Received | None:
        """Return the answer about a message that is complete: it was lost."""
        return self._answer(said, said.pieces) if said.message < self._number else None

    def _advance(self, said: Piece | Ask) -> tuple[bytes | None, Received | None]:
        total = self._total
        while self._base in self._pieces:
            self._base += 1
        if self._base < total:
            return None, self._answer(said, self._base)
        message = b"".join(self._pieces[number] for number in range(total))
        if self._digest and hashlib.sha256(message).digest() != self._digest:
            self.forged = True
            return None, None
        self._number, self._total, self._base, self._pieces = self._number + 1, 0, 0, {}
        self._digest = b""
        # Always, also unasked: the sender has nothing more to send of this message.
        return message, Received(said.message, said.question, total)

    def _answer(self, said: Piece | Ask, base: int) -> Received | None:
        if not said.question:
            return None
        ahead = (n - base for n in range(base, base + WINDOW) if n in self._pieces)
        bitmap = sum(1 << n for n in ahead) if said.message == self._number else 0
        return Received(said.message, said.question, base, bitmap)
