"""A broker without a network: channels that meet in memory, for tests and for a first look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from slotwise.live.channel import Arrival, Connected, Message


class MemoryBroker:
    """Passes messages on at once, in order, to every channel that has subscribed."""

    def __init__(self) -> None:
        self.channels: list[MemoryChannel] = []
        self.retained: dict[str, bytes] = {}

    @asynccontextmanager
    async def connect(self, will: Message | None = None) -> AsyncIterator[MemoryChannel]:
        """A channel; the will is published when it is cut off (cancelled), and not when it is closed."""
        channel = MemoryChannel(self)
        self.channels.append(channel)
        try:
            yield channel
        except asyncio.CancelledError:
            if will is not None:
                self.pass_on(will)
            raise
        finally:
            self.channels.remove(channel)

    def pass_on(self, message: Message) -> None:
        """To each subscriber once."""
        for channel in self.channels:
            if any(matches(pattern, message.topic) for pattern in channel.patterns):
                channel.inbox.put_nowait(message)


class MemoryChannel:
    """One client of a `MemoryBroker`."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self.patterns: set[str] = set()
        self.inbox: asyncio.Queue[Arrival] = asyncio.Queue()
        self.inbox.put_nowait(Connected(self.connections))

    @property
    def connected(self) -> bool:
        """Always."""
        return True

    @property
    def connections(self) -> int:
        """The one."""
        return 1

    async def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, acknowledged: bool = True
    ) -> None:
        """Pass it on."""
        del acknowledged  # nothing is lost here
        if retain and payload:
            self._broker.retained[topic] = payload
        elif retain:
            self._broker.retained.pop(topic, None)
        self._broker.pass_on(Message(topic, payload))
        await asyncio.sleep(0)

    async def subscribe(self, *topics: str) -> None:
        """Read topics; what was retained there comes at once."""
        await asyncio.sleep(0)
        self.patterns.update(topics)
        for kept, payload in self._broker.retained.items():
            if any(matches(topic, kept) for topic in topics):
                self.inbox.put_nowait(Message(kept, payload, retained=True))

    async def arrivals(self) -> AsyncIterator[Arrival]:
        """What comes in."""
        while True:
            yield await self.inbox.get()


def matches(pattern: str, topic: str) -> bool:
    """Whether a subscription to ``pattern`` reads ``topic``."""
    wanted, given = pattern.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted, given = wanted[:-1], given[: len(wanted) - 1]
    return len(wanted) == len(given) and all(a in ("+", b) for a, b in zip(wanted, given, strict=True))
