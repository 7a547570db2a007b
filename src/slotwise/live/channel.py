"""Channel: all that a driver knows of a network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

KEEPALIVE = 10  # seconds; a client that is silent for one and a half times as long is dead to the broker


class Message(NamedTuple):
    """What was published, and where; ``retained`` if that was before this channel read the topic."""

    topic: str
    payload: bytes
    retained: bool = False


class Connected(NamedTuple):
    """The connection is there for the ``number``-th time; what was published meanwhile may be lost.

    It comes before everything that comes in by this connection.
    """

    number: int


Arrival = Message | Connected


class Channel(Protocol):
    """Publish and subscribe, as MQTT has it. A lost connection is made again, and told by `Connected`."""

    @property
    def connected(self) -> bool:
        """Whether there is a connection at the moment."""

    @property
    def connections(self) -> int:
        """How many there have been."""

    async def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, acknowledged: bool = True
    ) -> None:
        """Send to whoever reads ``topic``; waits while there is no connection.

        Args:
            topic: where to.
            payload: what.
            retain: the broker keeps the message for those who subscribe later; an empty one removes it.
            acknowledged: wait until the broker has it. Without, it is lost if the connection is: for words
                that are said again anyway when a connection is there again.
        """

    async def subscribe(self, *topics: str) -> None:
        """Read topics from now on, whatever happens to the connection.

        ``+`` stands for any one level, and ``#`` at the end for any number of them.
        """

    def arrivals(self) -> AsyncIterator[Arrival]:
        """What comes in, in order, without end."""
