"""The call that devices answer: a run is on, and this is what it is about."""

from __future__ import annotations

import asyncio
import secrets

from slotwise.runtime.channel import Channel, Message
from slotwise.runtime.terms import Terms
from slotwise.runtime.topics import Topics
from slotwise.runtime.wire import BadFrame, Label, decode, encode

SECONDS_FOR_WHAT_WAS_KEPT = 1.0  # a broker says what it has kept at once


class Superseded(Exception):
    """Another server has called the devices of this channel: they follow the newer call."""


class Call:
    """One server's call, which the broker keeps for those who come later.

    Of two servers on one channel the newer stays. No clock says which that is, and the other need not be
    alive to be asked: a call that the broker had kept when this server came is older than it, and one that
    is made while this server is there is newer. A server that was away looks at what was kept meanwhile
    before it calls again. (Two that start in the same instant may both take the other for newer.)
    """

    def __init__(self, terms: Terms, channel: Channel, topics: Topics) -> None:
        self._terms, self._channel, self._topics = terms, channel, topics
        self._boot = secrets.token_hex(8)
        self._made = self._returned = self._kept = False
        self._looking: asyncio.Task[None] | None = None
        self.topic = topics.to_all("call")

    async def connected(self, round_number: int) -> None:
        """The connection is there: call; or, if it was there before, see first whether that is needed."""
        if not self._made:
            await self._make(round_number)
            return
        self._returned, self._kept = True, False
        self._stop_looking()
        self._looking = asyncio.create_task(self._make_unless_kept(round_number))

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
            self._kept = True
        elif self._returned or (self._made and not message.retained):
            raise Superseded

    async def end(self) -> None:
        """Tell everybody that it is over."""
        self._stop_looking()
        await self._channel.publish(self.topic, b"", retain=True)
        await self._channel.publish(self._topics.to_all("end"), encode(Label(self._terms.run)), retain=True)

    async def _make(self, round_number: int) -> None:
        """Ask everybody who is there to say so."""
        label = Label(self._terms.run, round=round_number)
        words = {**self._terms.announcement, "boot": self._boot}
        await self._channel.publish(self._topics.to_all("end"), b"", retain=True)
        await self._channel.publish(self.topic, encode(label, **words), retain=True)
        self._made = True

    async def _make_unless_kept(self, round_number: int) -> None:
        await asyncio.sleep(SECONDS_FOR_WHAT_WAS_KEPT)
        if not self._kept:
            await self._make(round_number)

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
