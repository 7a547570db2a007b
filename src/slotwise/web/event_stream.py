"""Server-sent events of a state that changes: each stream sends the newest state, never a backlog.

A stream holds no queue. It waits for a change, reads the state and sends it, so a client that reads slowly
skips states and costs no memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.responses import PlainTextResponse, Response, StreamingResponse

EVENT_INTERVAL = 0.2  # seconds between two events of a stream, at least
HEARTBEAT_INTERVAL = 15.0  # seconds without an event, then a comment: a closed connection is noticed
MOST_STREAMS = 200


class Changes:
    """Counts changes of a state, and lets any number of streams wait for the next one."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Note a change; call it in the event loop."""
        self.count += 1
        # A new event and not clear(): all who wait are woken, and those who come later have to wait.
        self._changed.set()
        self._changed = asyncio.Event()

    async def after(self, count: int, seconds: float) -> bool:
        """Wait for a change after ``count``; False if there is none for so many seconds."""
        if self.count == count:
            try:
                await asyncio.wait_for(self._changed.wait(), seconds)
            except TimeoutError:
                return False
        return True


class EventStreams:
    """Streams of one state, which ``state`` returns as JSON; beyond a number of them, more are refused."""

    def __init__(self, changes: Changes, state: Callable[[], str]) -> None:
        self._changes, self._state, self.open = changes, state, 0

    def response(self) -> Response:
        """Return the response of a new stream, which begins with the state as it is."""
        if self.open >= MOST_STREAMS:
            return PlainTextResponse("too many event streams\n", 503)
        # The second header keeps a proxy from collecting events before it passes them on.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(), media_type="text/event-stream", headers=headers)

    async def _events(self) -> AsyncIterator[str]:
        # Not in `response`: a stream that never starts would never be subtracted.
        self.open += 1
        try:
            while True:
                # Before the state is read: a change in between is sent twice, but never missed.
                seen = self._changes.count
                yield f"data: {self._state()}\n\n"
                await asyncio.sleep(EVENT_INTERVAL)
                while not await self._changes.after(seen, HEARTBEAT_INTERVAL):
                    yield ": still here\n\n"
        finally:
            self.open -= 1
