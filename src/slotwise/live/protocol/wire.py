"""The wire format: a label, some text fields and at most one array, float32 or packed.

A frame is a safetensors file: eight bytes of length, a JSON header, raw little-endian numbers. Nothing in it
can be executed, and any safetensors reader can open it. Label and fields are in its ``__metadata__``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from slotwise.aggregation import Vector

LENGTH_BYTES = 8
HEADER_LIMIT = 4 << 20  # bytes; a broadcast names its receivers
ARRAY, PACKED = "vector", "packed"


class BadFrame(ValueError):
    """Bytes that are not a frame. The message never quotes the sender."""


class Label(NamedTuple):
    """The part that every message has, so that nothing is inferred from its time of arrival."""

    run: str
    device: int = 0  # sender or receiver; 0 for all devices
    round: int = 0
    version: int = 0  # of the model
    training: int = 0  # updates that the device has delivered before


class Work(NamedTuple):
    """Training number ``training`` of a device, on model ``version``."""

    version: int
    training: int

    def __str__(self) -> str:
        return f"{self.version}:{self.training}"


class Frame(NamedTuple):
    """A decoded message; a packed array is left to the reader to unpack."""

    label: Label
    fields: Mapping[str, str]
    vector: Vector | None = None
    packed: bytes | None = None

    @property
    def work(self) -> Work:
        """The work that the label names."""
        return Work(self.label.version, self.label.training)


def encode(label: Label, numbers: Vector | bytes | None = None, /, **fields: str) -> bytes:
    """Return the frame of a message; ``numbers`` as bytes are packed already."""
    metadata = {name: str(value) for name, value in label._asdict().items()} | fields
    header: dict[str, Any] = {"__metadata__": metadata}
    body = b""
    if isinstance(numbers, bytes):
        body = numbers
        header[PACKED] = {"dtype": "U8", "shape": [len(body)], "data_offsets": [0, len(body)]}
    elif numbers is not None:
        body = np.ascontiguousarray(numbers, dtype="<f4").tobytes()
        header[ARRAY] = {"dtype": "F32", "shape": [len(numbers)], "data_offsets": [0, len(body)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)  # so that the numbers are aligned
    return len(text).to_bytes(LENGTH_BYTES, "little") + text + body


def digest(vector: Vector) -> str:
    """Return a checksum that tells two models of one run apart."""
    return f"{crc32(np.ascontiguousarray(vector, dtype='<f4').tobytes()):08x}"


def decode(payload: bytes) -> Frame:
    """Return the message in a frame; its numbers may be infinite or NaN.

    Raises:
        BadFrame: the bytes are not what `encode` writes.
    """
    header, body = _split(payload)
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise BadFrame("no label")
    label = _pop_label(metadata)
    if not header and not body:
        return Frame(label, metadata)
    if set(header) == {PACKED}:
        _check_array(header[PACKED], "U8", 1, body)
        return Frame(label, metadata, packed=body)
    if set(header) != {ARRAY}:
        raise BadFrame("unexpected array")
    _check_array(header[ARRAY], "F32", 4, body)
    return Frame(label, metadata, np.frombuffer(body, dtype="<f4").astype(np.float32))


def _split(payload: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(payload[:LENGTH_BYTES], "little")
    if len(payload) < LENGTH_BYTES or length > min(HEADER_LIMIT, len(payload) - LENGTH_BYTES):
        raise BadFrame("no header")
    end = LENGTH_BYTES + length
    try:
        header = json.loads(payload[LENGTH_BYTES:end])
    except (ValueError, RecursionError):
        raise BadFrame("header is not JSON") from None
    if not isinstance(header, dict):
        raise BadFrame("header is not a table")
    return header, payload[end:]


def _pop_label(metadata: dict[str, str]) -> Label:
    try:
        run = metadata.pop("run")
        numbers = {name: int(metadata.pop(name)) for name in Label._fields[1:]}
    except (KeyError, ValueError):
        raise BadFrame("incomplete label") from None
    if min(numbers.values()) < 0:
        raise BadFrame("negative number in the label")
    return Label(run, **numbers)


def _check_array(entry: object, dtype: str, width: int, body: bytes) -> None:
    """Raise BadFrame unless the header's entry describes these bytes."""
    if not isinstance(entry, dict):
        raise BadFrame("unexpected array")
    if entry.get("dtype") != dtype:
        raise BadFrame(f"numbers are not {dtype}")
    shape = entry.get("shape")
    if not (isinstance(shape, list) and len(shape) == 1 and type(shape[0]) is int):
        raise BadFrame("array is not a vector")
    if len(body) != width * shape[0] or entry.get("data_offsets") != [0, len(body)]:
        raise BadFrame("wrong number of bytes")
