"""SlotServer: executes a plan on the medium: announces who sends, and takes what arrives in its slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from slotwise.aggregation import Aggregation, Contribution, RuleState, UplinkRadio, Vector, next_model
from slotwise.base.errors import UserError
from slotwise.learning.checked_task import CheckedTask
from slotwise.live import protocol
from slotwise.live.protocol import Label
from slotwise.live.server.inbox import Rejected, UpdateCheck
from slotwise.live.slots.announcing import GrantAnnouncer
from slotwise.live.slots.frames import (
    MODEL,
    Piece,
    Reassembly,
    decode,
    encode_beacon,
    grants_in_beacon,
    split,
)
from slotwise.live.slots.medium import SERVER, Order, SharedMedium, Transmission, VirtualTime
from slotwise.live.slots.plan_ahead import Broadcast, SlotPlan, Uplink
from slotwise.live.slots.slot_layout import SlotLayout
from slotwise.live.slots.slot_use import SlotUse
from slotwise.report.gantt.overlay_chart import Outcome
from slotwise.schedule import Event, Joined, Left, Lost, Record, Sent


class _OpenUplink:
    """The uplink of the current slots, and what has been heard of it."""

    def __init__(self, uplink: Uplink, most_pieces: int) -> None:
        self.round, self.grant, self.fades = uplink
        self.pieces = Reassembly(most_pieces)
        self.message: bytes | None = None
        self.offset_ns: int | None = None
        self.since_collision = 0  # number of collisions before it


class SlotServer:
    """The server of one run on a medium, from slot 0 to the deadline."""

    def __init__(
        self,
        plan: SlotPlan,
        layout: SlotLayout,
        task: CheckedTask,
        check: UpdateCheck,
        rule: Aggregation,
        radio: UplinkRadio,
        time: VirtualTime,
        medium: SharedMedium,
        *,
        last_slot: int,
        devices: int,
        beacon_every: int,
        most_pieces: int,
    ) -> None:
        self._plan, self._layout, self._task, self._check, self._rule = plan, layout, task, check, rule
        self._radio = radio
        self._time, self._medium, self._devices = time, medium, devices
        self._last, self._beacon_every, self._most_pieces = last_slot, beacon_every, most_pieces
        self._open: _OpenUplink | None = None
        self._contributions: list[Contribution] = []
        self._uplinks: list[tuple[int, int, int, int, int]] = []
        self._lost: list[tuple[int, int, int, int, int]] = []
        self._rule_state: RuleState = {}
        self._assigned: dict[int, int] = {}  # version of the model that each device trains on
        self.models: dict[int, Vector] = {0: task.initial_model()}
        self.record = Record([], [], [], [])
        self.uses: list[SlotUse] = []
        self.beacons = 0
        self.misplaced: Counter[int] = Counter()  # frames outside the slots of their device
        self._last_misplaced: dict[int, int] = {}  # when the last of them began
        medium.attach(SERVER, self.hear)

    def begin(self, hand_over: Callable[[bytes], None]) -> None:
        """Hand out w_0, which costs no slots, and begin with slot 0."""
        first = self._plan.start()
        self._announcer = GrantAnnouncer(
            self._plan.copy,
            lambda slot, _: slot > self._last,
            self._layout.slot_ns,
            grants_in_beacon(self._layout.frame_bytes),
            beacon_every=self._beacon_every,
        )
        hand_over(self._model_message(first))
        self._note_receivers(first.receivers, 0)
        self._time.at(0, lambda: self._tick(0), Order.SLOT)

    @property
    def fading(self) -> int:
        """The device whose uplink the link loses at the moment; 0 if none."""
        return 0 if self._open is None or not self._open.fades else self._open.grant.device

    # What is heard

    def hear(self, one: Transmission) -> None:
        """Take a frame of a device: one outside its slots is not used."""
        piece, now = decode(one.frame), self._open
        slot = one.start // self._layout.slot_ns
        if not isinstance(piece, Piece):
            return
        granted = now is not None and now.grant[2:] == (one.sender, piece.version, piece.training)
        if now is None or not granted or piece.device != one.sender:
            self._note_misplaced(one)
            return
        if now.offset_ns is None:
            now.offset_ns = one.start - self._layout.moment(now.grant.first, piece.number)
        if not (now.grant.first <= slot < now.grant.end and self._layout.contains(slot, one.start, one.end)):
            self._note_misplaced(one)
            return
        now.message = now.pieces.add(piece) or now.message

    def _note_misplaced(self, one: Transmission) -> None:
        self.misplaced[one.sender] += 1
        self._last_misplaced[one.sender] = one.start

    # From slot to slot

    def _tick(self, slot: int) -> None:
        """Begin a slot: find out what has happened, and say what comes next."""
        if slot > self._last:
            self._time.stop()
            return
        planned: Sequence[Event] = ()
        if self._plan.agenda.next_slot == slot:
            _, planned = self._plan.agenda.pop()
        lost, action = False, None
        if planned:
            happened: list[Event] = []
            for event in planned:
                happened += self._uplink_events(slot) if isinstance(event, Sent) else [event]
            lost = any(isinstance(event, Lost) for event in happened)
            action = self._plan.step(happened, slot)
        if isinstance(action, Broadcast) and action.end > self._last:
            self._time.stop()  # the round would end too late, as in the simulator
            return
        if lost:
            self._announcer.renew()
        elif isinstance(action, Uplink):
            lost = not self._announcer.expect(action.grant)
        if isinstance(action, Uplink):
            self._open = _OpenUplink(action, self._most_pieces)
            self._open.since_collision = len(self._medium.collisions)
        self._send_beacon(slot, changed=lost)
        if isinstance(action, Broadcast):
            self._broadcast(action)
        self._time.at((slot + 1) * self._layout.slot_ns, lambda: self._tick(slot + 1), Order.SLOT)

    def _uplink_events(self, slot: int) -> list[Event]:
        """Return what has become of the uplink whose slots end here."""
        ended, self._open = self._open, None
        assert ended is not None
        grant = ended.grant
        row = (ended.round, grant.device, grant.version, grant.first, slot)
        outcome = self._outcome(ended)
        self.uses.append(SlotUse(*row, outcome, ended.offset_ns))
        if outcome != "arrived" or ended.message is None:
            self._lost.append(row)
            # Nothing was on the air: the device lacks its model or its slot counter, and gets another model.
            lost: list[Event] = [Lost(grant.device, slot)]
            return lost + ([Left(grant.device), Joined(grant.device)] if outcome == "silent" else [])
        update = self._checked(grant.device, ended.message)
        self._uplinks.append(row)
        start, samples = self.models[grant.version], self._task.sample_count(grant.device)
        age = ended.round - grant.version
        sent = Contribution(update, age, start, grant.device, ended.round, samples, devices=self._devices)
        radio = self._radio.reception(grant.device, grant.first, slot)
        self._contributions.append(sent._replace(uplink=radio))
        self._assigned.pop(grant.device, None)
        return [Sent(grant.device)]

    def _checked(self, device: int, message: bytes) -> Vector:
        try:
            return self._check.checked(protocol.decode(message))
        except Rejected as error:  # the frames are intact, so it is what the task has returned
            raise UserError(f"update of device {device}: {error.reason}") from None

    def _outcome(self, ended: _OpenUplink) -> Outcome:
        device, collisions = ended.grant.device, self._medium.collisions
        if ended.message is not None:
            return "arrived"
        if any(one.sender == device for one in collisions[ended.since_collision :]):
            return "collision"
        begins, slot_ns = ended.grant.first * self._layout.slot_ns, self._layout.slot_ns
        misplaced = self._last_misplaced.get(device, -slot_ns) >= begins - slot_ns
        if misplaced or device in self._medium.senders_on_air():
            return "early or late"
        heard = ended.offset_ns is not None or device in self._medium.lost_senders(begins)
        return "frames lost" if heard else "silent"

    # What is sent

    def _send_beacon(self, slot: int, *, changed: bool) -> None:
        """Send a beacon with the current grant and the coming ones, if it is due."""
        current = None if self._open is None else self._open.grant
        beacon = self._announcer.beacon(slot, current, changed=changed)
        if beacon is not None:
            self.beacons += 1
            self._medium.send(SERVER, [encode_beacon(beacon)], self._time.now)

    def _broadcast(self, action: Broadcast) -> None:
        """Make the next model of the updates of the round, and send it in its slots."""
        used, self._contributions = self._contributions, []
        base = self.models[action.version - 1]
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            model, self._rule_state = next_model(self._rule, base, used, self._rule_state)
        if not np.isfinite(model).all():
            raise UserError(f"training diverged in round {action.version - 1}: the model is not finite")
        self.models[action.version] = model
        self.record.uplinks.extend(self._uplinks)
        self.record.lost.extend(self._lost)
        self.record.broadcasts.append((action.start, action.end))
        self._uplinks, self._lost = [], []
        work = (SERVER, action.version, 0)
        frames = split(MODEL, work, self._model_message(action), self._layout.frame_bytes)
        for index, slot in enumerate(range(action.start, action.end)):
            some = frames[index * self._layout.frames : (index + 1) * self._layout.frames]
            moment = slot * self._layout.slot_ns + self._layout.send_after_ns
            self._medium.send(SERVER, some, moment)
        self._note_receivers(action.receivers, action.version)

    def _note_receivers(self, receivers: Sequence[int], version: int) -> None:
        self.record.receivers.append(receivers)
        self._assigned.update(dict.fromkeys(receivers, version))
        needed = {*self._assigned.values(), version}
        self.models = {number: model for number, model in self.models.items() if number in needed}

    def _model_message(self, action: Broadcast) -> bytes:
        """Return the message of a model, as on other transports."""
        trainings = self._plan.delivered
        named = ",".join(f"{device}:{trainings[device]}" for device in action.receivers)
        label = Label("", round=max(0, action.version - 1), version=action.version)
        return protocol.encode(label, self.models[action.version], slot=str(action.end), receivers=named)
