"""DeviceMonitor: waits for devices, listens to them, and gives up on those that stay silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from slotwise.aggregation import Aggregation, UplinkRadio
from slotwise.aggregation.norm_bound import ClipNorm
from slotwise.fleet import Fleet
from slotwise.live.clock import RateLimit, Timeout
from slotwise.live.parts import UNLIMITED
from slotwise.live.protocol import FromDevice
from slotwise.live.server.device_state import COOL_DOWN
from slotwise.live.server.events import LiveObserver
from slotwise.live.server.inbox import Inbox, Reply
from slotwise.live.server.outbox import Announcement, Outbox
from slotwise.live.slots.slot_layout import SlotLayout
from slotwise.live.transport import Channel, Connected
from slotwise.schedule import Agent, Scheduler
from slotwise.schedule.link import Link

ANSWER_TIMEOUT = 5.0  # seconds within which a device that computes for long must confirm that it still does
RETURN_TIMEOUT = 3.0  # seconds after a last will; clients retry after two at most, a server answers in one
HOUSEKEEPING_INTERVAL = 0.1  # seconds
# Answers to a device at once, and per second: each may have a whole model. Further ones are sent later.
ANSWER_BURST, ANSWER_RATE = 20, 0.5


class GrantsAhead(NamedTuple):
    """Slots as time: their parts, the Scheduler from which the plan is made, and the grants in a beacon."""

    layout: SlotLayout
    make_scheduler: Callable[[], Scheduler]
    most: int


@dataclass(frozen=True)
class RunSpec:
    """Parameters of a live run."""

    run: str  # its identifier
    rounds: int  # planned
    fleet: Fleet  # the slots of every device's training
    link: Link  # the slots of uplinks and broadcasts
    aggregation: Aggregation
    clip_norm: ClipNorm = "auto"
    clip_key: int = 0  # of `NormBounded`; devices are never told
    sample_count: Callable[[int], int] = lambda _: 1  # samples that a device holds
    update_bits: int = 0  # as rules are told, and joules of a slot of sending
    sending_joules: tuple[float, ...] = (0.0,)
    timeout: float = 60.0  # seconds of silence after which a device counts as disconnected
    longest_training: float | None = None  # seconds; None: a multiple of what the device's trainings took
    cool_down: float | None = None  # seconds in which a penalty point expires; None: many timeouts
    return_timeout: float = RETURN_TIMEOUT  # seconds within which a device may return after its last will
    agent: Agent | None = None  # takes the decisions by what is learned, if the schedule has any
    group_size: int = 1  # of the first round
    deadline: int | None = None  # the slot at which the run ends; None: after its rounds
    announcement: dict[str, str] = field(default_factory=dict)  # what devices are told about the run
    ahead: GrantsAhead | None = None  # slots are time, and grants are announced ahead
    part_bytes: int = UNLIMITED  # numbers of a message beyond this length are sent in parts

    @property
    def radio(self) -> UplinkRadio:
        """Link, bits and energy of uplinks that rules are told."""
        return UplinkRadio(self.link, self.update_bits, self.sending_joules)

    @property
    def seconds_per_point(self) -> float:
        """The seconds in which a penalty point expires."""
        return COOL_DOWN * self.timeout if self.cool_down is None else self.cool_down


class DeviceMonitor:
    """The server's side of the connections to its devices.

    Attributes:
        spec, state, channel, clock: those of the run.
        outbox: sends messages to devices.
        announcement: tells all devices of the run, and of its end.
        timeout: how long devices are waited for in the current instant.
    """

    def __init__(self, spec: RunSpec, channel: Channel, inbox: Inbox, observer: LiveObserver) -> None:
        self.spec, self.channel, self._inbox, self._observer = spec, channel, inbox, observer
        self.state, self.clock, self._topics = inbox.state, inbox.clock, inbox.topics
        how = {"in_slots": spec.ahead is not None}
        self.outbox = Outbox(spec.run, self.state, channel, self._topics, spec.part_bytes, **how)
        self.timeout = Timeout(spec.timeout, lambda: channel.connected, inbox.changed, self.clock)
        told = {"part_bytes": str(spec.part_bytes), **spec.announcement}
        self.announcement = Announcement(spec.run, told, channel, self._topics, self.clock, **how)
        self.log = inbox.log
        self._answers = RateLimit(ANSWER_BURST, ANSWER_RATE)
        self._deferred: dict[int, Reply] = {}  # answers that have to wait
        self._connection = channel.connections  # the last one that `listen` knows of

    async def gather(self, wanted: int, seconds: float) -> None:
        """Wait for ``wanted`` devices, or after ``seconds`` for one at least."""
        until, present = self.clock.now() + seconds, len(self.state.presence.connected)
        if present < wanted:
            self.log.info("waiting_for_devices", connected=present, devices=wanted)
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
            # `connected` is from the checkpoint; boots are of devices that have answered this server.
            missing = (wanted & self.state.presence.connected) - set(self.state.presence.boots)
            if not missing:
                return
            self._observer.devices_connected(len(wanted) - len(missing), len(wanted))
            await self.timeout.change(left)

    async def round_trips(self, called: Iterable[int], seconds: float) -> dict[int, float]:
        """Call devices; return how long each took to answer, or was waited for without an answer."""
        asked: dict[int, float] = {}
        answered: dict[int, float] = {}
        for device in called:
            self._inbox.heard.pop(device, None)  # what comes from now on is the answer
            asked[device] = self.clock.now()
            await self.outbox.tell(device, "call")
        until = self.clock.now() + seconds
        while True:
            for device in asked.keys() - answered.keys():
                if device in self._inbox.heard:
                    answered[device] = self._inbox.heard[device] - asked[device]
            left = until - self.clock.now()
            if len(answered) == len(asked) or left <= 0:
                return {device: answered.get(device, self.clock.now() - asked[device]) for device in asked}
            await self.timeout.change(left)

    async def listen(self) -> None:
        """Read and answer the messages of devices, until a newer server supersedes this one."""
        housekeeping = asyncio.create_task(self._run_housekeeping())
        try:
            async for arrival in self.channel.arrivals():
                if isinstance(arrival, Connected):
                    # No device could reach this server without a connection, so none is blamed for that time.
                    self.timeout.restart()
                    self._connection = arrival.number
                    self.state.presence.restart_last_wills(self.clock.now())
                    self.state.timings.restart()
                    await self.announcement.connected(arrival.number, self.state.round)
                elif arrival.topic == self.announcement.topic:
                    await self.announcement.receive(arrival, self.state.round)
                elif (reply := self._inbox.take(arrival)) is not None:
                    # A newer reply replaces one that still waits: it says what the device holds now.
                    self._deferred[reply.device] = reply
                    await self._answer_deferred()
                if housekeeping.done():
                    housekeeping.result()
        finally:
            housekeeping.cancel()

    async def _run_housekeeping(self) -> None:
        """Without end: expire last wills and penalties, and send answers that had to wait."""
        while True:
            await self.clock.sleep(HOUSEKEEPING_INTERVAL)
            now = self.clock.now()
            returning = self.state.penalties.expire(now, self.spec.seconds_per_point)
            # Last wills must not expire now: devices may have returned, but cannot tell this server.
            if not self.channel.connected:
                self.state.penalties.excluded.update(returning)  # told when there is a connection
                continue
            for device in self.state.presence.expired(now - self.spec.return_timeout):
                self._disconnect(device, "connection lost")
            for device in returning:
                self.log.info("readmitted", device=device)
                await self.outbox.tell(device, "call")
            await self._answer_deferred()

    async def _answer_deferred(self) -> None:
        """Answer devices, but none of them more often than is allowed."""
        for device in list(self._deferred):
            # `listen` and `_run_housekeeping` both call this: while one sends, the other may answer the next.
            if device in self._deferred and self._answers.allows(device, self.clock.now()):
                await self.outbox.answer(self._deferred.pop(device))

    def _disconnect(self, device: int, reason: str, **fields: float) -> None:
        if device in self.state.presence.connected:
            self.log.info("left", device=device, reason=reason, **fields)
        self.state.disconnect(device)
        # Wake those who wait for this device.
        self._inbox.changed.notify()

    async def penalise(self, device: int, reason: str, *, points: float = 1.0) -> None:
        """Count a bad or missing update; too many exclude the device for a while."""
        if self.state.penalties.add(device, points):
            seconds = self.state.penalties.seconds_left(device, self.spec.seconds_per_point)
            self.log.warning("excluded", device=device, reason=reason, seconds=round(seconds, 1))
            self._disconnect(device, "excluded")
            await self.outbox.tell(device, "out", seconds=f"{seconds:.0f}")

    async def give_up(
        self, device: int, kind: FromDevice, waited: float | None = None, *, computes: bool = False
    ) -> None:
        """Count a device that was waited for without result as disconnected until it answers a call.

        ``waited`` are the seconds of a training that takes too long; None if the device missed the timeout.
        ``computes``: it says that it is still training.
        """
        seconds = self.spec.timeout if waited is None else waited
        about = "training has not ended in time" if computes else f"missing after {self.spec.timeout:g} s"
        reason = f"{about}: the device counts as disconnected"
        self._inbox.reject(self._topics.from_device(device, kind), reason)
        self._disconnect(device, f"no {kind} after {seconds:.3g} s", waited=seconds)
        await self.penalise(device, f"no {kind} after {seconds:.3g} s", points=seconds / self.spec.timeout)
        # Last: when the device answers, it has to count as disconnected, so that it joins again. One whose
        # first training may hang would be waited for again: it is called when it says that it has finished.
        hangs = computes and self.state.timings.compares(device)
        if device not in self.state.penalties.excluded and not hangs:
            await self.outbox.tell(device, "call")

    def longest_training(self, device: int) -> float:
        """Return the seconds after which a training of a device is given up."""
        longest = self.spec.longest_training
        if longest is not None:
            return longest
        slots = self.spec.fleet.compute_slots_at
        return self.state.timings.limit(device, self.spec.timeout, lambda n: slots(n, self.state.slot))

    def trains_too_long(self, device: int) -> bool:
        """Return whether a device has trained for longer than it may."""
        # Also False until `listen` has read of a new connection, which restarts the times.
        if not self.channel.connected or self.channel.connections != self._connection:
            return False  # the device could not have reported anything
        return self.state.timings.waited(device) >= self.longest_training(device)

    def misplaced_since(self, device: int, moment: float) -> bool:
        """Return whether an update of a device has come outside its slots since a moment."""
        return self._inbox.misplaced.get(device, -inf) >= moment

    async def still_computes(self, device: int) -> bool:
        """Ask a device whether it still computes; if it does, the timeout begins again."""
        # Before the call is sent: the answer may come while the publish waits for its acknowledgement.
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
