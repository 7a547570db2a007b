"""How long a server waits for what should have happened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from slotwise.live.channel import Channel


class Patience:
    """So many seconds for each instant, however many devices are waited for in it."""

    def __init__(self, seconds: float, channel: Channel, changed: asyncio.Event) -> None:
        self._seconds, self._channel, self._changed = seconds, channel, changed
        self._since = time.monotonic()

    def begin(self) -> None:
        """A new instant, a new connection, or a sign of life: the seconds begin anew."""
        self._since = time.monotonic()

    async def until(self, happened: Callable[[], bool]) -> None:
        """Wait until it has happened, or patience is at its end. Time without a connection does not count."""
        while not happened():
            if not self._channel.connected:
                self.begin()
            left = self._seconds - (time.monotonic() - self._since)
            if left <= 0:
                return
            await self.change(min(left, 1.0))

    async def change(self, seconds: float) -> None:
        """Wait for the next message, but not for longer than so many seconds."""
        self._changed.clear()
        # Not wait_for: until Python 3.12 it takes no notice of a cancellation that comes with the message.
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._changed.wait()
