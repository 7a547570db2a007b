"""Where messages go. A broker's access rules follow from these names alone.

Device n publishes below ``from/n/`` and nowhere else; it reads ``to/n/`` and ``all/``. The server publishes
below ``to/`` and ``all/`` and reads ``from/``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from slotwise.errors import InputError

FromDevice = Literal["here", "gone", "ready", "update"]
ToDevice = Literal["call", "work", "grant", "rest"]
ToAll = Literal["call", "model", "end"]

ROOT = "slotwise"


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

    def from_device(self, device: int | str, kind: FromDevice | Literal["+"]) -> str:
        """What device ``device`` publishes."""
        return f"{self.root}/from/{device}/{kind}"

    def to_device(self, device: int, kind: ToDevice | Literal["+"]) -> str:
        """What the server tells one device."""
        return f"{self.root}/to/{device}/{kind}"

    def to_all(self, kind: ToAll) -> str:
        """What the server tells whoever listens."""
        return f"{self.root}/all/{kind}"

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
        return topic.rpartition("/")[2]
