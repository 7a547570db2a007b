"""DeviceMonitor: waits for devices, listens to them, and gives up on those that stay silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from slotwise.aggregation import Aggregation
from slotwise.fleet import Fleet
from slotwise.live.clock import Timeout
from slotwise.live.protocol import FromDevice
from slotwise.live.server.inbox import Inbox
from slotwise.live.server.outbox import Announcement, Outbox
from slotwise.live.transport import Channel, Connected
from slotwise.observer import Observer
from slotwise.schedule.link import Link

ANSWER_TIMEOUT = 5.0  # seconds within which a device that computes for long must confirm that it still does
RETURN_TIMEOUT = 3.0  # seconds after a last will; clients retry twice a second, a server answers in one
LAST_WILL_POLL = 0.1  # seconds


@dataclass(frozen=True)
class RunSpec:
    """Parameters of a live run."""

    run: str  # its identifier
    rounds: int
    fleet: Fleet  # the slots of every device's training
    link: Link  # the slots of uplinks and broadcasts
    aggregation: Aggregation
    sample_count: Callable[[int], int] = lambda _: 1  # samples that a device holds
    timeout: float = 60.0  # seconds of silence after which a device counts as disconnected
    return_timeout: float = RETURN_TIMEOUT  # seconds within which a device may return after its last will
    announcement: dict[str, str] = field(default_factory=dict)  # what devices are told about the run


class DeviceMonitor:
    """The server's side of the connections to its devices.

    Attributes:
        spec, state, channel, clock: those of the run.
        outbox: sends messages to devices.
        announcement: tells all devices of the run, and of its end.
        timeout: how long devices are waited for in the current instant.
    """

    def __init__(self, spec: RunSpec, channel: Channel, inbox: Inbox, observer: Observer) -> None:
        self.spec, self.channel, self._inbox, self._observer = spec, channel, inbox, observer
        self.state, self.clock, self._topics = inbox.state, inbox.clock, inbox.topics
        self.outbox = Outbox(spec.run, self.state, channel, self._topics)
        self.timeout = Timeout(spec.timeout, lambda: channel.connected, inbox.changed, self.clock)
        self.announcement = Announcement(spec.run, spec.announcement, channel, self._topics, self.clock)

    async def gather(self, wanted: int, seconds: float) -> None:
        """Wait for ``wanted`` devices, or after ``seconds`` for one at least."""
        until = self.clock.now() + seconds
        while True:
            present = len(self.state.presence.connected)
            self._observer.devices_connected(present, wanted)
            left = until - self.clock.now()
            if present >= wanted or (present and left <= 0):
                return
            await self.timeout.change(max(left, 0.05) if present else 1.0)

    async def gather_again(self, seconds: float) -> None:
        """Wait until the devices of a resumed run have answered, but not longer than ``seconds``.

        After a power cut devices may take longer to return than the timeout. Those that have not answered
        count as connected all the same, until the timeout.
        """
        wanted, until = frozenset(self.state.presence.connected), self.clock.now() + seconds
        while (left := until - self.clock.now()) > 0:
            missing = (wanted & self.state.presence.connected) - set(self.state.presence.boots)
            if not missing:
                return
            self._observer.devices_connected(len(wanted) - len(missing), len(wanted))
            await self.timeout.change(left)

    async def listen(self) -> None:
        """Read and answer the messages of devices, until a newer server supersedes this one."""
        expiring = asyncio.create_task(self._expire_last_wills())
        try:
            async for arrival in self.channel.arrivals():
                if isinstance(arrival, Connected):
                    self.timeout.restart()
                    self.state.presence.restart_last_wills(self.clock.now())
                    await self.announcement.connected(arrival.number, self.state.round)
                elif arrival.topic == self.announcement.topic:
                    await self.announcement.receive(arrival, self.state.round)
                elif (reply := self._inbox.take(arrival)) is not None:
                    await self.outbox.answer(reply)
        finally:
            expiring.cancel()

    async def _expire_last_wills(self) -> None:
        """Disconnect devices that have not returned after their last will, without end."""
        while True:
            await self.clock.sleep(LAST_WILL_POLL)
            if self.channel.connected:
                for device in self.state.presence.expired(self.clock.now() - self.spec.return_timeout):
                    self._disconnect(device)

    def _disconnect(self, device: int) -> None:
        self.state.disconnect(device)
        self._inbox.changed.notify()

    async def strike(self, device: int) -> None:
        """Count a bad or missing update; several in a row exclude the device."""
        if self.state.presence.strike(device):
            self._disconnect(device)
            await self.outbox.tell(device, "out")

    async def give_up(self, device: int, kind: FromDevice) -> None:
        """Count a silent device as disconnected until it answers a call."""
        reason = f"missing after {self.spec.timeout:g} s: the device counts as disconnected"
        self._inbox.reject(self._topics.from_device(device, kind), reason)
        self._disconnect(device)
        if device not in self.state.presence.excluded:
            await self.outbox.tell(device, "call")

    async def still_computes(self, device: int) -> bool:
        """Ask a device whether it still computes; if it does, the timeout begins again."""
        asked = self.clock.now()
        await self.outbox.tell(device, "call")
        until = self.clock.now() + min(ANSWER_TIMEOUT, self.spec.timeout)
        while not self._inbox.confirmed_since(device, asked):
            left = until - self.clock.now()
            if left <= 0:
                return False
            await self.timeout.change(left)
        self.timeout.restart()
        return True
