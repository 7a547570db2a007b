"""A dumb loop over slots that any fleet must agree with."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import ceil

from random_fleets import DEADLINE, Case

from slotwise import Scenario, Timeline
from slotwise.fleet import Fleet
from slotwise.schedule import Delivery, Selection, Waiting
from slotwise.schedule.policies.synchronous import Participants
from slotwise.schedule.policy import Booking


@dataclass
class Device:
    """What one device is up to."""

    doing: str = "waiting"  # away, waiting, receiving, computing, ready or sending
    wants: int | None = None  # the model it waits for
    version: int = 0
    left: int = 0  # slots until it has finished computing
    turn: int | None = 0  # None: behind those who are ready
    trainings: int = 0
    attempts: int = 0


@dataclass
class Transfer:
    """What the channel carries: an uplink of ``sender``, or a broadcast if that is None."""

    start: int
    end: int
    sender: int | None
    spoiled: bool = False


@dataclass
class SlotBySlot:
    """The rules of docs/unequal-devices.md, one slot after the other."""

    scenario: Scenario
    fleet: Fleet
    delay: int = 0
    synchronous: Participants | None = None
    plan: Timeline | None = None
    delivery: Delivery | None = None  # a user's own
    selection: Selection | None = None
    last_sender: int = 0
    k: int = 0
    updates: int = 0
    senders: list[int] = field(default_factory=list)
    channel: Transfer | None = None
    uplinks: list[tuple[int, ...]] = field(default_factory=list)
    lost: list[tuple[int, ...]] = field(default_factory=list)
    broadcasts: list[tuple[int, int]] = field(default_factory=list)
    receivers: list[list[int]] = field(default_factory=list)
    seen: list[list[str]] = field(default_factory=list)  # slot by slot, what each device does

    def run(self, slots: int) -> "SlotBySlot":
        n = self.scenario.devices
        self.state = {device: Device() for device in range(1, n + 1)}
        self.size = self.scenario.group_size
        for absence in self.fleet.absences:
            if absence.leaves == 0:
                self.state[absence.device].doing = "away"
        for device, model in self.first_models().items():
            if self.state[device].doing != "away":
                self.state[device].wants = model
        self.hand_out(0)
        self.start_computing(0)
        for slot in range(slots):
            if slot:
                self.come_and_go(slot)
            if self.channel is None:
                self.use_channel(slot)
            self.seen.append([device.doing for device in self.state.values()])
            self.pass_slot(slot + 1)
        kept = [start < slots and end <= slots for start, end in self.broadcasts]
        self.broadcasts = self.broadcasts[: sum(kept)]
        self.receivers = self.receivers[: sum(kept) + 1]
        self.uplinks = [row for row in self.uplinks if row[0] < sum(kept)]
        self.lost = [row for row in self.lost if row[0] < sum(kept)]
        return self

    def first_models(self) -> dict[int, int]:
        """Algorithm 2's initial sets, the chosen ones of synchronous FL, or what the plan says."""
        everyone, size, alpha = list(self.state), self.scenario.group_size, self.delay
        if self.synchronous:
            return dict.fromkeys(self.synchronous.participants(0, set(self.doing("away"))), 0)
        if self.delivery:
            return self.booked(self.delivery.initial(set(self.doing("away"))))
        if self.plan:
            return {n: max(0, self.planned(n)[0] - self.rounds_saved()) for n in everyone}
        alone = (self.scenario.groups - alpha) * size
        return {n: 0 if n <= alone else 1 + (n - 1 - alone) // size for n in everyone}

    def booked(self, bookings: Iterable[Booking]) -> dict[int, int]:
        return {n: version for version, devices in bookings for n in devices}

    def planned(self, device: int) -> list[int]:
        assert self.plan is not None
        return [v for v in range(self.plan.models) if device in self.plan.receivers(v).tolist()]

    def next_model(self, device: int) -> int:
        if not self.plan:
            return self.k + 1 + self.delay
        return self.k + 1 + max(0, self.planned_wait(device) - self.rounds_saved())

    def planned_wait(self, device: int) -> int:
        """Of the last planned uplink by now after which the plan has another model; or none."""
        assert self.plan is not None
        sent = self.plan.round[self.plan.device == device].tolist()
        waits = [(k, after - k - 1) for k, after in zip(sent, self.planned(device)[1:], strict=False)]
        return next((wait for k, wait in reversed(waits) if k <= self.k), 0)

    def rounds_saved(self) -> int:
        n, size = self.scenario.devices, self.size
        return ceil(n / size) - ceil((n - len(self.doing("away"))) / size)

    def doing(self, *what: str) -> list[int]:
        return [n for n, device in self.state.items() if device.doing in what]

    def wanting(self, model: int) -> list[int]:
        return [n for n, device in self.state.items() if device.wants == model]

    def come_and_go(self, slot: int) -> None:
        for absence in self.fleet.absences:
            device = self.state[absence.device]
            if absence.leaves == slot:
                device.doing, device.wants = "away", None
                if absence.device in self.senders:
                    self.senders.remove(absence.device)
                if self.channel and self.channel.sender == absence.device:
                    self.channel.spoiled = True
            if absence.returns == slot:
                device.doing = "waiting"
                device.wants = None if self.synchronous else self.k + 1
                if self.delivery:
                    device.wants = self.delivery.joining(self.k)

    def use_channel(self, slot: int) -> None:
        waits_for_all = self.synchronous or (self.delivery and self.delivery.waits_for_all)
        ready, working = self.doing("ready"), self.doing("computing", "receiving")
        turns = [self.state[n].turn for n in ready]
        for n in ready:
            if self.state[n].turn is None:
                self.state[n].turn = max([slot, *(turn + 1 for turn in turns if turn is not None)])
        if self.updates == self.size:
            self.close_round(slot)
        elif ready and not (waits_for_all and working):
            first = self.last_sender = self.next_sender(ready)
            self.state[first].doing = "sending"
            self.channel = Transfer(slot, slot + self.fleet.link_slots[first - 1], first)
        elif not working:
            self.close_round(slot)

    def next_sender(self, ready: list[int]) -> int:
        waiting = sorted(Waiting(self.state[n].turn or 0, n, self.state[n].version) for n in ready)
        if self.selection and waiting[0].slot >= 0:
            return self.selection(waiting, self.k, self.last_sender).device
        return waiting[0].device

    def close_round(self, slot: int) -> None:
        for since, size in self.scenario.group_size_changes:
            self.size = size if since <= slot else self.size
        if self.synchronous:
            self.synchronous = replace(self.synchronous, group_size=self.size)
            for device in self.synchronous.participants(self.k + 1, set(self.doing("away"))):
                self.state[device].wants = self.k + 1
        elif self.delivery:
            bookings = self.delivery.after(self.k, tuple(self.senders), set(self.doing("away")))
            for device, version in self.booked(bookings).items():
                self.state[device].wants = version
            self.senders.clear()
        else:
            for device in self.senders:
                self.state[device].wants = self.next_model(device)
            self.senders.clear()
        nobody_works = not self.doing("ready", "computing", "receiving")
        wanted = [device.wants for device in self.state.values() if device.wants is not None]
        if nobody_works and wanted and self.k + 1 not in wanted:
            for device in self.wanting(min(wanted)):
                self.state[device].wants = self.k + 1
        if self.updates or self.wanting(self.k + 1):
            self.k, self.updates, self.senders = self.k + 1, 0, []
            self.channel = Transfer(slot, slot + self.scenario.link_slots, None)
            self.broadcasts.append((self.channel.start, self.channel.end))
            self.hand_out(self.k)

    def hand_out(self, version: int) -> None:
        self.receivers.append(self.wanting(version))
        for n in self.wanting(version):
            device, training = self.state[n], self.state[n].trainings
            left = self.fleet.slots_of_training(n, training)
            self.state[n] = Device("receiving", None, version, left, 0, training + 1, device.attempts)

    def start_computing(self, version: int) -> None:
        for device in self.state.values():
            if device.doing == "receiving" and device.version == version:
                device.doing = "computing"

    def pass_slot(self, slot: int) -> None:
        for n in self.doing("computing"):
            device = self.state[n]
            device.left -= 1
            if not device.left:
                turn = self.planned_turn(n, device.version)
                device.doing, device.turn = "ready", slot if turn is None else turn
        if self.channel and self.channel.end == slot:
            self.finish(self.channel)
            self.channel = None

    def planned_turn(self, n: int, version: int) -> int | None:
        if not self.plan:
            return None
        rows = zip(self.plan.device, self.plan.version, self.plan.start, strict=True)
        return next((int(start) for device, v, start in rows if (device, v) == (n, version)), None)

    def finish(self, transfer: Transfer) -> None:
        if transfer.sender is None:
            self.start_computing(self.k)
            return
        device = self.state[transfer.sender]
        row = (self.k, transfer.sender, device.version, transfer.start, transfer.end)
        damaged = self.fleet.loses(transfer.sender, device.attempts)
        device.attempts += 1
        if transfer.spoiled:
            self.lost.append(row)
        elif damaged:
            self.lost.append(row)
            device.doing = "ready"
            device.turn = -1 if self.fleet.retransmission == "at-once" else None
        else:
            self.uplinks.append(row)
            self.updates += 1
            self.senders.append(transfer.sender)
            device.doing = "waiting"


def naive(case: Case) -> SlotBySlot:
    scenario, options = case.scenario, dict(case.options)
    if options.pop("policy") == "sync":
        chosen = Participants(scenario.devices, scenario.group_size, **options)
        return SlotBySlot(scenario, case.fleet, synchronous=chosen).run(DEADLINE)
    return SlotBySlot(scenario, case.fleet, options.get("delay", 0)).run(DEADLINE)
