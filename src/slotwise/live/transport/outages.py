"""Outages: what is reported about a broker that is lost."""

from __future__ import annotations

from collections.abc import Callable


class Outages:
    """Reports once that the broker is lost, why it rejects clients, and that all are connected again.

    All clients of a process share one: they lose the same broker, and it is reported once.
    """

    def __init__(self, notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._disconnected: set[str] = set()
        self._rejections: set[str] = set()

    def lost(self, client: str, why: str | None) -> None:
        """Report that a client has no connection, and why the broker rejects it if it does."""
        if not self._disconnected:
            self._notice("connection to the broker lost; reconnecting")
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
