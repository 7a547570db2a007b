"""Messages in a session: publications, the first one of a device, and two about a group."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

_HEAD = struct.Struct("<BHH")  # kind, seconds, bytes of the topic


class Kind(IntEnum):
    """What a message is."""

    PUBLISH = 0
    RETAINED = 1
    CONNECT = 2  # topic and payload are those of the last will
    GROUP = 3  # the server's offer of a multicast group
    HEARS = 4  # a device has heard the group


class Publication(NamedTuple):
    """A message; ``seconds``: the keepalive of a device that connects, 0 otherwise."""

    kind: Kind
    topic: str
    payload: bytes
    seconds: int = 0


def encode_publication(one: Publication) -> bytes:
    """Return the bytes of a message."""
    topic = one.topic.encode()
    return _HEAD.pack(one.kind, one.seconds, len(topic)) + topic + one.payload


def decode_publication(message: bytes) -> Publication | None:
    """Return the message in these bytes; None if they are none."""
    if len(message) < _HEAD.size:
        return None
    kind, seconds, length = _HEAD.unpack_from(message)
    topic, payload = message[_HEAD.size : _HEAD.size + length], message[_HEAD.size + length :]
    if kind > max(Kind) or len(topic) < length or not topic.isascii():
        return None
    return Publication(Kind(kind), topic.decode(), payload, seconds)
