"""Outages: a lost connection is made again by itself, but somebody may want to know."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slotwise.live.first_contact import refusal

if TYPE_CHECKING:
    from slotwise.live.mqtt import Broker


class Outages:
    """Tells once that the broker is lost, why it refuses those who come back, and that all are back.

    The clients of one process share it: they lose one broker, and it is told once.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._cut_off: set[str] = set()
        self._refusals: set[str] = set()

    def lost(self, client: str) -> None:
        """The connection of a client is lost."""
        if not self._cut_off:
            self._tell("connection to the broker lost; trying again")
        self._cut_off.add(client)

    def refused(self, why: str) -> None:
        """The broker is there, and does not let a client in that was in before."""
        if why not in self._refusals:
            self._refusals.add(why)
            self._tell(f"the broker{why}; trying again")

    def over(self, client: str) -> None:
        """A client is connected again."""
        if client not in self._cut_off:
            return
        self._cut_off.remove(client)
        if not self._cut_off:
            self._refusals.clear()
            self._tell("connected again")


class Outage:
    """What one client has to say of it; nothing, if nobody wants to know."""

    def __init__(self, outages: Outages | None, client: str, broker: Broker) -> None:
        self._outages, self._client, self._broker = outages, client, broker

    def begins(self, reason: Exception | None) -> None:
        """There is no connection, or still none."""
        if self._outages is None:
            return
        self._outages.lost(self._client)
        why = None if reason is None else refusal(reason, self._broker)
        if why is not None:
            self._outages.refused(why)

    def ends(self) -> None:
        """There is a connection, for the first time or again."""
        if self._outages is not None:
            self._outages.over(self._client)
