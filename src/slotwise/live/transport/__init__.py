"""Channel: the interface to the network that server and devices use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

KEEPALIVE = 10  # seconds; the broker disconnects a client that is silent for one and a half times as long


class Message(NamedTuple):
    """A published message; ``retained`` if it was published before this channel subscribed."""

    topic: str
    payload: bytes
    retained: bool = False


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

        Args:
            topic: the topic.
            payload: the bytes.
            retain: the broker keeps the message for later subscribers; an empty one removes it.
            acknowledged: wait until the broker has it. Without, it is lost if the connection is: enough for
                messages that are repeated after a reconnect anyway.
        """

    async def subscribe(self, *topics: str) -> None:
        """Subscribe to topics, also after reconnects; ``+`` matches one level and a final ``#`` the rest."""

    def arrivals(self) -> AsyncIterator[Arrival]:
        """Yield what comes in, in order, without end."""
