"""Devices that may have gone: a last will says that a connection is lost, not that its device is."""

from __future__ import annotations

import asyncio
import time

from slotwise.live.channel import Channel
from slotwise.live.mailbox import Mailbox

SECONDS_TO_RETURN = 3.0  # clients connect again twice a second, and a server takes a second to call them
SECONDS_BETWEEN_LOOKS = 0.1


class Farewells:
    """Lets a farewell count if the device does not come back soon.

    A broker that is stopped in order tells the last wills of all who are connected to all who still are, and
    a link may break for a moment; in both cases the device is at work all the time.
    """

    def __init__(self, mailbox: Mailbox, channel: Channel) -> None:
        self._mailbox, self._channel = mailbox, channel

    def begin_anew(self) -> None:
        """There is a connection again; what a device said before may be lost."""
        self._mailbox.farewells = dict.fromkeys(self._mailbox.farewells, time.monotonic())

    async def follow(self) -> None:
        """See who has not come back; without end."""
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            if self._channel.connected:
                self._mailbox.let_go(time.monotonic() - SECONDS_TO_RETURN)
