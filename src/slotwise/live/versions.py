"""Protocol versions: which server and device understand each other, and what they tell each other if not.

A server sends its versions in the announcement of a run, a device in ``here``. These two messages and
``incompatible`` keep their form in every version, so peers of any two versions can read them. A peer that
sends no versions speaks protocol 1, which had none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import NamedTuple

PROTOCOL = 2  # that this build speaks
OLDEST = 1  # that this build understands
FIRST_WITH_VERSIONS = FIRST_WITH_PARTS = 2
UNREADABLE = 0  # in place of a version that is no number

_NUMBER = re.compile("[0-9]{1,6}")
_BUILD = re.compile("[0-9A-Za-z.+_-]{1,32}")  # from the network, and written to logs


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
        return cls(protocol, oldest, build if _BUILD.fullmatch(build) else "")

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
    return Versions(PROTOCOL, OLDEST, version("slotwise"))


def _number(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else UNREADABLE
