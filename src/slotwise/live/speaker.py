"""What the server tells one device: the grant, and what it is to do when it asks."""

from __future__ import annotations

from typing import NamedTuple

from slotwise.live.channel import Channel
from slotwise.live.mailbox import Mailbox
from slotwise.live.state import LiveState
from slotwise.live.topics import ToDevice, Topics
from slotwise.live.wire import Label, digest, encode


class Granted(NamedTuple):
    """The channel is a device's: for what, the number of the grant, and from which slot on."""

    label: Label
    number: str
    slot: int


class Speaker:
    """Says to each device what it has to know, and says it again.

    Attributes:
        granted: the grant whose slots are not over.
    """

    def __init__(
        self, run: str, state: LiveState, channel: Channel, topics: Topics, mailbox: Mailbox
    ) -> None:
        self._run, self._state = run, state
        self._channel, self._topics, self._mailbox = channel, topics, mailbox
        self.granted: Granted | None = None

    async def grant(self, granted: Granted) -> None:
        """Let a device onto the channel."""
        self.granted = granted
        await self._say_grant(granted)

    async def call(self, device: int) -> None:
        """Ask a device to say that it is here."""
        await self._say("call", device, encode(self._label(device)))

    async def answer(self) -> None:
        """Tell those who have said that they are here what they are to do."""
        asked, self._mailbox.said_here = self._mailbox.said_here, {}
        for device, holds in asked.items():
            await self._remind(device, holds)
        await self.turn_away()

    async def turn_away(self) -> None:
        """Tell those who are out that they are."""
        while self._mailbox.turned_away:
            device = self._mailbox.turned_away.pop()
            await self._say("out", device, encode(self._label(device)))

    async def _remind(self, device: int, holds: str) -> None:
        assigned = self._mailbox.assigned.get(device)
        if device not in self._mailbox.present:
            await self.call(device)
        elif assigned is None or assigned[0] not in self._state.models:
            await self._say("rest", device, encode(self._label(device), holds=holds))
        else:
            await self._say_work(device, *assigned, holds)

    async def _say_work(self, device: int, version: int, training: int, holds: str) -> None:
        """What it is to train, with the model unless it holds that, and the grant if it has one for it."""
        model = self._state.models[version]
        in_hand = holds == f"{version}:{training}:{digest(model)}"
        label = self._label(device)._replace(version=version, training=training)
        await self._say("work", device, encode(label, None if in_hand else model))
        if self.granted is not None and self.granted.label == label:  # not for work it has lost since
            await self._say_grant(self.granted)

    async def _say_grant(self, granted: Granted) -> None:
        label, number, slot = granted
        topic = self._topics.to_device(label.device, "grant")
        frame = encode(label, grant=number, slot=str(slot))
        await self._channel.publish(topic, frame, acknowledged=False)

    async def _say(self, kind: ToDevice, device: int, frame: bytes) -> None:
        await self._channel.publish(self._topics.to_device(device, kind), frame)

    def _label(self, device: int) -> Label:
        return Label(self._run, device, self._state.round)
