"""Messages of the server: the announcement of a run, answers to single devices, grants and models."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress

from slotwise.aggregation import Vector
from slotwise.live.clock import Clock
from slotwise.live.parts import UNLIMITED, frames, received_of
from slotwise.live.protocol import (
    FIRST_WITH_PARTS,
    PROTOCOL,
    SEATS,
    BadFrame,
    Label,
    ToDevice,
    Topics,
    Work,
    decode,
    digest,
    encode,
    versions_of_run,
)
from slotwise.live.server.device_state import Grant
from slotwise.live.server.inbox import Reply
from slotwise.live.server.state import LiveState
from slotwise.live.transport import Channel, Message

RETAINED_MESSAGE_TIMEOUT = 1.0  # seconds; a broker sends its retained messages at once after a subscription
RECONNECT_POLL = 0.05  # seconds
NO_WORK = Work(0, 0)  # in the label of a message that is about none


class Superseded(Exception):
    """A newer server has announced a run on this channel, and the devices follow it."""


class Outbox:
    """Sends models and grants, and tells single devices what to do."""

    def __init__(
        self,
        run: str,
        state: LiveState,
        channel: Channel,
        topics: Topics,
        part_bytes: int = UNLIMITED,
        *,
        in_slots: bool = False,
    ) -> None:
        self._run, self._state, self._channel, self._topics = run, state, channel, topics
        self._part_bytes, self._in_slots = part_bytes, in_slots
        self._versions = versions_of_run(in_slots=in_slots)

    async def broadcast(self, version: int, receivers: Sequence[int], slot: int) -> None:
        """Publish a model once for all its receivers, who compute from ``slot`` on."""
        model, fields = self._state.models[version], {"slot": str(slot)}
        self._state.timings.model_sent(receivers, version)
        label = Label(self._run, round=max(0, version - 1), version=version)
        if 4 * len(model) <= self._part_bytes:
            frame = encode(label, model, receivers=self._named(receivers), **fields)
            for topic in self._topics.to_receivers(receivers):
                await self._channel.publish(topic, frame, acknowledged=False)
            return
        # Devices of protocol 1 do not understand parts, so they get the whole model.
        whole = [device for device in receivers if not self._takes_parts(device)]
        for group, size in ((whole, UNLIMITED), ([n for n in receivers if n not in whole], self._part_bytes)):
            for at in range(0, len(group), SEATS):  # the receivers are in the header of every part
                some = group[at : at + SEATS]
                for topic in self._topics.to_receivers(some):
                    named = {**fields, "receivers": self._named(some)}
                    for frame in frames(label, model, named, size):
                        await self._channel.publish(topic, frame, acknowledged=False)

    def _named(self, receivers: Sequence[int]) -> str:
        """Return the receivers of a broadcast, each with the number of its training."""
        trainings = self._state.assignments.delivered
        return ",".join(f"{device}:{trainings[device]}" for device in receivers)

    def _takes_parts(self, device: int) -> bool:
        # One that has not sent ``here`` to this server asks for what it lacks when it does.
        return self._state.presence.protocols.get(device, PROTOCOL) >= FIRST_WITH_PARTS

    async def grant(self, grant: Grant) -> None:
        """Grant a device the channel; in slots it has been told ahead."""
        topic = self._topics.to_device(grant.label.device, "grant")
        self._state.timings.granted(grant.number)
        if self._in_slots:
            return
        work = Work(grant.label.version, grant.label.training)
        fields = {"grant": grant.number, "slot": str(grant.slot)}
        if partial := self._state.uploads.partial(grant.label.device, work):
            fields["partial"] = partial
        frame = encode(grant.label, **fields)
        await self._channel.publish(topic, frame, acknowledged=False)

    async def tell(
        self, device: int, kind: ToDevice, numbers: Vector | None = None, work: Work = NO_WORK, **fields: str
    ) -> None:
        """Send one device a message; ``call`` asks it to say that it is here, ``out`` excludes it for now."""
        frame = encode(Label(self._run, device, self._state.round, *work), numbers, **fields)
        await self._channel.publish(self._topics.to_device(device, kind), frame)

    async def answer(self, reply: Reply) -> None:
        """Tell a device what to do: its work, to wait for a model, to say that it is here, or to leave."""
        state, device, holds = self._state, reply.device, reply.holds
        work = state.assignments.work.get(device)
        if not reply.compatible:
            await self.tell(device, "incompatible", None, NO_WORK, **self._versions.fields())
        elif device in state.penalties.excluded:
            await self.tell(device, "out")
        elif device not in state.presence.connected:
            await self.tell(device, "call")
        elif work is None or work.version not in state.models:
            # ``holds`` is sent back: a device that has received other work since ignores this message.
            await self.tell(device, "rest", holds=holds)
        else:
            model, answered = state.models[work.version], Label(self._run, device, state.round, *work)
            held = holds == f"{work}:{digest(model)}"
            slot = str(state.completions[work.version].slot if work.version else 0)
            if held or not self._takes_parts(device) or 4 * len(model) <= self._part_bytes:
                await self.tell(device, "work", None if held else model, work, slot=slot)
            elif not reply.receiving:
                first = received_of(reply.partial, work, digest(model))
                for frame in frames(answered, model, {"slot": slot}, self._part_bytes, first):
                    topic = self._topics.to_device(device, "work")
                    await self._channel.publish(topic, frame, acknowledged=False)
            # Grants are not acknowledged, so a device that was disconnected may have missed its own.
            grant = state.grant.for_device(device)
            if grant is not None and grant.label == answered:  # not a grant for work that the device has lost
                await self.grant(grant)


class Announcement:
    """The retained announcement of a run on ``all/call``, which devices answer with ``here``.

    Of two servers on one channel the newer one stays. No clock decides which that is, and the other need not
    be alive: an announcement that the broker delivers before this server's own is older, and one that comes
    afterwards is newer, whether this server was connected or not. After a reconnect the server first reads
    what is retained, then announces the run again, because it does not know what it has missed.
    """

    def __init__(
        self,
        run: str,
        fields: Mapping[str, str],
        channel: Channel,
        topics: Topics,
        clock: Clock,
        *,
        in_slots: bool = False,
    ) -> None:
        self._run, self._channel, self._topics, self._clock = run, channel, topics, clock
        self._boot = secrets.token_hex(8)
        self._fields = {**fields, **versions_of_run(in_slots=in_slots).fields(), "boot": self._boot}
        self._connection = 0
        self._made_in = 0  # the connection in which the run was announced; 0 before
        self._echo_due = False  # announced, and not delivered back by the broker yet
        self._pending: asyncio.Task[None] | None = None
        self.topic = topics.to_all("call")

    async def connected(self, connection: int, round_number: int) -> None:
        """Announce the run in a new connection; after a reconnect, read first what others have announced."""
        self._connection = connection
        self._cancel_pending()
        if not self._made_in:
            await self._make(round_number)
        elif self._made_in < connection:
            # If `_make` had waited for this very connection, the run would be announced in it already.
            self._echo_due = False  # it is lost: whatever comes now came later
            self._pending = asyncio.create_task(self._make_after_retained(round_number))

    async def receive(self, message: Message, round_number: int) -> None:
        """Read an announcement; announce the run again if it was removed, end if a newer server has one."""
        if not message.payload:
            # Without a retained announcement, devices that connect later would not learn of the run.
            await self._make(round_number)
            return
        try:
            frame = decode(message.payload)
        except BadFrame:
            return
        if frame.fields.get("boot") == self._boot:
            self._echo_due = False
        else:
            # A retained announcement is newer if this connection has not announced the run yet: then it has
            # replaced the one that this server made in an earlier connection.
            later = not message.retained or self._made_in < self._connection
            if self._made_in and not self._echo_due and later:
                self._cancel_pending()
                # Announcing the run again would take the devices back from the newer server.
                raise Superseded

    async def end(self, *, more: bool = False) -> None:
        """Tell all devices that the run is over; with ``more``, that they are to wait for another."""
        self._cancel_pending()
        await publish_end(self._run, self._channel, self._topics, more=more)

    async def _make(self, round_number: int) -> None:
        # Before the first await: what the broker delivers before the echo is older than this announcement.
        self._echo_due = True
        await self._channel.publish(self._topics.to_all("end"), b"", retain=True)
        frame = encode(Label(self._run, round=round_number), **self._fields)
        await self._channel.publish(self.topic, frame, retain=True)
        # After the publish, which may have waited for another connection.
        self._made_in = self._channel.connections

    async def _make_after_retained(self, round_number: int) -> None:
        while not self._channel.connected:
            await self._clock.sleep(RECONNECT_POLL)
        await self._clock.sleep(RETAINED_MESSAGE_TIMEOUT)
        await self._make(round_number)

    def _cancel_pending(self) -> None:
        if self._pending is not None:
            self._pending.cancel()


async def publish_end(run: str, channel: Channel, topics: Topics, *, more: bool = False) -> None:
    """Remove the announcement and tell the devices of ``run`` that it is over, and if another will follow."""
    # In this order: a device that connects between the two waits, and does not join a run that is over.
    await channel.publish(topics.to_all("call"), b"", retain=True)
    fields = {"more": "1"} if more else {}
    await channel.publish(topics.to_all("end"), encode(Label(run), **fields), retain=True)


async def publish_end_again(run: str, channel: Channel, topics: Topics, clock: Clock) -> None:
    """Repeat the end of a run whose server may have died before; does nothing if another run is announced."""
    await channel.subscribe(topics.to_all("call"))

    async def announced_run() -> str | None:
        async for arrival in channel.arrivals():
            if isinstance(arrival, Message) and arrival.payload:
                with suppress(BadFrame):
                    return decode(arrival.payload).label.run
                return None
        return None

    reading = asyncio.ensure_future(announced_run())
    await clock.wait([reading], RETAINED_MESSAGE_TIMEOUT)
    announced = reading.result() if reading.done() else None
    reading.cancel()
    if announced in (None, run):
        await publish_end(run, channel, topics)
