"""ArrivalQueue: messages that have come in and are not read yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from slotwise.base.errors import UserError
from slotwise.live.transport import Arrival, Message

MOST_UNREAD = 256 << 20  # bytes of messages that wait to be read
OBJECT_BYTES = 1 << 10  # of a message and its topic in memory, about


class ArrivalQueue:
    """Messages that have come in and are not read yet, in order.

    Messages beyond `MOST_UNREAD` bytes are dropped, so that a flood cannot fill the memory: the sender is
    asked again for what counted, as after a lost connection.
    """

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Arrival | UserError] = asyncio.Queue()
        self._bytes = self.dropped = 0

    def put(self, arrival: Arrival | UserError) -> None:
        """Add what has come in; a message that is longer than the limit is taken if there is nothing else."""
        size = _memory_of(arrival)
        if size and self._bytes and self._bytes + size > MOST_UNREAD:
            self.dropped += 1
            return
        self._bytes += size
        self._queue.put_nowait(arrival)

    async def arrivals(self) -> AsyncIterator[Arrival]:
        """Yield what comes in; a UserError is raised."""
        while True:
            arrival = await self._queue.get()
            if isinstance(arrival, UserError):
                raise arrival
            self._bytes -= _memory_of(arrival)
            yield arrival


def _memory_of(arrival: Arrival | UserError) -> int:
    """Return the bytes of a message in memory; 0 for anything else, which is never dropped."""
    return len(arrival.payload) + OBJECT_BYTES if isinstance(arrival, Message) else 0
