"""Channel: the interface to the network that server and devices use; and its in-memory twin for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple, Protocol, runtime_checkable

KEEPALIVE = 10  # seconds; the broker disconnects a client that is silent for one and a half times as long


class Message(NamedTuple):
    """A published message; ``retained`` if it was published before this channel subscribed.

    ``begun`` is when its first byte came, by the clock of a channel that has slots.
    """

    topic: str
    payload: bytes
    retained: bool = False
    begun: float = 0.0


class Connected(NamedTuple):
    """The channel is connected for the ``number``-th time; messages published meanwhile may be lost.

    It comes before everything that this connection receives.
    """

    number: int


Arrival = Message | Connected


class Channel(Protocol):
    """Publish and subscribe, as in MQTT. A lost connection is made again and reported by `Connected`."""

    @property
    def connected(self) -> bool:
        """Return whether there is a connection at the moment."""

    @property
    def connections(self) -> int:
        """Return how many connections there have been."""

    async def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, acknowledged: bool = True
    ) -> None:
        """Publish a message; waits while there is no connection.

        With ``retain`` the broker keeps it for later subscribers; an empty one removes it. One that is not
        ``acknowledged`` is lost if the connection is: enough for what is repeated after a reconnect anyway.
        """

    async def subscribe(self, *topics: str) -> None:
        """Subscribe to topics, also after reconnects; ``+`` matches one level and a final ``#`` the rest."""

    def arrivals(self) -> AsyncIterator[Arrival]:
        """Yield what comes in, in order, without end."""


@runtime_checkable
class BeaconSender(Protocol):
    """The server's channel, if slots are time on it."""

    def now(self) -> float:
        """Return the time by the clock of `Message.begun`."""

    def send_beacon(self, frame: bytes, age_ns: int) -> None:
        """Send the beacon of a slot that began so many nanoseconds ago; it is not repeated."""

    def arriving_since(self, device: int) -> float | None:
        """Return when the message began that is coming in from a device; None if none is."""


@runtime_checkable
class BeaconReceiver(Protocol):
    """A device's channel, if slots are time on it."""

    def hear_beacons(self, heard: Callable[[bytes, int], None] | None) -> None:
        """Call a function with the frame of each beacon, and when its slot began; None: no more."""

    def local_ns(self) -> int:
        """Return the time by this device's clock, in nanoseconds."""

    async def sleep_until(self, local_ns: int) -> None:
        """Wait until this device's clock shows a time."""


class MemoryBroker:
    """Passes messages at once and in order to every channel that has subscribed."""

    def __init__(self) -> None:
        self.retained: dict[str, bytes] = {}  # messages by topic
        self._channels: list[MemoryChannel] = []

    @asynccontextmanager
    async def connect(self, will: Message | None = None) -> AsyncIterator[MemoryChannel]:
        """Open a channel; its last will is published when it is cancelled, but not when it is closed."""
        channel = MemoryChannel(self)
        self._channels.append(channel)
        try:
            yield channel
        except asyncio.CancelledError:
            if will is not None:
                self.pass_on(will)
            raise
        finally:
            self._channels.remove(channel)

    def pass_on(self, message: Message) -> None:
        """Deliver a message to each subscriber once."""
        for channel in self._channels:
            if any(matches(pattern, message.topic) for pattern in channel.patterns):
                channel.inbox.put_nowait(message)


class MemoryChannel:
    """One client of a `MemoryBroker`."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self.connected, self.connections = True, 1
        self.patterns: set[str] = set()
        self.inbox: asyncio.Queue[Arrival] = asyncio.Queue()
        self.inbox.put_nowait(Connected(self.connections))

    async def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, acknowledged: bool = True
    ) -> None:
        """Deliver a message to the subscribers."""
        del acknowledged  # nothing is lost here
        if retain and payload:
            self._broker.retained[topic] = payload
        elif retain:
            self._broker.retained.pop(topic, None)
        self._broker.pass_on(Message(topic, payload))
        # A real channel suspends its caller, too, so other tasks run between two messages.
        await asyncio.sleep(0)

    async def subscribe(self, *topics: str) -> None:
        """Subscribe to topics; retained messages come at once."""
        await asyncio.sleep(0)
        self.patterns.update(topics)
        for kept, payload in self._broker.retained.items():
            if any(matches(topic, kept) for topic in topics):
                self.inbox.put_nowait(Message(kept, payload, retained=True))

    async def arrivals(self) -> AsyncIterator[Arrival]:
        """Yield what comes in."""
        while True:
            yield await self.inbox.get()


def matches(pattern: str, topic: str) -> bool:
    """Return whether a subscription to ``pattern`` receives ``topic``."""
    wanted, given = pattern.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted, given = wanted[:-1], given[: len(wanted) - 1]
    return len(wanted) == len(given) and all(a in ("+", b) for a, b in zip(wanted, given, strict=True))
