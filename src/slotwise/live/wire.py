"""Frames: what a message is on the wire. A label, a few words, and at most one array: float32, or packed.

A frame is a safetensors file: eight bytes of length, a JSON header, raw little-endian numbers. Nothing in it
can be executed, and any program with a safetensors reader can look into it. The label is in the header's
``__metadata__``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from slotwise.aggregation import Vector

LENGTH_BYTES = 8
HEADER_LIMIT = 4 << 20  # a broadcast names its receivers; a million of them is not what this is for
ARRAY, PACKED = "vector", "packed"


class BadFrame(ValueError):
    """Bytes that are no frame; the message says what is wrong, and never in words of the sender's."""


class Label(NamedTuple):
    """What every message carries, so that nothing has to be inferred from when it arrives.

    Attributes:
        run: the identity of the run.
        device: who it is from, or for; 0 is all.
        round: the round it belongs to.
        version: the model it is about.
        training: how many times the device has trained before.
    """

    run: str
    device: int = 0
    round: int = 0
    version: int = 0
    training: int = 0


class Frame(NamedTuple):
    """A message taken apart; what is packed is for the reader to unpack."""

    label: Label
    words: Mapping[str, str]
    vector: Vector | None = None
    packed: bytes | None = None


def encode(label: Label, numbers: Vector | bytes | None = None, /, **words: str) -> bytes:
    """The frame of a message, with numbers as they are or packed."""
    metadata = {name: str(value) for name, value in label._asdict().items()} | words
    header: dict[str, Any] = {"__metadata__": metadata}
    body = b""
    if isinstance(numbers, bytes):
        body = numbers
        header[PACKED] = {"dtype": "U8", "shape": [len(body)], "data_offsets": [0, len(body)]}
    elif numbers is not None:
        body = np.ascontiguousarray(numbers, dtype="<f4").tobytes()
        header[ARRAY] = {"dtype": "F32", "shape": [len(numbers)], "data_offsets": [0, len(body)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)  # numbers begin at a multiple of eight
    return len(text).to_bytes(LENGTH_BYTES, "little") + text + body


def digest(vector: Vector) -> str:
    """A short name for the numbers of a vector: enough to tell two models of one run apart."""
    return f"{crc32(np.ascontiguousarray(vector, dtype='<f4').tobytes()):08x}"


def decode(payload: bytes) -> Frame:
    """The message in a frame. Numbers are as they came: whether they are finite is for the reader to ask.

    Raises:
        BadFrame: anything else than what `encode` writes.
    """
    header, body = _split(payload)
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise BadFrame("no label")
    label = _label(metadata)
    if not header and not body:
        return Frame(label, metadata)
    if set(header) == {PACKED}:
        _check(header[PACKED], "U8", 1, body)
        return Frame(label, metadata, packed=body)
    if set(header) != {ARRAY}:
        raise BadFrame("another array than the one expected")
    _check(header[ARRAY], "F32", 4, body)
    return Frame(label, metadata, np.frombuffer(body, dtype="<f4").astype(np.float32))


def _split(payload: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(payload[:LENGTH_BYTES], "little")
    if len(payload) < LENGTH_BYTES or length > min(HEADER_LIMIT, len(payload) - LENGTH_BYTES):
        raise BadFrame("no header")
    end = LENGTH_BYTES + length
    try:
        header = json.loads(payload[LENGTH_BYTES:end])
    except (ValueError, RecursionError):
        raise BadFrame("a header that is not JSON") from None
    if not isinstance(header, dict):
        raise BadFrame("a header that is no table")
    return header, payload[end:]


def _label(metadata: dict[str, str]) -> Label:
    """Take the label out of the words."""
    try:
        run = metadata.pop("run")
        numbers = {name: int(metadata.pop(name)) for name in Label._fields[1:]}
    except (KeyError, ValueError):
        raise BadFrame("an incomplete label") from None
    if min(numbers.values()) < 0:
        raise BadFrame("a label with a negative number")
    return Label(run, **numbers)


def _check(entry: object, dtype: str, width: int, body: bytes) -> None:
    """Whether the header's entry describes these bytes."""
    if not isinstance(entry, dict):
        raise BadFrame("another array than the one expected")
    if entry.get("dtype") != dtype:
        raise BadFrame(f"numbers that are not {dtype}")
    shape = entry.get("shape")
    if not (isinstance(shape, list) and len(shape) == 1 and type(shape[0]) is int):
        raise BadFrame("an array that is no vector")
    if len(body) != width * shape[0] or entry.get("data_offsets") != [0, len(body)]:
        raise BadFrame("more or fewer bytes than the header promises")
