"""Messages between server and devices: their topics, the wire format, and versions of the protocol.

A broker's access rules follow from the topics alone. Device n publishes below ``from/n/`` and nowhere else;
it reads ``to/n/`` and the messages below ``all/`` that are for it. The server publishes below ``to/`` and
``all/``, and reads ``from/`` and ``all/call``, where another server may announce a run.

A broadcast is one publish whose topic names its receivers, each in its seat: ``all/model/-/2/-/4`` is for
devices 2 and 4. Device 4 subscribes once to every topic with a 4 in the fourth seat, so that the broker sends
a model to its receivers only. From the 101st on, devices share seats.

A message is a label, some text fields and at most one array, float32 or packed. Its frame is a safetensors
file: eight bytes of length, a JSON header, raw little-endian numbers. Nothing in it can be executed, and any
safetensors reader can open it. Label and fields are in its ``__metadata__``.

A server sends its versions of the protocol in the announcement of a run, a device in ``here``. These two
messages and ``incompatible`` keep their form in every version, so peers of any two versions can read them. A
peer that sends no versions speaks protocol 1, which had none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from zlib import crc32

import numpy as np

from slotwise.base.errors import InputError
from slotwise.base.extras import installed_version

if TYPE_CHECKING:
    from slotwise.aggregation import Vector

FromDevice = Literal["here", "gone", "ready", "update", "status"]
ToDevice = Literal["call", "work", "grant", "rest", "out", "incompatible"]
ToAll = Literal["call", "model", "end"]

ROOT = "slotwise"
DEFAULT_NAME = "trial"  # of the channel
SEATS = 100  # mosquitto accepts topics of 200 levels, EMQX of 128
EMPTY = "-"
TRAINED = ("dataset", "model", "training", "seed")  # parts of a run that decide what a device trains
MAX_DEVICES = 10_000  # their numbers fit into a broadcast, and each has a connection

LENGTH_BYTES = 8
HEADER_LIMIT = 4 << 20  # bytes; a broadcast names its receivers
ARRAY, PACKED = "vector", "packed"
PROTOCOL = 3  # that this build speaks
OLDEST = 1  # that this build understands
FIRST_WITH_VERSIONS = FIRST_WITH_PARTS = 2
FIRST_WITH_SLOTS = 3  # grants ahead of time
UNREADABLE = 0  # in place of a version that is no number
_NUMBER = re.compile("[0-9]{1,6}")
BUILD = re.compile("[0-9A-Za-z.+_-]{1,32}")  # from the network, and written to logs


@dataclass(frozen=True)
class Topics:
    """The topics of one channel; several runs may share a broker under different names."""

    name: str

    def __post_init__(self) -> None:
        if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", self.name):
            raise InputError("name", self.name, "at most 64 letters, digits, dots, dashes and underscores")

    @property
    def root(self) -> str:
        """The common prefix of all topics."""
        return f"{ROOT}/{self.name}"

    def client_id(self, client: str) -> str:
        """Return an MQTT client identifier; the broker keeps one connection for each."""
        return f"{self.root.replace('/', '-')}-{client}"

    def from_device(self, device: int | str, kind: FromDevice | Literal["+"]) -> str:
        """Return the topic on which a device publishes messages of a kind."""
        return f"{self.root}/from/{device}/{kind}"

    def to_device(self, device: int | Literal["+"], kind: ToDevice | Literal["+"]) -> str:
        """Return the topic of the server's messages for one device."""
        return f"{self.root}/to/{device}/{kind}"

    def to_all(self, kind: ToAll | Literal["#"]) -> str:
        """Return the topic of the server's messages for all devices."""
        return f"{self.root}/all/{kind}"

    def to_receivers(self, receivers: Iterable[int]) -> list[str]:
        """Return the topics of a broadcast: one, or more if receivers share a seat.

        Without receivers, only clients that subscribe to everything receive it.
        """
        rows: list[dict[int, str]] = [{}]
        # A topic has one level for each seat, so devices that share a seat are named in different topics.
        for device in receivers:
            seat = (device - 1) % SEATS
            row = next((row for row in rows if seat not in row), None)
            if row is None:
                rows.append(row := {})
            row[seat] = str(device)
        # Levels after the last receiver are left out: the # of a subscription also matches no further level.
        levels = ([row.get(seat, EMPTY) for seat in range(max(row, default=-1) + 1)] for row in rows)
        return ["/".join([self.to_all("model"), *taken]) for taken in levels]

    def as_receiver(self, device: int) -> str:
        """Return the subscription with which a device receives the broadcasts that are for it."""
        return f"{self.to_all('model')}{'/+' * ((device - 1) % SEATS)}/{device}/#"

    def sender(self, topic: str) -> tuple[int, str] | None:
        """Return the device and the kind of a device's message; None for any other topic."""
        # Only one spelling counts: from/07 is another topic than from/7, with other access rights.
        parts = topic.removeprefix(f"{self.root}/from/").split("/")
        if len(parts) != 2 or not re.fullmatch("[1-9][0-9]{0,9}", parts[0]):
            return None
        return int(parts[0]), parts[1]

    def kind(self, topic: str) -> str:
        """Return the kind of a server's message."""
        # In all/model/-/2 the kind comes first, before the receivers; in to/2/grant it comes last.
        branch, *rest = topic.removeprefix(f"{self.root}/").split("/")
        return rest[0 if branch == "all" else -1] if rest else ""


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
    # Must equal `parts.checksum`: a device compares the digest of its model with that of a part.
    return f"{crc32(np.ascontiguousarray(vector, dtype='<f4').tobytes()):08x}"


