"""SlotSender: keeps a slot counter by the beacons of a run, and sends in the slots that they grant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from slotwise.live.slots.frames import AheadGrant, Beacon, decode
from slotwise.live.slots.slot_counter import OVER_UDP, SlotCounter
from slotwise.live.slots.slot_layout import SlotTiming
from slotwise.live.transport import BeaconReceiver


class SlotSender:
    """Calls ``send`` with each grant of device ``number`` at its moment, by the clock of the channel.

    What a beacon says replaces all that was known of later slots. A device that learns of its grant when the
    moment has passed sends at once, but not in the last guard time: the channel is the next one's then.
    """

    def __init__(
        self,
        number: int,
        timing: SlotTiming,
        channel: BeaconReceiver,
        send: Callable[[AheadGrant], None],
    ) -> None:
        self._number, self._timing, self._channel, self._send = number, timing, channel, send
        self.counter = SlotCounter(timing.slot_ns, correction=OVER_UDP)
        self._sent: AheadGrant | None = None  # the last one that was used
        self._waiting: asyncio.Task[None] | None = None
        channel.hear_beacons(self.hear)

    def hear(self, frame: bytes, local_ns: int) -> None:
        """Take a beacon whose slot began at a local time."""
        beacon = decode(frame)
        if not isinstance(beacon, Beacon) or beacon.slot_ns != self._timing.slot_ns:
            return
        self.counter.hear(beacon.slot, local_ns)
        self._stop_waiting()
        mine = [one for one in beacon.grants if one.device == self._number and one != self._sent]
        if mine:
            self._waiting = asyncio.create_task(self._use(mine))

    def close(self) -> None:
        """Send no more."""
        self._channel.hear_beacons(None)
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    async def _use(self, grants: list[AheadGrant]) -> None:
        """Wait for each of the coming grants, and send."""
        for grant in grants:
            await self._channel.sleep_until(self.counter.local(grant.first) + self._timing.send_after_ns)
            if self._channel.local_ns() < self.counter.local(grant.end) - self._timing.guard_ns:
                self._sent = grant
                self._send(grant)
