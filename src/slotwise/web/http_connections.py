"""Connections of the web server: one that sends no request is closed, so that others are always answered."""

from __future__ import annotations

import asyncio
from itertools import count

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_TIMEOUT = 10.0  # seconds within which a connection must have sent its whole request
MOST_CONNECTIONS = 400  # more than the event streams may take, and fewer than a process may open
_NUMBERS = count()


class TimedConnection(H11Protocol):
    """Closes itself if no request is complete in time; if there are too many, the longest idle one goes.

    uvicorn has a timeout between two requests, which the first byte of the next one ends, and refuses
    requests if there are too many connections, whatever these do.
    """

    _number = -1
    _header_timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, instead of the connection that has waited for the longest time."""
        super().connection_made(transport)
        self._number = next(_NUMBERS)
        self._watch()
        if len(self.connections) > MOST_CONNECTIONS:
            open_ones = [one for one in self.connections if isinstance(one, TimedConnection)]
            # This one is idle, so there is one at least.
            min((one for one in open_ones if one.is_idle), key=lambda one: one._number).abort()

    def data_received(self, data: bytes) -> None:
        """Read more of a request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer of the connection."""
        self._stop()
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection at once, without an answer."""
        self.connections.discard(self)
        self.transport.abort()

    def _watch(self) -> None:
        """Run the timer while a request is incomplete; more bytes do not set it back."""
        if not self.is_idle:
            self._stop()
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(HEADER_TIMEOUT, self._close_if_idle)

    def _stop(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _close_if_idle(self) -> None:
        self._header_timer = None
        if self.is_idle:
            self.abort()
