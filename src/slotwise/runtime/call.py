"""The call that devices answer: a run is on, and this is what it is about."""

from __future__ import annotations

import time

from slotwise.runtime.channel import Channel, Message
from slotwise.runtime.terms import Terms
from slotwise.runtime.topics import Topics
from slotwise.runtime.wire import BadFrame, Label, decode, encode


class Superseded(Exception):
    """Another server has called the devices of this channel: they follow the newer call."""


class Call:
    """One server's call. The broker keeps it for those who come later.

    Of two servers on one channel, the one that was started later stays. Both tell by the calls alone which
    of them that is, so neither has to wait for the other, and it does not matter whether the other has died.
    """

    def __init__(self, terms: Terms, channel: Channel, topics: Topics) -> None:
        self._terms, self._channel, self._topics = terms, channel, topics
        self._since = time.time_ns()
        self.topic = topics.to_all("call")

    async def make(self, round_number: int) -> None:
        """Ask everybody who is there to say so."""
        label = Label(self._terms.run, round=round_number)
        await self._channel.publish(self._topics.to_all("end"), b"", retain=True)
        words = {**self._terms.announcement, "since": str(self._since)}
        await self._channel.publish(self.topic, encode(label, **words), retain=True)

    async def hear(self, message: Message, round_number: int) -> None:
        """Take note of a call on this channel; that of an older server is answered by this one's.

        Raises:
            Superseded: it is that of a newer one.
        """
        try:
            frame = decode(message.payload)
        except BadFrame:
            return  # nothing: a call that was taken back
        since, run = frame.words.get("since", ""), frame.label.run
        if run == self._terms.run or not since.isdecimal():
            return
        if (int(since), run) > (self._since, self._terms.run):
            raise Superseded
        await self.make(round_number)

    async def end(self) -> None:
        """Tell everybody that it is over."""
        await self._channel.publish(self.topic, b"", retain=True)
        await self._channel.publish(self._topics.to_all("end"), encode(Label(self._terms.run)), retain=True)
