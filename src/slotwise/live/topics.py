"""Where messages go. A broker's access rules follow from these names alone.

Device n publishes below ``from/n/`` and nowhere else; it reads ``to/n/``, and of ``all/`` what is for it. The
server publishes below ``to/`` and ``all/``, and reads ``from/`` and the call, which may be that of another.

A broadcast is one publish whose topic names its receivers, each in its seat: ``all/model/-/2/-/4`` is for
devices 2 and 4. Device 4 has subscribed, once and for all, to whatever has a 4 in the fourth seat. So the
broker hands a model to those who receive it, and to nobody else. From the 101st on, devices share seats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from slotwise.errors import InputError

FromDevice = Literal["here", "gone", "ready", "update"]
ToDevice = Literal["call", "work", "grant", "rest", "out"]
ToAll = Literal["call", "model", "end"]

ROOT = "slotwise"
TRIAL = "trial"  # the name of a channel that is given none
SEATS = 100  # in a row: mosquitto takes topics of 200 levels, EMQX of 128
EMPTY = "-"
MOST_DEVICES = 10_000  # their names fit into a broadcast, and each has a connection of its own


@dataclass(frozen=True)
class Topics:
    """The topics of one channel; several runs may share a broker under different names."""

    name: str

    def __post_init__(self) -> None:
        if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", self.name):
            raise InputError("name", self.name, "at most 64 letters, digits, dots, dashes and underscores")

    @property
    def root(self) -> str:
        """What all of them begin with."""
        return f"{ROOT}/{self.name}"

    def client(self, who: str) -> str:
        """The identifier of a client, of which the broker lets in one at a time."""
        return f"{self.root.replace('/', '-')}-{who}"

    def from_device(self, device: int | str, kind: FromDevice | Literal["+"]) -> str:
        """What device ``device`` publishes."""
        return f"{self.root}/from/{device}/{kind}"

    def to_device(self, device: int | Literal["+"], kind: ToDevice | Literal["+"]) -> str:
        """What the server tells one device."""
        return f"{self.root}/to/{device}/{kind}"

    def to_all(self, kind: ToAll | Literal["#"]) -> str:
        """What the server tells whoever listens."""
        return f"{self.root}/all/{kind}"

    def to_receivers(self, receivers: Iterable[int]) -> list[str]:
        """Where a broadcast goes: one topic, unless receivers share a seat; then some sit in the next row.

        Without receivers, it goes where only those read it who listen in on everything.
        """
        rows: list[dict[int, int]] = [{}]
        for device in receivers:
            row = next((row for row in rows if _seat(device) not in row), None)
            if row is None:
                rows.append(row := {})
            row[_seat(device)] = device
        return ["/".join([self.to_all("model"), *_names(row)]) for row in rows]

    def as_receiver(self, device: int) -> str:
        """What device ``device`` subscribes to, in order to read the broadcasts that are for it."""
        return f"{self.to_all('model')}{'/+' * _seat(device)}/{device}/#"

    @property
    def from_all_devices(self) -> str:
        """What the server reads."""
        return self.from_device("+", "+")

    def sender(self, topic: str) -> tuple[int, str] | None:
        """The device and the kind of a message from a device; None if it is no such topic."""
        parts = topic.removeprefix(f"{self.root}/from/").split("/")
        if len(parts) != 2 or not re.fullmatch("[1-9][0-9]{0,9}", parts[0]):
            return None
        return int(parts[0]), parts[1]

    def kind(self, topic: str) -> str:
        """The kind of a message from the server."""
        whom, *rest = topic.removeprefix(f"{self.root}/").split("/")
        return rest[0 if whom == "all" else -1] if rest else ""


def _seat(device: int) -> int:
    return (device - 1) % SEATS


def _names(row: dict[int, int]) -> list[str]:
    """Who is in which seat, up to the last that is taken."""
    return [str(row.get(seat, EMPTY)) for seat in range(max(row, default=-1) + 1)]
