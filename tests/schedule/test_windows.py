"""Windows of coverage: a loop over slots, written from docs/windows.md alone, agrees uplink by uplink."""

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from random_fleets import lost_rows, uplink_rows

from slotwise import InputError, Scenario, Timeline, simulate
from slotwise.fleet import Fleet, Window, Windows
from slotwise.schedule import (
    Asynchronous,
    Delivery,
    FleetLink,
    IntentionalDelay,
    Link,
    Policy,
    Scheduler,
    Simulator,
    Synchronous,
    Transmission,
    scheduler_for,
    simulator_of,
)
from slotwise.schedule.costs import server_usage, usage
from slotwise.schedule.events import Drive
from slotwise.schedule.policies import Participants
from slotwise.schedule.policy import FixedDelay

DEADLINE = 150


@dataclass
class Case:
    scenario: Scenario
    fleet: Fleet
    open: dict[int, list[bool]]  # device by device, whether it can send and receive in a slot
    options: dict[str, Any]


def random_case(number: int) -> Case:
    draw = Random(number)
    n = draw.randint(1, 6)
    scenario = Scenario(
        devices=n,
        group_size=draw.randint(1, n),
        compute_slots=3,
        link_slots=draw.randint(1, 3),
        sub_channels=draw.choice([1, 1, 2]),
        deadline=DEADLINE,
    )
    windows, is_open = random_windows(draw, n)
    fleet = Fleet(
        compute_slots=tuple(draw.randint(1, 12) for _ in range(n)),
        link_slots=tuple(draw.randint(1, 4) for _ in range(n)),
        uplink_loss=draw.choice([0.0, 0.0, 0.4]),
        jitter=draw.choice([0.0, 0.5]),
        retransmission=draw.choice(["next-turn", "at-once", "erasure"]),
        seed=number,
        windows=windows,
    )
    options: dict[str, Any] = {"policy": draw.choice(["sync", "async", "idfl"])}
    if options["policy"] == "idfl":
        options["delay"] = draw.randint(0, scenario.largest_delay)
    return Case(scenario, fleet, is_open, options)


def random_windows(draw: Random, devices: int) -> tuple[Windows, dict[int, list[bool]]]:
    """Windows that are long enough for any transmission, and the same slot by slot."""
    slots = range(DEADLINE + 50)
    if draw.random() < 0.5:
        period = draw.randint(6, 40)
        length = draw.randint(4, period - 1)
        offsets = [draw.randint(0, 60) for _ in range(devices)]
        is_open = {n: [(t - offset) % period < length for t in slots] for n, offset in enumerate(offsets, 1)}
        return Windows.periodic(period, length, offsets), is_open
    windows = []
    for device in range(1, devices + draw.randint(0, 1)):  # the last may always be in reach
        slot = draw.randint(0, 10)
        for _ in range(draw.randint(1, 9)):
            windows.append(Window(device, slot, slot + draw.randint(4, 20)))
            slot = windows[-1].closes + draw.randint(1, 20)
    windows = windows or [Window(1, 0, DEADLINE)]
    listed = {window.device for window in windows}
    spans = {n: [w for w in windows if w.device == n] for n in range(1, devices + 1)}
    return Windows(tuple(windows)), {
        n: [n not in listed or any(w.opens <= t < w.closes for w in spans[n]) for t in slots] for n in spans
    }


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
        while len(self.sending) < min(lacks, self.case.scenario.sub_channels):
            able = [(turn, n) for n, (turn, _) in self.ready.items() if self.can_send(n, slot)]
            if not able or (self.delivery.waits_for_all and self.computing):
                break
            n = min(able)[1]
            turn, version = self.ready.pop(n)
            attempt = self.attempts[n] = self.attempts.get(n, -1) + 1
            end = slot + self.case.fleet.link_slots[n - 1]
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
        self.busy += [("sending", n, slot) for n in self.sending]
        if self.listening:
            self.busy += [("receiving", n, slot) for n in self.listening[2]]


