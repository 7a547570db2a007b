"""The call that devices answer: a run is on, and this is what it is about."""

from __future__ import annotations

import asyncio
import secrets

from slotwise.live.channel import Channel, Message
from slotwise.live.terms import Terms
from slotwise.live.topics import Topics
from slotwise.live.wire import BadFrame, Label, decode, encode

SECONDS_FOR_WHAT_WAS_KEPT = 1.0  # a broker says what it has kept at once
SECONDS_BETWEEN_LOOKS = 0.05


class Superseded(Exception):
    """Another server has called the devices of this channel: they follow the newer call."""


class Call:
    """One server's call, which the broker keeps for those who come later.

    Of two servers on one channel the newer stays. No clock says which that is, and the other need not be
    alive to be asked: a call that the broker passes on before this server's own is older, and one that comes
    afterwards is newer, whether this server is there or away. One that comes back looks at what was kept
    meanwhile before it calls again; that it does in any case, because it does not know what it has missed.
    """

    def __init__(self, terms: Terms, channel: Channel, topics: Topics) -> None:
        self._terms, self._channel, self._topics = terms, channel, topics
        self._boot = secrets.token_hex(8)
        self._connection = 0
        self._made_in = 0  # the connection in which the call was made; 0 if it was not yet
        self._echo_due = False  # the call is under way, and the broker has not passed it on yet
        self._looking: asyncio.Task[None] | None = None
        self.topic = topics.to_all("call")

    async def connected(self, connection: int, round_number: int) -> None:
        """There is connection number ``connection``: call; if it was done before, look first who else has."""
        self._connection = connection
        self._stop_looking()
        if not self._made_in:
            await self._make(round_number)
        elif self._made_in < connection:
            self._echo_due = False  # it is lost, and what comes now comes later
            self._looking = asyncio.create_task(self._make_after_a_look(round_number))

    async def hear(self, message: Message, round_number: int) -> None:
        """Take note of a call on this channel, and call again if somebody has taken this one back.

        Raises:
            Superseded: it is that of a newer server.
        """
        if not message.payload:
            await self._make(round_number)
            return
        try:
            frame = decode(message.payload)
        except BadFrame:
            return
        if frame.words.get("boot") == self._boot:
            self._echo_due = False
        elif self._is_newer(message):
            self._stop_looking()
            raise Superseded

    def _is_newer(self, foreign: Message) -> bool:
        if not self._made_in or self._echo_due:
            return False
        return not foreign.retained or self._made_in < self._connection

    async def end(self) -> None:
        """Tell everybody that it is over."""
        self._stop_looking()
        await say_end(self._terms.run, self._channel, self._topics)

    async def _make(self, round_number: int) -> None:
        """Ask everybody who is there to say so."""
        label = Label(self._terms.run, round=round_number)
        words = {**self._terms.announcement, "boot": self._boot}
        self._echo_due = True
        await self._channel.publish(self._topics.to_all("end"), b"", retain=True)
        await self._channel.publish(self.topic, encode(label, **words), retain=True)
        self._made_in = self._channel.connections

    async def _make_after_a_look(self, round_number: int) -> None:
        while not self._channel.connected:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        await asyncio.sleep(SECONDS_FOR_WHAT_WAS_KEPT)
        await self._make(round_number)

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()


async def say_end(run: str, channel: Channel, topics: Topics) -> None:
    """Take the call back and tell the devices of ``run`` that it is over."""
    await channel.publish(topics.to_all("call"), b"", retain=True)
    await channel.publish(topics.to_all("end"), encode(Label(run)), retain=True)


async def say_end_again(run: str, channel: Channel, topics: Topics) -> None:
    """The same for a server that may have died before it could; where another run is on, nothing is said."""
    await channel.subscribe(topics.to_all("call"))
    try:
        async with asyncio.timeout(SECONDS_FOR_WHAT_WAS_KEPT):
            kept = await _kept_call(channel)
    except TimeoutError:
        kept = None
    if kept in (None, run):
        await say_end(run, channel, topics)


async def _kept_call(channel: Channel) -> str | None:
    """The run that is called for; None if it cannot be read."""
    async for arrival in channel.arrivals():
        if isinstance(arrival, Message) and arrival.payload:
            try:
                return decode(arrival.payload).label.run
            except BadFrame:
                break
    return None