def decode(payload: bytes) -> Frame:
    """Return the message in a frame; its numbers may be infinite or NaN.

    Raises:
        BadFrame: the bytes are not what `encode` writes.
    """
    length = int.from_bytes(payload[:LENGTH_BYTES], "little")
    # The length is a claim of the sender: it is checked before anything of that size is read.
    if len(payload) < LENGTH_BYTES or length > min(HEADER_LIMIT, len(payload) - LENGTH_BYTES):
        raise BadFrame("no header")
    body = memoryview(payload)[LENGTH_BYTES + length :]  # not copied: it may be long
    try:
        header = json.loads(payload[LENGTH_BYTES : LENGTH_BYTES + length])
    except (ValueError, RecursionError):
        # Deeply nested JSON ends in a RecursionError.
        raise BadFrame("header is not JSON") from None
    if not isinstance(header, dict):
        raise BadFrame("header is not a table")
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise BadFrame("no label")
    try:
        run = metadata.pop("run")
        numbers = {name: int(metadata.pop(name)) for name in Label._fields[1:]}
    except (KeyError, ValueError):
        raise BadFrame("incomplete label") from None
    if min(numbers.values()) < 0:
        raise BadFrame("negative number in the label")
    label = Label(run, **numbers)
    if not header and not body:
        return Frame(label, metadata)
    if set(header) == {PACKED}:
        _check_array(header[PACKED], "U8", 1, body)
        return Frame(label, metadata, packed=bytes(body))
    if set(header) != {ARRAY}:
        raise BadFrame("unexpected array")
    _check_array(header[ARRAY], "F32", 4, body)
    # astype copies: the result of frombuffer is read-only and would keep the whole payload in memory.
    return Frame(label, metadata, np.frombuffer(body, dtype="<f4").astype(np.float32))


def _check_array(entry: object, dtype: str, width: int, body: memoryview) -> None:
    """Raise BadFrame unless the header's entry describes these bytes."""
    if not isinstance(entry, dict):
        raise BadFrame("unexpected array")
    if entry.get("dtype") != dtype:
        raise BadFrame(f"numbers are not {dtype}")
    shape = entry.get("shape")
    # Not isinstance for the length: True would pass as 1.
    if not (isinstance(shape, list) and len(shape) == 1 and type(shape[0]) is int):
        raise BadFrame("array is not a vector")
    if len(body) != width * shape[0] or entry.get("data_offsets") != [0, len(body)]:
        raise BadFrame("wrong number of bytes")


class Versions(NamedTuple):
    """Protocol versions that a peer speaks, and the version of its slotwise or other program."""

    protocol: int
    oldest: int
    build: str

    @classmethod
    def in_fields(cls, fields: Mapping[str, str]) -> Versions:
        """Return the versions in a message."""
        if "protocol" not in fields:
            return cls(1, 1, "")
        protocol = _number(fields["protocol"])
        build = fields.get("slotwise", "")
        oldest = _number(fields.get("oldest", fields["protocol"]))
        return cls(protocol, oldest, build if BUILD.fullmatch(build) else "")

    def fields(self) -> dict[str, str]:
        """Return the fields of a message that say these versions."""
        return {"protocol": str(self.protocol), "oldest": str(self.oldest), "slotwise": self.build}

    def understands(self, other: Versions) -> bool:
        """Return whether there is a protocol version that both peers speak."""
        readable = UNREADABLE not in (other.protocol, other.oldest)
        return readable and self.oldest <= other.protocol and other.oldest <= self.protocol

    def __str__(self) -> str:
        span = f"{self.oldest} to {self.protocol}" if self.oldest < self.protocol else str(self.protocol)
        known = "unreadable" if UNREADABLE in (self.protocol, self.oldest) else span
        return f"protocol {known}" + (f" (slotwise {self.build})" if self.build else "")


def own_versions() -> Versions:
    """Return the versions of this build."""
    return Versions(PROTOCOL, OLDEST, installed_version())


def versions_of_run(*, in_slots: bool) -> Versions:
    """Return the versions of this build that can take part in a run; ``in_slots``: with grants ahead."""
    ours = own_versions()
    return ours._replace(oldest=FIRST_WITH_SLOTS) if in_slots else ours


def _number(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else UNREADABLE
