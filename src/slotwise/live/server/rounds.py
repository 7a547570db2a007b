"""RoundDriver: drives the Scheduler on a real network, as `schedule.events` does in virtual slots.

The agenda says what is planned for which slot. The server waits for each slot, finds out whether the planned
events have happened, and tells the Scheduler what did. Who sends and who receives which model is decided by
the Scheduler alone, so a run in which everything goes to plan gives the simulated models to the bit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from slotwise.live.clock import SlotClock
from slotwise.live.protocol import Label, Work
from slotwise.live.server.aggregator import Aggregator
from slotwise.live.server.deciding import Deciding
from slotwise.live.server.monitor import DeviceMonitor
from slotwise.live.server.round_log import Late, Round
from slotwise.live.server.slot_beacons import SlotBeacons
from slotwise.live.slots.frames import AheadGrant
from slotwise.live.transport import BeaconSender
from slotwise.schedule import Deliver, Delivered, Event, Grant, Left, Lost, Ready, Sent
from slotwise.schedule.timeline import Uplink


class RoundDriver:
    """Plays one run, from its state to the last round."""

    def __init__(self, devices: DeviceMonitor, slots: SlotClock, round_done: Callable[[], None]) -> None:
        self._devices, self._slots, self._round_done = devices, slots, round_done
        self._spec, self._state = devices.spec, devices.state
        self._channel, self._clock = devices.channel, devices.clock
        self._outbox, self._timeout = devices.outbox, devices.timeout
        self._uplinks: list[Uplink] = []  # of the current round
        self._lost: list[Uplink] = []
        self._late: list[Late] = []
        self.aggregator, self._deciding = Aggregator(devices), Deciding(devices.spec, devices.state)
        self._overdue_since: dict[int, float] = {}
        self._silent_since: dict[int, float] = {}  # devices that were granted the channel and sent nothing
        self._connection = self._channel.connections
        self._began = self._clock.now()
        self._beacons: SlotBeacons | None = None  # while it plays, if slots are time
        self._replan = False  # something is on the agenda that nobody could foresee

    @property
    def current(self) -> tuple[list[Uplink], list[Uplink]]:
        """Uplinks and lost uplinks of the round that is not complete yet."""
        return self._uplinks, self._lost

    async def play(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Play rounds until all are done, or until ``stop()``, called after each; return whether all are."""
        state = self._state
        self._slots.start(state.slot)
        self._overdue_since = dict.fromkeys(state.overdue, self._clock.now())
        self._began = self._clock.now() - state.seconds
        self._beacons = self._make_beacons()
        # A resumed run has handed out its model; devices that lack it get it when they say ``here``.
        if state.log.starters is None:
            first = self._deciding.start()
            state.log.start(first.receivers)
            await self._hand_out(first, 0)
        self._announce(state.slot, None, changed=True)
        while not self._has_ended():
            await self._next_instant()
            if self._has_ended():
                break
            planned_slot, planned = state.agenda.pop()
            slot = self._slots.reached(planned_slot)
            self._timeout.restart()
            # Before the outcomes, so that trainings on a model that is rolled back do not count.
            await self.aggregator.check_evaluations()
            happened = await self._outcomes(planned, slot)
            # In the same call as their Lost events: after Left, the Scheduler queues no update again.
            happened += [self._forget(event) for event in self.aggregator.take_rebooked()]
            state.slot = slot
            action = self._deciding.next_action(happened, slot)
            changed = self._replan or slot != planned_slot or happened != [*planned]
            self._replan = False
            granted = None
            if isinstance(action, Grant):
                granted = await self._grant(action, slot)
            elif isinstance(action, Deliver):
                end = slot + self._spec.link.broadcast(action.receivers, slot)
                if self._is_after_deadline(end):
                    break
                await self._end_round(action, slot, end)
                if stop():
                    return self._has_ended()
            self._announce(slot, granted, changed=changed)
        return True

    def _make_beacons(self) -> SlotBeacons | None:
        ahead = self._spec.ahead
        if ahead is None:
            return None
        assert isinstance(self._channel, BeaconSender)
        return SlotBeacons(self._devices, ahead, self._slots, self._channel)

    def _announce(self, slot: int, granted: AheadGrant | None, *, changed: bool) -> None:
        if self._beacons is not None:
            self._beacons.announce(slot, granted, changed=changed)

    def _has_ended(self) -> bool:
        """Return whether all rounds are done; a schedule that is decided meanwhile ends at the deadline."""
        if self._spec.deadline is None:
            return self._state.round >= self._spec.rounds
        # Between planned slots of a fixed length something else may happen, such as a training that was late.
        following = self._state.slot if self._slots.paced else self._state.agenda.next_slot
        return following is not None and self._is_after_deadline(self._slots.reached(following))

    def _is_after_deadline(self, slot: int) -> bool:
        return self._spec.deadline is not None and slot > self._spec.deadline

    async def _next_instant(self) -> None:
        """Wait for the next slot in which something happens, planned or not."""
        # Let the listener run, also if instants follow each other without a wait.
        await asyncio.sleep(0)
        while True:
            self._schedule_unplanned()
            if not self._channel.connected or self._channel.connections != self._connection:
                # Count overdue devices from the reconnect on: no device could have sent anything before.
                self._connection = self._channel.connections
                self._overdue_since = dict.fromkeys(self._state.overdue, self._clock.now())
                self._silent_since.clear()
            for device in list(self._state.overdue):  # only paced runs have any
                if self._clock.now() - self._overdue_since[device] > self._spec.timeout:
                    del self._state.overdue[device]
                    await self._devices.give_up(device, "ready")
            planned = self._state.agenda.next_slot
            left = 1.0 if planned is None else self._slots.seconds_until(planned)
            if planned is not None and left <= 0:
                return
            if self._beacons is not None:
                left = min(left, self._beacons.seconds_to_beat)
                if left <= 0:
                    self._beacons.beat()
                    continue
            await self._timeout.change(left)

    def _schedule_unplanned(self) -> None:
        """Put devices that have joined, left or become ready late on the agenda."""
        state = self._state
        slot = self._slots.next_slot(state.slot)
        # Without a slot length, nothing can happen before the next planned instant.
        if not self._slots.paced and state.agenda.next_slot is not None:
            slot = state.agenda.next_slot
        for event in state.presence.take_changes():
            state.agenda.add(slot, self._forget(event))
            self._replan = True
        for device in [n for n in state.overdue if state.assignments.is_ready(n)]:
            self._note_late(device, state.round, "training")
            state.agenda.add(slot, Ready(device, slot, state.overdue.pop(device)))
            self._replan = True

    def _forget(self, event: Event) -> Event:
        """Return the event, after forgetting how long a device that left has been waited for."""
        if isinstance(event, Left):
            for table in (self._state.overdue, self._overdue_since, self._silent_since):
                table.pop(event.device, None)
        return event

    def _note_late(self, device: int, round_number: int, what: str) -> None:
        self._late.append(Late(device, round_number, what))
        now = self._clock.now()
        self._devices.log.repeated("info", "late", now, device=device, round=round_number, what=what)

    async def _outcomes(self, planned: Sequence[Event], slot: int) -> list[Event]:
        """Return what has become of the events of an instant; devices are waited for at the same time."""
        if len(planned) == 1:  # most instants: a task for it would cost more than the rest
            outcomes = [await self._outcome(planned[0], slot)]
        else:
            await self._wait_for_trainings(planned)
            outcomes = await asyncio.gather(*(self._outcome(event, slot) for event in planned))
        return [event for event in outcomes if event is not None]

    async def _wait_for_trainings(self, planned: Sequence[Event]) -> None:
        """Wait for all trainings of an instant at once, and not longer than for one.

        If each of N devices was waited for by itself, each of their N messages would wake N tasks.
        """
        delivered = self._state.assignments.delivered
        trainings = [event for event in planned if isinstance(event, Ready) and not self._slots.paced]
        left = [(event.device, Work(event.version, delivered[event.device])) for event in trainings]

        def over() -> bool:
            # Trainings that are over are removed, so that a message does not check all of them again.
            while left and self._is_over(*left[-1]):
                left.pop()
            return not left

        await self._timeout.until(over)

    def _is_over(self, device: int, work: Work) -> bool:
        """Return whether a device has finished its work, has lost it, or has trained for too long."""
        return self._is_settled(device, work) or self._devices.trains_too_long(device)

    def _is_settled(self, device: int, work: Work) -> bool:
        """Return whether a device has finished its work, or has lost it."""
        assignments = self._state.assignments
        return assignments.is_ready(device) or assignments.work.get(device) != work

    async def _outcome(self, event: Event, slot: int) -> Event | None:
        """Return what has become of a planned event."""
        if isinstance(event, Sent):
            return await self._uplink_outcome(event, slot)
        if not isinstance(event, Ready):
            return event
        # A training: whether the device is ready. Paced runs do not wait for it.
        assignments, device = self._state.assignments, event.device
        work = Work(event.version, assignments.delivered[device])
        answers, waiting = False, not self._slots.paced
        while waiting:
            # After the timeout the device is asked. If it confirms that it computes, it is waited for again,
            # until the training has taken too long.
            await self._timeout.until(lambda: self._is_over(device, work))
            answers = not self._is_settled(device, work) and await self._devices.still_computes(device)
            waiting = answers and not self._is_over(device, work)
        if assignments.work.get(device) != work:
            return None  # it has left since
        if assignments.is_ready(device):
            return event
        if self._slots.paced:
            self._state.overdue[device] = event.version
            self._overdue_since[device] = self._clock.now()
        else:
            too_long = self._devices.trains_too_long(device)
            waited = self._state.timings.waited(device) if too_long else None
            await self._devices.give_up(device, "ready", waited, computes=answers)
        return None

    async def _uplink_outcome(self, event: Sent, slot: int) -> Event:
        """Return Sent if a good update has come, Lost otherwise; then the channel is free again."""
        state, device = self._state, event.device
        if not self._slots.paced:
            await self._timeout.until(lambda: not state.grant.is_waiting)
        # From here on an update for this grant is rejected, also during the awaits below.
        ended = state.grant.end()
        if self._beacons is not None:
            ended = self._beacons.judged(ended, slot)
        label = ended.grant.label
        uplink = (label.round, device, label.version, ended.grant.slot, slot)
        state.timings.turn_ended(label, ended.grant.number, lost=ended.update is None)
        if ended.update is None:
            self._lost.append(uplink)
            # A device that has left is neither spoiled nor silent: it is not penalised for this.
            if ended.spoiled and not ended.finite:
                await self.aggregator.take_not_finite(device, label.version)
            elif ended.spoiled:
                await self._devices.penalise(device, "bad update")
            elif ended.silent:
                # Paced runs do not wait for longer than the grant, so silence adds up over several.
                since = self._silent_since.setdefault(device, self._clock.now())
                if self._slots.paced:  # the device may only be late
                    self._note_late(device, label.round, "uplink")
                if not self._slots.paced or self._clock.now() - since >= self._spec.timeout:
                    self._silent_since.pop(device, None)
                    await self._devices.give_up(device, "update")
            return Lost(device, slot)
        self._silent_since.pop(device, None)
        self._uplinks.append(uplink)
        self.aggregator.add(label, ended.update, (ended.grant.slot, slot))
        self._deciding.note_update(device, ended.update, ended.loss)
        state.assignments.deliver(device)
        return Sent(device)

    # Actions of the Scheduler

    async def _grant(self, action: Grant, slot: int) -> AheadGrant:
        state, (device, round_number, version) = self._state, action
        work = Work(version, state.assignments.delivered[device])
        label = Label(self._spec.run, device, round_number, *work)
        # The slots are taken even if the device has left.
        slots = self._spec.link.uplink(device, slot, 0).slots
        state.agenda.add(slot + slots, Sent(device))
        awaited = state.assignments.work.get(device) == work  # not if it has left since
        await self._outbox.grant(state.grant.begin(label, slot, awaited=awaited))
        return AheadGrant(slot, slots, device, *work)

    async def _end_round(self, delivery: Deliver, slot: int, end: int) -> None:
        """Apply the updates of a round and broadcast the next model; from now on the round is complete."""
        state = self._state
        state.models[delivery.version] = await self.aggregator.next_model(delivery.version)
        # This raises `LiveState.round`, so it comes after the new model, which may raise an error instead.
        seconds, receivers = round(self._clock.now() - self._began, 6), [*delivery.receivers]
        uses = () if self._beacons is None else self._beacons.take_uses()
        done = Round(slot, end, seconds, self._uplinks, self._lost, receivers, self._late, uses)
        state.complete_round(done)
        self._deciding.note_round(slot)
        self._uplinks, self._lost, self._late = [], [], []
        await self._hand_out(delivery, end)
        # After the hand-out, which decides the models that devices still compute on.
        state.forget_models()
        self._round_done()

    async def _hand_out(self, delivery: Deliver, slot: int) -> None:
        """Broadcast a model to its receivers, who compute from ``slot`` on."""
        state, (version, receivers) = self._state, delivery
        state.agenda.add(slot, Delivered(version))
        # Devices whose coming or going the Scheduler does not know yet: it will book them anew.
        changing = {event.device for event in state.presence.changes}
        reached = [n for n in receivers if n in state.presence.connected and n not in changing]
        # Also for receivers that are not reached: `_outcome` drops their Ready, as they have no work.
        for device in receivers:
            # Without jitter, which is not simulated in a live run.
            ready = slot + self._spec.fleet.compute_slots_at(device, slot)
            state.agenda.add(ready, Ready(device, ready, version))
        for device in reached:
            state.assignments.assign(device, version)
        # After the assignments: a device may answer before this returns.
        await self._outbox.broadcast(version, reached, slot)
