"""Connections that are lost: what is reported, and pauses between attempts."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable

FIRST = 0.5  # seconds before the first retry, at most
LONGEST = 30.0
# A broker that is not there refuses connections, which costs nobody anything; when it is back, devices must
# return within seconds to keep their work. One that accepts and closes them, or its proxy, needs a rest.
LONGEST_REFUSED = 2.0
STEADY = 5.0  # seconds; after a connection that has lasted as long, waiting begins anew
_RANDOM_STEPS = 1 << 20


class Outages:
    """Reports once that the broker is lost, why it rejects clients, and that all are connected again.

    All clients of a process share one: they lose the same broker, or over UDP server; it is reported once.
    """

    def __init__(self, notice: Callable[[str], None], peer: str = "broker") -> None:
        self._notice, self._peer = notice, peer
        self._disconnected: set[str] = set()
        self._rejections: set[str] = set()

    def lost(self, client: str, why: str | None) -> None:
        """Report that a client has no connection, and why the broker rejects it if it does."""
        if not self._disconnected:
            self._notice(f"connection to the {self._peer} lost; reconnecting")
        self._disconnected.add(client)
        if why is not None and why not in self._rejections:
            self._rejections.add(why)
            self._notice(f"{why}; retrying")

    def over(self, client: str) -> None:
        """Report that a client is connected, for the first time or again."""
        if client not in self._disconnected:
            return
        self._disconnected.remove(client)
        if not self._disconnected:
            self._rejections.clear()
            self._notice("connected again")


class Backoff:
    """Waiting times that double from one failure to the next, each shortened at random by up to a half.

    The randomness keeps the devices of a fleet from coming back all at once.
    """

    def __init__(self) -> None:
        self._failures = 0

    def next(self, error: Exception | None, lasted: float) -> float:
        """Return the seconds to wait after a connection that lasted so long and ended with ``error``."""
        if lasted >= STEADY:
            self._failures = 0
        refused = os.strerror(errno.ECONNREFUSED) in str(error)
        longest = min(FIRST * 2.0 ** min(self._failures, 30), LONGEST_REFUSED if refused else LONGEST)
        self._failures += 1
        return longest * (1 - secrets.randbelow(_RANDOM_STEPS) / (2 * _RANDOM_STEPS))
