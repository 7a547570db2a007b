"""Enrolment: who is let in, as a value. What the broker reads follows from it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from slotwise.errors import InputError
from slotwise.live.topics import MOST_DEVICES, TRIAL, Topics
from slotwise.scenario import whole

if TYPE_CHECKING:
    from slotwise.live.enroll.authority import Host

FORMAT = 1
LARGEST = 60_000_000  # numbers; MQTT ends at 256 MiB
_LABEL = "[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"


@dataclass(frozen=True)
class Enrolment:
    """One broker, one server, and devices.

    Attributes:
        hosts: names and addresses under which the broker is reached; clients use the first.
        port: of the broker.
        name: of the channel.
        by_certificate: whether clients prove themselves by a certificate instead of a password.
        largest_model: numbers of the largest model that passes.
        days: for how long certificates are valid.
        server: what is kept of the server's proof: the hash of a password, or a certificate's serial number.
        devices: the same for each device.
        revoked: serial numbers of certificates that count no more.
    """

    hosts: Sequence[str]
    port: int = 8883
    name: str = TRIAL
    by_certificate: bool = False
    largest_model: int = 1_000_000
    days: int = 3650
    server: str = ""
    devices: Mapping[int, str] = field(default_factory=dict)
    revoked: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.hosts:
            raise InputError("host", "missing", "the broker's name or address, as devices reach it")
        for text in self.hosts:
            host_of(text)
        Topics(self.name)
        for name, value, most in (
            ("port", self.port, 65_535),
            ("largest_model", self.largest_model, LARGEST),
            ("days", self.days, 36_500),
        ):
            if whole(name, value) > most:
                raise InputError(name, value, f"at most {most}")
        if self.by_certificate:
            for serial in (*self.devices.values(), *self.revoked):
                int(serial, 16)

    @property
    def topics(self) -> Topics:
        """Of the channel."""
        return Topics(self.name)

    @property
    def address(self) -> str:
        """Where clients find the broker."""
        host = self.hosts[0]
        return f"mqtts://{f'[{host}]' if ':' in host else host}:{self.port}"

    def free_numbers(self, count: int) -> list[int]:
        """The next ``count`` devices; a number that was revoked is given out again, for a run has no gaps."""
        total = len(self.devices) + count
        if total > MOST_DEVICES:
            raise InputError("devices", total, f"at most {MOST_DEVICES}")
        return [n for n in range(1, total + 1) if n not in self.devices][:count]

    def to_json(self) -> str:
        """As it is kept."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=2) + "\n"


def enrolment_of(text: str) -> Enrolment:
    """The enrolment that `Enrolment.to_json` wrote.

    Raises:
        ValueError: it is none.
    """
    document: dict[str, Any] = json.loads(text)
    try:
        if document.pop("format") != FORMAT:
            raise ValueError("another format")
        numbered = {int(number): str(proof) for number, proof in document.pop("devices").items()}
        return Enrolment(devices=numbered, **document)
    except (AttributeError, KeyError, TypeError):
        raise ValueError("not as slotwise enroll writes it") from None


def host_of(text: str) -> Host:
    """The name or the address that ``text`` is."""
    try:
        return ip_address(text)
    except ValueError:
        pass
    # What ends in a number is a mistyped address: nobody could look it up as a name.
    is_name = re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", text) and not text.rpartition(".")[2].isdecimal()
    if not is_name or len(text) > 253:
        raise InputError("host", text, "a host name, as in broker.example, or an IP address")
    return text
