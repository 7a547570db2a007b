"""A loop over slots that is written from docs/windows.md alone, and the cases that it plays."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from random_fleets import lost_rows, uplink_rows

from slotwise import InputError, Scenario, Timeline, simulate
from slotwise.fleet import Fleet, Slotframe, Windows
from slotwise.schedule import Delivery
from slotwise.schedule.costs import usage
from slotwise.schedule.policies import Participants
from slotwise.schedule.policy import FixedDelay

DEADLINE = 150


@dataclass
class Case:
    scenario: Scenario
    fleet: Fleet
    open: dict[int, list[bool]]  # device by device, whether it can send and receive in a slot
    options: dict[str, Any]


def drawn_case(
    draw: Random, scenario: Scenario, reach: Windows | Slotframe, is_open: dict[int, list[bool]], seed: int
) -> Case:
    """A case with these windows or owned slots; devices and schedule are drawn."""
    everyone = range(scenario.devices)
    fleet = Fleet(
        compute_slots=tuple(draw.randint(1, 12) for _ in everyone),
        link_slots=tuple(draw.randint(1, 4) for _ in everyone),
        uplink_loss=draw.choice([0.0, 0.0, 0.4]),
        jitter=draw.choice([0.0, 0.5]),
        retransmission=draw.choice(["next-turn", "at-once", "erasure"]),
        seed=seed,
        windows=reach,
    )
    options: dict[str, Any] = {"policy": draw.choice(["sync", "async", "idfl"])}
    if options["policy"] == "idfl":
        options["delay"] = draw.randint(0, scenario.largest_delay)
    return Case(scenario, fleet, is_open, options)


@dataclass
class Naive:
    """The rules of docs/windows.md, one slot after the other."""

    case: Case
    delivery: Delivery
    k: int = 0
    sent: int = 0  # updates of this round, erased ones included
    computing: dict[int, list[int]] = field(default_factory=dict)  # device: version, slots left
    ready: dict[int, list[int]] = field(default_factory=dict)  # device: turn, version
    sending: dict[int, list[int]] = field(default_factory=dict)  # device: turn, version, start, end, lost
    listening: tuple[int, int, list[int], int] | None = None  # start, end, devices, version
    wants: dict[int, int] = field(default_factory=dict)
    missed: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    senders: list[int] = field(default_factory=list)
    received: dict[int, int] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    uplinks: list[tuple[int, ...]] = field(default_factory=list)
    lost: list[tuple[int, ...]] = field(default_factory=list)
    broadcasts: list[tuple[int, int]] = field(default_factory=list)
    repeats: list[tuple[int, ...]] = field(default_factory=list)
    busy: list[tuple[str, int, int]] = field(default_factory=list)  # what, device, slot

    def fits(self, device: int, slot: int, slots: int) -> bool:
        return all(self.case.open[device][slot : slot + slots])

    def can_send(self, device: int, slot: int) -> bool:
        return self.fits(device, slot, self.case.fleet.link_slots[device - 1])

    def can_receive(self, device: int, slot: int) -> bool:
        return self.fits(device, slot, self.case.scenario.link_slots)

    def end_of_uplink(self, device: int, slot: int) -> int:
        return slot + self.case.fleet.link_slots[device - 1]

    def sends_in(self, device: int, slot: int) -> bool:
        """Return whether a device whose uplink is under way sends in a slot."""
        return True

    @property
    def at_once(self) -> int:
        return self.case.scenario.sub_channels

    def run(self) -> "Naive":
        for version, devices in self.delivery.initial(frozenset()):
            self.wants |= dict.fromkeys(devices, version)
        self.start_training([n for n, version in self.wants.items() if version == 0], 0, 0)
        for slot in range(DEADLINE + 1):
            self.end_what_ends(slot)
            self.leave(slot)
            if self.listening is None:
                self.decide(slot)
            self.pass_slot(slot)
        return self

    def start_training(self, devices: list[int], version: int, complete: int) -> None:
        for n in devices:
            number = self.received[n] = self.received.get(n, -1) + 1
            self.computing[n] = [version, self.case.fleet.slots_of_training(n, number, complete)]
            self.wants.pop(n, None)

    def end_what_ends(self, slot: int) -> None:
        if self.listening and self.listening[1] == slot:
            _, _, devices, version = self.listening
            self.start_training(devices, version, slot)
            self.listening = None
        for n in [n for n, (_, left) in self.computing.items() if left == 0]:
            version, _ = self.computing.pop(n)
            self.ready[n] = [slot, version]
        ended = {n: self.sending.pop(n) for n in sorted(self.sending) if self.sending[n][3] == slot}
        for n, (_, version, start, end, lost) in ended.items():
            (self.lost if lost else self.uplinks).append((self.k, n, version, start, end))
            again = self.case.fleet.retransmission
            if not lost or again == "erasure":
                self.sent += 1
                self.senders.append(n)
            else:
                waiting = [turn for other, (turn, _) in self.ready.items() if self.can_send(other, slot)]
                last = max([slot, *(turn + 1 for turn in waiting)])
                self.ready[n] = [-1 if again == "at-once" else last, version]

    def leave(self, slot: int) -> None:
        """Devices that wait for a window and have none any more take no part."""
        later = range(slot, DEADLINE + 40)
        for n in list(self.ready):
            if not self.has_windows(n) and not any(self.can_send(n, t) for t in later):
                del self.ready[n]
                self.gone.add(n)
        if self.listening is None:
            for n in list(self.missed):
                if not self.has_windows(n) and not any(self.can_receive(n, t) for t in later):
                    self.missed.discard(n)
                    self.gone.add(n)

    def has_windows(self, n: int) -> bool:
        """Return whether windows repeat for ever, or the device is always in reach."""
        windows = self.case.fleet.windows
        assert windows is not None
        return windows.period is not None or all(self.case.open[n])

    def decide(self, slot: int) -> None:
        lacks = self.case.scenario.group_size - self.sent
        if lacks:
            awaited = sorted(n for n in self.missed if self.can_receive(n, slot))
            if awaited:
                if not self.sending:
                    self.broadcast(slot, awaited, self.k)
                    self.repeats += [(n, self.k, slot, self.listening[1]) for n in awaited]
                return
        while len(self.sending) < min(lacks, self.at_once):
            able = [(turn, n) for n, (turn, _) in self.ready.items() if self.can_send(n, slot)]
            if not able or (self.delivery.waits_for_all and self.computing):
                break
            n = min(able)[1]
            turn, version = self.ready.pop(n)
            attempt = self.attempts[n] = self.attempts.get(n, -1) + 1
            end = self.end_of_uplink(n, slot)
            self.sending[n] = [turn, version, slot, end, self.case.fleet.loses(n, attempt)]
        if not self.sending and not (lacks and (self.computing or self.ready or self.missed)):
            self.close_round(slot)

    def close_round(self, slot: int) -> None:
        for version, devices in self.delivery.after(self.k, tuple(self.senders), frozenset(self.gone)):
            for n in devices:
                if n not in self.gone and n not in self.missed:
                    self.wants[n] = version
        self.senders = []
        following = self.k + 1
        if not (self.computing or self.ready or self.missed) and self.wants:
            earliest = min(self.wants.values())
            if following not in self.wants.values():
                self.wants = {n: following if v == earliest else v for n, v in self.wants.items()}
        booked = [n for n, version in self.wants.items() if version == following]
        if not self.sent and not booked:
            return
        self.k, self.sent = following, 0
        for n in booked:
            del self.wants[n]
        self.missed |= {*booked}
        reached = sorted(n for n in self.missed if self.can_receive(n, slot))
        self.broadcast(slot, reached, following)
        self.broadcasts.append((slot, self.listening[1]))

    def broadcast(self, slot: int, devices: list[int], version: int) -> None:
        self.missed -= {*devices}
        self.listening = (slot, slot + self.case.scenario.link_slots, devices, version)

    def pass_slot(self, slot: int) -> None:
        for n, training in self.computing.items():
            training[1] -= 1
            self.busy.append(("computing", n, slot))
        self.busy += [("sending", n, slot) for n in self.sending if self.sends_in(n, slot)]
        if self.listening:
            self.busy += [("receiving", n, slot) for n in self.listening[2]]


def naive(case: Case, rules: type[Naive] = Naive) -> Naive:
    scenario = case.scenario
    if case.options["policy"] == "sync":
        return rules(case, Participants(scenario.devices, scenario.group_size)).run()
    return rules(case, FixedDelay(scenario.devices, scenario.group_size, case.options.get("delay", 0))).run()


def played(case: Case, **options: Any) -> Timeline | None:
    try:
        return simulate(case.scenario, fleet=case.fleet, **{**case.options, **options})
    except InputError:
        return None


def assert_same(number: int, timeline: Timeline | None, expected: Naive) -> None:
    """Compare uplinks, broadcasts, repetitions and the slots of all activities."""
    rounds = [(start, end) for start, end in expected.broadcasts if end <= DEADLINE]
    if timeline is None:
        assert not rounds, number
        return
    in_time = range(len(rounds))
    # Uplinks that start together are listed by device.
    arrived = sorted((u for u in expected.uplinks if u[0] in in_time), key=lambda u: (u[0], u[3], u[1]))
    assert uplink_rows(timeline) == arrived, number
    assert sorted(lost_rows(timeline)) == sorted(u for u in expected.lost if u[0] in in_time), number
    slots = zip(timeline.broadcast_start.tolist(), timeline.broadcast_end.tolist(), strict=True)
    assert list(slots) == rounds, number
    before = [row for row in expected.repeats if row[2] < timeline.last_slot]
    assert sorted(map(tuple, timeline.repeats.tolist())) == sorted(before), number
    counted = usage(timeline)
    for what in ("computing", "sending", "receiving"):
        seen = [(k, n) for k, n, slot in expected.busy if slot < timeline.last_slot and k == what]
        counts = [seen.count((what, n)) for n in range(1, expected.case.scenario.devices + 1)]
        assert getattr(counted, what).tolist() == counts, (number, what)
