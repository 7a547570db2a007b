"""Topics of server and devices. A broker's access rules follow from these names alone.

Device n publishes below ``from/n/`` and nowhere else; it reads ``to/n/`` and the messages below ``all/`` that
are for it. The server publishes below ``to/`` and ``all/``, and reads ``from/`` and ``all/call``, where
another server may announce a run.

A broadcast is one publish whose topic names its receivers, each in its seat: ``all/model/-/2/-/4`` is for
devices 2 and 4. Device 4 subscribes once to every topic with a 4 in the fourth seat, so that the broker sends
a model to its receivers only. From the 101st on, devices share seats.
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
DEFAULT_NAME = "trial"  # of the channel
SEATS = 100  # mosquitto accepts topics of 200 levels, EMQX of 128
EMPTY = "-"
MAX_DEVICES = 10_000  # their numbers fit into a broadcast, and each has a connection


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
        rows: list[dict[int, int]] = [{}]
        for device in receivers:
            row = next((row for row in rows if _seat(device) not in row), None)
            if row is None:
                rows.append(row := {})
            row[_seat(device)] = device
        return ["/".join([self.to_all("model"), *_levels(row)]) for row in rows]

    def as_receiver(self, device: int) -> str:
        """Return the subscription with which a device receives the broadcasts that are for it."""
        return f"{self.to_all('model')}{'/+' * _seat(device)}/{device}/#"

    @property
    def from_all_devices(self) -> str:
        """The subscription of the server."""
        return self.from_device("+", "+")

    def sender(self, topic: str) -> tuple[int, str] | None:
        """Return the device and the kind of a device's message; None for any other topic."""
        parts = topic.removeprefix(f"{self.root}/from/").split("/")
        if len(parts) != 2 or not re.fullmatch("[1-9][0-9]{0,9}", parts[0]):
            return None
        return int(parts[0]), parts[1]

    def kind(self, topic: str) -> str:
        """Return the kind of a server's message."""
        branch, *rest = topic.removeprefix(f"{self.root}/").split("/")
        return rest[0 if branch == "all" else -1] if rest else ""


def _seat(device: int) -> int:
    return (device - 1) % SEATS


def _levels(row: dict[int, int]) -> list[str]:
    """Return the device in each seat, up to the last seat that is taken."""
    return [str(row.get(seat, EMPTY)) for seat in range(max(row, default=-1) + 1)]
