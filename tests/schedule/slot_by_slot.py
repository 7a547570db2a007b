"""A dumb loop over slots that any fleet must agree with."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from random_fleets import DEADLINE, Case

from slotwise import Scenario, Timeline
from slotwise.fleet import Fleet
from slotwise.schedule import Delivery, FleetLink, Link, Selection, Transmission, Waiting
from slotwise.schedule.link import has_groups
from slotwise.schedule.policies import Participants
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
    arrived: int = 0  # updates
    last_round: int = -1  # of the last one that arrived
    charge: int = 0  # nanojoules
    pays: bool = True  # False: waits for energy
    gone: bool = False  # it can never pay


@dataclass
class Transfer:
    """What a sub-channel carries: an uplink of ``sender``, or a broadcast if that is None."""

    start: int
    end: int
    sender: int | None
    spoiled: bool = False
    damaged: bool = False


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
    partner: Callable[[Waiting, Sequence[Waiting]], Waiting] | None = None
    last_sender: int = 0
    k: int = 0
    updates: int = 0
    senders: list[int] = field(default_factory=list)
    channel: list[Transfer] = field(default_factory=list)
    link: Link | None = None
    uplinks: list[tuple[int, ...]] = field(default_factory=list)
    lost: list[tuple[int, ...]] = field(default_factory=list)
    broadcasts: list[tuple[int, int]] = field(default_factory=list)
    receivers: list[list[int]] = field(default_factory=list)
    seen: list[list[str]] = field(default_factory=list)  # slot by slot, what each device does

    def run(self, slots: int) -> "SlotBySlot":
        n = self.scenario.devices
        self.state = {device: Device() for device in range(1, n + 1)}
        self.size = self.scenario.group_size
        self.link = self.link or FleetLink.of(self.scenario, self.fleet)
        for number, device in self.state.items():
            device.charge = self.battery("initial", number)
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
            self.start_paid_work(slot)
            if self.scenario.duplex == "fdd" or not any(one.sender is None for one in self.channel):
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
            return dict.fromkeys(self.participants(0, 0), 0)
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
                for transfer in self.channel:
                    transfer.spoiled |= transfer.sender == absence.device
            if absence.returns == slot:
                device.doing = "waiting"
                device.wants = None if self.synchronous else self.k + 1
                device.gone = False
                if self.delivery:
                    device.wants = self.delivery.joining(self.k)

    def use_channel(self, slot: int) -> None:
        waits_for_all = self.synchronous or (self.delivery and self.delivery.waits_for_all)
        for n in self.doing("ready"):  # lost ones go behind, the lower index first
            if self.state[n].turn is None:
                turns = [self.state[other].turn for other in self.doing("ready")]
                self.state[n].turn = max([slot, *(turn + 1 for turn in turns if turn is not None)])
        under_way = len([one for one in self.channel if one.sender is not None])
        chosen: list[int] = []
        most = self.scenario.sub_channels
        if has_groups(self.link):  # the next group begins when nobody sends
            most = 0 if under_way else self.link.most_senders
        while True:
            ready, working = self.doing("ready"), self.doing("computing", "receiving", "charging")
            training = [n for n in working if self.state[n].left]  # others charge to send again
            at_once = under_way + len(chosen)
            if at_once >= most or at_once + self.updates >= self.size:
                break
            if not ready or (waits_for_all and training):
                break
            self.last_sender = self.next_sender(ready, slot, chosen)
            self.state[self.last_sender].doing = "sending"
            chosen.append(self.last_sender)
        for n, sent in zip(chosen, self.transmissions(chosen, slot), strict=True):
            self.start_uplink(n, slot, sent)
        if not self.channel and (self.updates == self.size or not working):
            self.close_round(slot)
            if self.channel and self.scenario.duplex == "fdd":  # the next round begins beside the broadcast
                self.use_channel(slot)

    def transmissions(self, chosen: list[int], slot: int) -> Sequence[Transmission]:
        assert self.link is not None
        attempts = [self.state[n].attempts for n in chosen]
        if has_groups(self.link):
            return self.link.uplinks(chosen, slot, attempts) if chosen else []
        return [self.link.uplink(n, slot, k) for n, k in zip(chosen, attempts, strict=True)]

    def start_uplink(self, n: int, slot: int, sent: Transmission) -> None:
        device = self.state[n]
        slots, damaged, power = sent
        each = round(self.battery("sending", n) * power)
        if each:
            can = device.charge // each
            slots, damaged = min(slots, can), damaged or slots > can
        device.charge -= each * self.slots_present(n, slot, slots)
        device.attempts += 1
        self.channel.append(Transfer(slot, slot + slots, n, damaged=damaged))

    def next_sender(self, ready: list[int], slot: int, group: list[int]) -> int:
        lost = sum(row[0] == self.k for row in self.lost)
        views = (self.view(n, self.state[n].turn or 0, self.state[n].version, slot) for n in ready)
        waiting = sorted(view._replace(lost_in_round=lost) for view in views)
        if group and self.partner and waiting[0].slot >= 0:
            return self.partner(self.view(group[0], 0, 0, slot), waiting).device
        if self.selection and waiting[0].slot >= 0:
            return self.selection(waiting, self.k, self.last_sender).device
        return waiting[0].device

    def view(self, n: int, turn: int, version: int, slot: int) -> Waiting:
        device, link = self.state[n], self.link
        assert link is not None
        age = self.k - device.last_round
        snr, planned = float(link.snr_db(slot)[n - 1]), link.planned_slots[n - 1]
        return Waiting(turn, n, version, age, device.arrived, snr, planned)

    def participants(self, k: int, slot: int) -> Sequence[int]:
        assert self.synchronous is not None
        away, choose = set(self.doing("away")), self.synchronous.participant_selection
        if choose is None:
            return self.synchronous.participants(k, away)
        there, found = [self.view(n, slot, k, slot) for n in self.state if n not in away], [0]
        while there and len(found) <= self.size:
            chosen = choose(there, k, found[-1])
            there.remove(chosen)
            found.append(chosen.device)
        return found[1:]

    def battery(self, name: str, n: int) -> int:
        """A figure of the battery in nanojoules; 0 where there is none."""
        return self.fleet.batteries.nanojoules(name, n) if self.fleet.batteries else 0

    def slots_present(self, n: int, slot: int, slots: int) -> int:
        leaves = [a.leaves for a in self.fleet.absences if a.device == n and slot < a.leaves < slot + slots]
        return min([slots, *(slot_ - slot for slot_ in leaves)])

    def reserve(self, n: int) -> int:
        assert self.link is not None
        return self.battery("sending", n) * self.link.planned_slots[n - 1]

    def start_paid_work(self, slot: int) -> None:
        """Devices that waited for energy start to compute, or queue again, once they can pay."""
        for n in self.doing("charging"):
            device = self.state[n]
            training = self.battery("computing", n) * device.left
            if device.charge >= training + self.reserve(n):
                device.charge -= self.battery("computing", n) * self.slots_present(n, slot, device.left)
                device.doing = "computing" if device.left else "ready"
                if not device.left:
                    turn = self.planned_turn(n, device.version)
                    device.turn = slot if turn is None else turn
            elif not self.can_ever_pay(n, training + self.reserve(n), slot):
                device.doing, device.gone = "away", True

    def close_round(self, slot: int) -> None:
        for since, size in self.scenario.group_size_changes:
            self.size = size if since <= slot else self.size
        if self.synchronous:
            self.synchronous = replace(self.synchronous, group_size=self.size)
            for device in self.participants(self.k + 1, slot):
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
        nobody_works = not self.doing("ready", "computing", "receiving", "charging")
        wanted = [device.wants for device in self.state.values() if device.wants is not None]
        if nobody_works and wanted and self.k + 1 not in wanted:
            for device in self.wanting(min(wanted)):
                self.state[device].wants = self.k + 1
        if self.updates or self.wanting(self.k + 1):
            self.k, self.updates, self.senders = self.k + 1, 0, []
            assert self.link is not None
            end = slot + self.link.broadcast(self.wanting(self.k), slot)
            self.channel = [Transfer(slot, end, None)]
            self.broadcasts.append((slot, end))
            self.hand_out(self.k)

    def hand_out(self, version: int) -> None:
        self.receivers.append(self.wanting(version))
        complete = self.broadcasts[-1][1] if self.broadcasts else 0
        for n in self.wanting(version):
            device = self.state[n]
            device.doing, device.wants, device.version, device.turn = "receiving", None, version, 0
            device.left = self.fleet.slots_of_training(n, device.trainings, complete)
            device.trainings += 1

    def start_computing(self, version: int) -> None:
        for device in self.state.values():
            if device.doing == "receiving" and device.version == version:
                device.doing = "charging" if self.fleet.batteries else "computing"

    def pass_slot(self, slot: int) -> None:
        for n in self.doing("computing"):
            device = self.state[n]
            device.left -= 1
            if not device.left:
                turn = self.planned_turn(n, device.version)
                device.doing, device.turn = "ready", slot if turn is None else turn
        self.harvest(slot - 1)
        for transfer in [transfer for transfer in self.channel if transfer.end == slot]:
            self.finish(transfer)
            self.channel.remove(transfer)

    def harvest(self, slot: int) -> None:
        if self.fleet.batteries:
            for n, device in self.state.items():
                gained = int(self.fleet.batteries.harvested(n, slot, slot + 1)[0])
                device.charge = min(device.charge + gained, self.battery("capacity", n))

    def can_ever_pay(self, n: int, needed: int, slot: int) -> bool:
        """It looks far ahead; nothing random in a test takes that long."""
        assert self.fleet.batteries is not None
        charge = self.state[n].charge + int(self.fleet.batteries.harvested(n, slot, slot + 100_000).sum())
        return min(charge, self.battery("capacity", n)) >= needed

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
        erased = self.fleet.retransmission == "erasure"
        if transfer.spoiled:
            self.lost.append(row)
            self.updates += erased
        elif transfer.damaged and not erased:
            self.lost.append(row)
            device.doing = "ready"
            device.turn = -1 if self.fleet.retransmission == "at-once" else None
            if self.fleet.batteries and device.charge < self.reserve(transfer.sender):
                device.doing = "charging"
        else:
            (self.lost if transfer.damaged else self.uplinks).append(row)
            self.updates += 1
            self.senders.append(transfer.sender)
            device.doing = "waiting"
            if not transfer.damaged:
                device.arrived, device.last_round = device.arrived + 1, self.k


def naive(case: Case) -> SlotBySlot:
    scenario, options = case.scenario, dict(case.options)
    if options.pop("policy") == "sync":
        chosen = Participants(scenario.devices, scenario.group_size, **options)
        return SlotBySlot(scenario, case.fleet, synchronous=chosen).run(DEADLINE)
    return SlotBySlot(scenario, case.fleet, options.get("delay", 0)).run(DEADLINE)