def naive(case: Case) -> Naive:
    scenario = case.scenario
    if case.options["policy"] == "sync":
        return Naive(case, Participants(scenario.devices, scenario.group_size)).run()
    return Naive(case, FixedDelay(scenario.devices, scenario.group_size, case.options.get("delay", 0))).run()


def played(case: Case, **options: Any) -> Timeline | None:
    try:
        return simulate(case.scenario, fleet=case.fleet, **{**case.options, **options})
    except InputError:
        return None


@pytest.mark.parametrize("part", range(8))
def test_windows_are_followed_as_the_loop_over_slots_follows_them(part: int) -> None:
    for number in range(part * 150, part * 150 + 150):
        case = random_case(number)
        timeline, expected = played(case), naive(case)
        rounds = [(start, end) for start, end in expected.broadcasts if end <= DEADLINE]
        if timeline is None:
            assert not rounds, number
            continue
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
            seen = [
                (kind, n) for kind, n, slot in expected.busy if slot < timeline.last_slot and kind == what
            ]
            counts = [seen.count((what, n)) for n in range(1, case.scenario.devices + 1)]
            assert getattr(counted, what).tolist() == counts, (number, what)


def test_the_server_sends_in_the_slots_of_broadcasts_and_repetitions() -> None:
    scenario = Scenario(devices=2, group_size=2, compute_slots=2, link_slots=2, deadline=60)
    windows = Windows.periodic(20, 8, (0, 10))
    timeline = simulate(
        scenario, "async", fleet=Fleet(compute_slots=(2, 2), link_slots=(2, 2), windows=windows)
    )
    assert len(timeline.repeats)
    assert server_usage(timeline).sending == 2 * (timeline.rounds + len(timeline.repeats))


def assert_within_windows(timeline: Timeline) -> None:
    windows = timeline.fleet.windows
    assert windows is not None
    sent = [row[1:] for row in uplink_rows(timeline) + lost_rows(timeline)]
    assert all(windows.covers(device, start, end) for device, _, start, end in sent)
    for version in range(1, timeline.models):
        start, end = timeline.broadcast_start[version - 1], timeline.broadcast_end[version - 1]
        assert all(windows.covers(n, int(start), int(end)) for n in timeline.receivers(version).tolist())
    assert all(windows.covers(n, start, end) for n, _, start, end in timeline.repeats.tolist())
    assert timeline.staleness.min(initial=0) >= 0


@pytest.mark.parametrize("number", range(60))
def test_just_in_time_delivery_stays_within_the_windows(number: int) -> None:
    case = random_case(number)
    case.options = {"policy": "idfl"}
    if (timeline := played(case)) is not None:
        assert_within_windows(timeline)


@dataclass(frozen=True)
class Uneven(Link):
    """Every second uplink takes far longer than is planned with."""

    devices: int
    planned_broadcast_slots: int = 1

    @property
    def planned_slots(self) -> tuple[int, ...]:
        return (1,) * self.devices

    def uplink(self, device: int, slot: int, attempt: int) -> Transmission:
        return Transmission(1 + 6 * (slot % 2))

    def broadcast(self, receivers: Any, slot: int) -> int:
        return 1 + slot % 3

    def snr_db(self, slot: int) -> Any:
        return np.zeros(self.devices)


@pytest.mark.parametrize("number", range(30))
def test_over_a_link_of_unknown_slots_an_uplink_is_broken_off_where_its_window_closes(number: int) -> None:
    case = random_case(number)
    fleet = replace(case.fleet, uplink_loss=0.0)
    link = Uneven(fleet.devices)
    try:
        timeline = simulate(case.scenario, "async", fleet=fleet, link=link)
    except InputError:
        return
    assert_within_windows(timeline)
    lengths = [(end - start, start % 2) for *_, start, end in lost_rows(timeline)]
    assert all(odd and length < 7 for length, odd in lengths)


def test_a_timeline_with_windows_is_read_as_it_was_written() -> None:
    timeline = played(random_case(4))
    assert timeline is not None
    assert Timeline.from_json(timeline.to_json()) == timeline
    assert timeline.first(2) == played(random_case(4), rounds=2)


