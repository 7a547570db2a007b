"""The server's driver: the Scheduler on a real network. `schedule.events` is its twin in virtual slots.

The plan says what will happen in which slot; the driver lets each slot come, finds out whether it did happen,
and tells the Scheduler what really did. Who may send and who receives which model is the Scheduler's to say,
so a run in which all goes to plan is the simulated one, model by model.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import numpy as np

from slotwise.aggregation import Contribution, Vector, next_model
from slotwise.live.call import Call
from slotwise.live.channel import Arrival, Channel, Connected
from slotwise.live.clock import Clock
from slotwise.live.farewells import Farewells
from slotwise.live.mailbox import Mailbox
from slotwise.live.patience import Patience
from slotwise.live.speaker import Granted, Speaker
from slotwise.live.state import Late, LiveState
from slotwise.live.terms import NobodyLeft, NotFinite, Onlooker, Terms
from slotwise.live.topics import FromDevice, Topics
from slotwise.live.wire import Label, encode
from slotwise.schedule import Deliver, Delivered, Event, Grant, Joined, Left, Lost, Ready, Sent
from slotwise.schedule.timeline import Uplink

ANSWER = 5.0  # seconds that a device which computes for long has to say that it is still at it


class Server:
    """One run, from where its state stands to its last round."""

    def __init__(
        self,
        terms: Terms,
        state: LiveState,
        channel: Channel,
        topics: Topics,
        mailbox: Mailbox,
        clock: Clock,
        onlooker: Onlooker,
    ) -> None:
        self._terms, self._state, self._channel, self._topics = terms, state, channel, topics
        self._mailbox, self._clock, self._onlooker = mailbox, clock, onlooker
        self._uplinks: list[Uplink] = []  # of the round that is on
        self._lost: list[Uplink] = []
        self._contributions: list[Contribution] = []
        self._overdue_since: dict[int, float] = {}
        self._unheard_since: dict[int, float] = {}  # granted, and no update
        self._connection = channel.connections
        self._patience = Patience(terms.patience, channel, mailbox.changed)
        self._began = time.monotonic()
        self._call = Call(terms, channel, topics)
        self._farewells = Farewells(mailbox, channel)
        self._speaker = Speaker(terms.run, state, channel, topics, mailbox)
        mailbox.assigned, mailbox.unplanned = state.assigned, state.unplanned
        mailbox.present = set(range(1, terms.fleet.devices + 1)) - state.away
        mailbox.rejected, mailbox.barred = state.rejected, state.barred

    async def gather(self, wanted: int, seconds: float) -> None:
        """Wait until ``wanted`` devices are there, or as many as come within so many seconds, but one."""
        until = time.monotonic() + seconds
        while True:
            here = len(self._mailbox.present)
            self._onlooker.waiting(here, wanted)
            left = until - time.monotonic()
            if here >= wanted or (here and left <= 0):
                return
            await self._patience.change(max(left, 0.05) if here else 1.0)

    async def gather_again(self, seconds: float) -> None:
        """Wait until those who were there say that they still are, or as many as do within so many seconds.

        After a power cut devices may take longer to be back than patience lasts. Those who are not back count
        as there all the same, until patience is at its end.
        """
        wanted, until = set(self._mailbox.present), time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            missing = (wanted & self._mailbox.present) - self._mailbox.heard
            if not missing:
                return
            self._onlooker.waiting(len(wanted) - len(missing), len(wanted))
            await self._patience.change(left)

    async def listen(self) -> None:
        """Take in what the devices say, and answer those who ask what to do; without end.

        Raises:
            Superseded: a newer server is on this channel.
        """
        leaving = asyncio.create_task(self._farewells.follow())
        try:
            async for arrival in self._channel.arrivals():
                await self._take(arrival)
        finally:
            leaving.cancel()

    async def _take(self, arrival: Arrival) -> None:
        if isinstance(arrival, Connected):
            self._patience.begin()
            self._farewells.begin_anew()
            await self._call.connected(arrival.number, self._state.round)
        elif arrival.topic == self._call.topic:
            await self._call.hear(arrival, self._state.round)
        else:
            self._mailbox.take(arrival)
            await self._speaker.answer()

    async def play(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Play rounds until all are done, or until ``stop``, asked after each, says so.

        Raises:
            NotFinite: the model diverged.
            NobodyLeft: no device may send any more.
        """
        self._clock.start(self._state.slot)
        self._overdue_since = dict.fromkeys(self._state.overdue, time.monotonic())
        self._began = time.monotonic() - self._state.seconds
        if not self._state.record.receivers:
            await self._hand_out(self._state.scheduler.start(), 0)
        while self._state.round < self._terms.rounds:
            await self._next_instant()
            planned_slot, planned = self._state.agenda.pop()
            slot = self._clock.reached(planned_slot)
            self._patience.begin()
            happened = await asyncio.gather(*(self._settled(event, slot) for event in planned))
            await self._speaker.turn_away()
            self._state.slot = slot
            action = self._state.scheduler.step([event for event in happened if event is not None])
            if isinstance(action, Grant):
                await self._grant(action, slot)
            elif isinstance(action, Deliver):
                await self._broadcast(action, slot)
                if stop():
                    return

    async def end(self) -> None:
        """Tell everybody that it is over."""
        await self._call.end()

    # What happens in a slot

    async def _next_instant(self) -> None:
        """Let the next slot come in which something happens, planned or not."""
        agenda, clock = self._state.agenda, self._clock
        await asyncio.sleep(0)
        while True:
            if len(self._mailbox.barred) == self._terms.fleet.devices:
                raise NobodyLeft
            self._note_unplanned()
            self._excuse_after_an_outage()
            await self._give_up_on_the_silent()
            planned = agenda.next_slot
            left = 1.0 if planned is None else clock.seconds_until(planned)
            if planned is not None and left <= 0:
                return
            await self._patience.change(left)

    def _note_unplanned(self) -> None:
        """Put on the agenda who has come, gone, or got ready late."""
        state, mailbox = self._state, self._mailbox
        slot = self._clock.next_slot(state.slot)
        if not self._clock.paced and state.agenda.next_slot is not None:
            slot = state.agenda.next_slot
        for event in mailbox.unplanned:
            state.agenda.add(slot, event)
            if isinstance(event, Left):
                for table in (state.overdue, self._overdue_since, self._unheard_since):
                    table.pop(event.device, None)
        mailbox.unplanned.clear()
        for device in [n for n in state.overdue if mailbox.is_ready(n)]:
            state.late.append(Late(device, state.round, "training"))
            state.agenda.add(slot, Ready(device, slot, state.overdue.pop(device)))

    async def _settled(self, event: Event, slot: int) -> Event | None:
        """What has become of what was planned."""
        if isinstance(event, Ready):
            return await self._settled_ready(event)
        if isinstance(event, Sent):
            return await self._settled_uplink(event, slot)
        return event

    async def _settled_ready(self, event: Ready) -> Event | None:
        mailbox, device = self._mailbox, event.device
        work = (event.version, self._state.sent[device])

        def settled() -> bool:
            return mailbox.is_ready(device) or mailbox.assigned.get(device) != work

        at_work = not self._clock.paced
        while at_work:
            await self._patience.until(settled)
            at_work = not settled() and await self._is_at_work(device)
        if mailbox.assigned.get(device) != work:
            return None  # it has gone since
        if mailbox.is_ready(device):
            return event
        if self._clock.paced:
            self._state.overdue[device] = event.version
            self._overdue_since[device] = time.monotonic()
        else:
            await self._silent(device, "ready")
        return None

    async def _settled_uplink(self, event: Sent, slot: int) -> Event:
        """Sent if a good update has come, Lost if not; then the channel is free again."""
        mailbox, device = self._mailbox, event.device
        if not self._clock.paced:
            await self._patience.until(lambda: not mailbox.waits_for_update)
        assert self._speaker.granted is not None
        label, _, start = self._speaker.granted
        self._speaker.granted = None
        silent, update = mailbox.waits_for_update, mailbox.close()
        uplink = (label.round, device, label.version, start, slot)
        if update is None:
            self._lost.append(uplink)
            if silent:
                await self._unheard(device, label.round)
            return Lost(device, slot)
        self._unheard_since.pop(device, None)
        self._uplinks.append(uplink)
        start_model = self._state.models[label.version]
        self._contributions.append(Contribution(update, label.round - label.version, start_model))
        self._state.sent[device] += 1
        self._state.assigned.pop(device, None)
        return Sent(device)

    async def _unheard(self, device: int, round_number: int) -> None:
        """A grant has passed without an update. Paced, it is late; beyond patience, it is silent."""
        since = self._unheard_since.setdefault(device, time.monotonic())
        if self._clock.paced:
            self._state.late.append(Late(device, round_number, "uplink"))
            if time.monotonic() - since < self._terms.patience:
                return
        self._unheard_since.pop(device, None)
        self._mailbox.strike(device)
        await self._silent(device, "update")

    def _excuse_after_an_outage(self) -> None:
        """Paced too, time without a connection does not count: nobody could have said anything."""
        if not self._channel.connected or self._channel.connections != self._connection:
            self._connection = self._channel.connections
            self._overdue_since = dict.fromkeys(self._state.overdue, time.monotonic())
            self._unheard_since.clear()

    async def _give_up_on_the_silent(self) -> None:
        """Paced, nobody waits for a device; but one that is overdue for too long counts as gone."""
        now = time.monotonic()
        for device in list(self._state.overdue):
            if now - self._overdue_since[device] > self._terms.patience:
                del self._state.overdue[device]
                await self._silent(device, "ready")

    async def _is_at_work(self, device: int) -> bool:
        """Ask a device whether it is still at it; patience begins anew if it is."""
        asked = time.monotonic()
        await self._speaker.call(device)
        until = time.monotonic() + min(ANSWER, self._terms.patience)
        while time.monotonic() < until and self._mailbox.alive.get(device, 0.0) < asked:
            await self._patience.change(until - time.monotonic())
        if self._mailbox.alive.get(device, 0.0) < asked:
            return False
        self._patience.begin()
        return True

    async def _silent(self, device: int, kind: FromDevice) -> None:
        """A device that says nothing any more counts as gone until it answers the call."""
        topic = self._topics.from_device(device, kind)
        self._mailbox.reject(topic, f"missing after {self._terms.patience:g} s: the device counts as gone")
        self._mailbox.vanish(device)
        await self._speaker.call(device)

    # What the Scheduler wants done

    async def _grant(self, grant: Grant, slot: int) -> None:
        device, round_number, version = grant
        state = self._state
        state.grants += 1
        label = Label(self._terms.run, device, round_number, version, state.sent[device])
        state.agenda.add(slot + self._terms.fleet.slots_of_uplink(device), Sent(device))
        self._mailbox.expect(label, str(state.grants))
        await self._speaker.grant(Granted(label, str(state.grants), slot))

    async def _broadcast(self, delivery: Deliver, slot: int) -> None:
        """The last word on a round: its updates make the next model, and from now on it counts."""
        state, end = self._state, slot + self._terms.broadcast_slots
        model = self._next_model(delivery.version)
        if not np.isfinite(model).all():
            raise NotFinite
        state.models[delivery.version] = model
        record = state.record
        record.broadcasts.append((slot, end))
        record.uplinks.extend(self._uplinks)
        record.lost.extend(self._lost)
        self._uplinks, self._lost, self._contributions = [], [], []
        state.round_seconds.append(round(time.monotonic() - self._began, 6))
        await self._hand_out(delivery, end)
        state.forget_models()
        self._onlooker.round_done(state)

    def _next_model(self, version: int) -> Vector:
        with np.errstate(over="ignore", invalid="ignore"):
            before = self._state.models[version - 1]
            return next_model(self._terms.aggregation, before, self._contributions)

    async def _hand_out(self, delivery: Deliver, slot: int) -> None:
        """Publish a model once, for all its receivers, who compute from ``slot`` on."""
        version, receivers = delivery
        state, mailbox = self._state, self._mailbox
        state.agenda.add(slot, Delivered(version))
        moving = {event.device for event in mailbox.unplanned if isinstance(event, Left | Joined)}
        reached = [n for n in receivers if n in mailbox.present and n not in moving]
        for device in receivers:
            ready = slot + self._terms.fleet.slots_of_training(device, state.sent[device])
            state.agenda.add(ready, Ready(device, ready, version))
        for device in reached:
            state.assigned[device] = (version, state.sent[device])
        state.record.receivers.append(list(receivers))
        names = ",".join(f"{device}:{state.sent[device]}" for device in reached)
        label = Label(self._terms.run, round=max(0, version - 1), version=version)
        frame = encode(label, state.models[version], slot=str(slot), receivers=names)
        for topic in self._topics.to_receivers(reached):
            await self._channel.publish(topic, frame, acknowledged=False)