@pytest.mark.parametrize(
    "policy", [Asynchronous(), Synchronous(), IntentionalDelay(), IntentionalDelay(delay=1)]
)
def test_no_faster_simulator_is_used(policy: Policy) -> None:
    scenario = Scenario(devices=2, group_size=1, compute_slots=5, deadline=80)
    fleet = Fleet(compute_slots=(5, 5), link_slots=(1, 1), windows=Windows.periodic(10, 4, (0, 0)))
    assert simulator_of(scenario, policy, fleet, FleetLink.of(scenario, fleet)) is Simulator.EVENTS


def test_a_restored_scheduler_continues_as_the_first_one() -> None:
    """A copy that is restored in every instant gives the same timeline."""

    class Restored(Scheduler):
        def actions(self, events: Any, slot: int = 0) -> Any:
            self.restore(self.state)
            return super().actions(events, slot)

    for number in range(100):
        case = random_case(number)
        records = []
        for kind in (Scheduler, Restored):
            group, size = case.scenario.group_size, case.scenario.devices
            link = FleetLink.of(case.scenario, case.fleet)
            scheduler = kind(
                group,
                FixedDelay(size, group),
                retransmission=case.fleet.retransmission,
                sub_channels=case.scenario.sub_channels,
                link=link,
                windows=case.fleet.windows,
            )
            records.append(Drive(scheduler, case.fleet, link).play(None, DEADLINE))
        assert records[0] == records[1], number


def test_devices_that_are_always_in_reach_give_the_schedule_without_windows() -> None:
    scenario = Scenario(devices=4, group_size=2, compute_slots=5, deadline=80)
    fleet = Fleet(compute_slots=(5, 4, 3, 9), link_slots=(1, 2, 1, 1))
    always = replace(fleet, windows=Windows((Window(1, 0, 1000),)))
    for options in ({"policy": "sync"}, {"policy": "async"}, {"policy": "idfl", "delay": 1}):
        plain, windowed = (simulate(scenario, fleet=devices, **options) for devices in (fleet, always))
        assert uplink_rows(plain) == uplink_rows(windowed)


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        (lambda: Windows(()), "at least one"),
        (lambda: Windows((Window(1, 4, 4),)), "closes is"),
        (lambda: Windows(((1, 2),)), "device, opens and closes"),
        (lambda: Windows((Window(1, 0, 4), Window(1, 4, 8))), "a slot in between"),
        (lambda: Windows((Window(1, 0, 9),), 9), "a slot in between"),
        (lambda: Windows((Window(1, 12, 14),), 9), "slots 0 to 8"),
        (lambda: Windows.periodic(10, 10, (0,)), "window_length = 10"),
    ],
)
def test_windows_that_cannot_be_are_refused(windows: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        windows()


def test_windows_too_short_for_an_uplink_or_a_broadcast_are_refused() -> None:
    scenario = Scenario(devices=2, group_size=1, compute_slots=5, link_slots=3, deadline=80)
    windows = Windows.periodic(10, 4, (0, 0))
    with pytest.raises(
        InputError, match="window_length = 4: must be at least 5, the slots of an uplink of device 2"
    ):
        simulate(scenario, "async", fleet=Fleet(compute_slots=(5, 5), link_slots=(1, 5), windows=windows))
    longer = replace(scenario, link_slots=6)
    with pytest.raises(InputError, match="window_length = 4: must be at least 6, the slots of a broadcast"):
        simulate(longer, "async", fleet=Fleet(compute_slots=(5, 5), link_slots=(1, 2), windows=windows))


def test_a_network_has_no_windows() -> None:
    scenario = Scenario(devices=1, group_size=1, compute_slots=5, deadline=80)
    fleet = Fleet(compute_slots=(5,), link_slots=(1,), windows=Windows.periodic(10, 4, (0,)))
    with pytest.raises(InputError, match="windows = given: must be omitted"):
        scheduler_for(scenario, "async", fleet=fleet)
