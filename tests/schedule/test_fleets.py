"""What must hold for any fleet, and a dumb loop over slots that any fleet must agree with."""

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from slotwise import InputError, Scenario, Scheduler, Timeline, simulate
from slotwise.fleet import Absence, Fleet
from slotwise.schedule import Delayed, Planned, Synchronous, usage
from slotwise.schedule.events import Record, drive
from slotwise.schedule.scheduler import Action, Event

MANY = settings(max_examples=300)
DEADLINE = 120


@st.composite
def absences(draw: st.DrawFn, devices: int) -> tuple[Absence, ...]:
    """Some devices come late, some leave for good, some come and go."""
    found = []
    for device in draw(st.sets(st.integers(1, devices), max_size=devices)):
        cuts = sorted(draw(st.sets(st.integers(0, DEADLINE + 10), min_size=1, max_size=5)))
        pairs = zip(cuts[::2], [*cuts[1::2], None], strict=False)
        found += [Absence(device, leaves, returns) for leaves, returns in pairs]
    return tuple(found)


@st.composite
def scenarios(draw: st.DrawFn, deadline: int | None = DEADLINE) -> Scenario:
    devices = draw(st.integers(1, 7))
    return Scenario(
        devices=devices,
        group_size=draw(st.integers(1, devices)),
        compute_slots=draw(st.integers(1, 9)),
        link_slots=draw(st.integers(1, 3)),
        deadline=deadline,
    )


@st.composite
def faultless_fleets(draw: st.DrawFn, scenario: Scenario, slowest: int = 25) -> Fleet:
    n = scenario.devices
    return Fleet(
        compute_slots=tuple(draw(st.lists(st.integers(1, slowest), min_size=n, max_size=n))),
        link_slots=tuple(draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))),
    )


@st.composite
def fleets(draw: st.DrawFn, scenario: Scenario) -> Fleet:
    return replace(
        draw(faultless_fleets(scenario)),
        jitter=draw(st.sampled_from([0.0, 0.3, 0.9])),
        loss=draw(st.sampled_from([0.0, 0.1, 0.7])),
        retransmission=draw(st.sampled_from(["next-turn", "at-once"])),
        absences=draw(st.just(()) | absences(scenario.devices)),
        seed=draw(st.integers(0, 5)),
    )


@st.composite
def schedules(draw: st.DrawFn, scenario: Scenario) -> dict[str, Any]:
    schedule = draw(st.sampled_from(["sync", "async", "idfl"]))
    if schedule == "idfl":
        return {"schedule": schedule, "delay": draw(st.integers(0, scenario.largest_delay))}
    if schedule == "sync":
        ways = st.sampled_from(["round-robin", "random"])
        return {"schedule": schedule, "participation": draw(ways), "seed": draw(st.integers(0, 9))}
    return {"schedule": schedule}


class Case(NamedTuple):
    scenario: Scenario
    fleet: Fleet
    options: dict[str, Any]

    def play(self, **changes: Any) -> Timeline | None:
        """The timeline; None where no round fits."""
        try:
            return simulate(self.scenario, fleet=self.fleet, **self.options | changes)
        except InputError:
            return None


@st.composite
def cases(draw: st.DrawFn, *, planned: bool = True) -> Case:
    scenario = draw(scenarios())
    just_in_time = st.just({"schedule": "idfl", "delay": "auto"})
    options = draw(schedules(scenario) | just_in_time if planned else schedules(scenario))
    return Case(scenario, draw(fleets(scenario)), options)


# ---------------------------------------------------------------- the dumb loop over slots


@dataclass
class Device:
    """What one device is up to."""

    doing: str = "waiting"  # away, waiting, receiving, computing, ready or sending
    wants: int | None = None  # the model it waits for
    version: int = 0
    left: int = 0  # slots until it has finished computing
    turn: int = 0
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
    synchronous: Synchronous | None = None
    plan: Timeline | None = None
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
        if self.plan:
            return {n: max(0, self.planned(n)[0] - self.rounds_saved()) for n in everyone}
        alone = (self.scenario.groups - alpha) * size
        return {n: 0 if n <= alone else 1 + (n - 1 - alone) // size for n in everyone}

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
        n, size = self.scenario.devices, self.scenario.group_size
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

    def use_channel(self, slot: int) -> None:
        ready, working = self.doing("ready"), self.doing("computing", "receiving")
        if self.updates == self.scenario.group_size:
            self.close_round(slot)
        elif ready and not (self.synchronous and working):
            first = min(ready, key=lambda n: (self.state[n].turn, n))
            self.state[first].doing = "sending"
            self.channel = Transfer(slot, slot + self.fleet.link_slots[first - 1], first)
        elif not working:
            self.close_round(slot)

    def close_round(self, slot: int) -> None:
        if self.synchronous:
            for device in self.synchronous.participants(self.k + 1, set(self.doing("away"))):
                self.state[device].wants = self.k + 1
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
            device.turn = -1 if self.fleet.retransmission == "at-once" else transfer.end
        else:
            self.uplinks.append(row)
            self.updates += 1
            self.senders.append(transfer.sender)
            device.doing = "waiting"


def uplink_rows(timeline: Timeline) -> list[tuple[int, ...]]:
    columns = (timeline.round, timeline.device, timeline.version, timeline.start, timeline.end)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def lost_rows(timeline: Timeline) -> list[tuple[int, ...]]:
    return [tuple(row) for row in timeline.lost.tolist()]


def naive(case: Case) -> SlotBySlot:
    scenario, options = case.scenario, dict(case.options)
    if options.pop("schedule") == "sync":
        chosen = Synchronous(scenario.devices, scenario.group_size, **options)
        return SlotBySlot(scenario, case.fleet, synchronous=chosen).run(DEADLINE)
    return SlotBySlot(scenario, case.fleet, options.get("delay", 0)).run(DEADLINE)


@MANY
@given(cases(planned=False))
def test_any_fleet_is_driven_as_the_dumb_loop_over_slots_drives_it(case: Case) -> None:
    expected, timeline = naive(case), case.play()
    if timeline is None:
        assert expected.broadcasts == []
        return
    slots = zip(timeline.broadcast_start.tolist(), timeline.broadcast_end.tolist(), strict=True)
    assert uplink_rows(timeline) == expected.uplinks
    assert lost_rows(timeline) == expected.lost
    assert list(slots) == expected.broadcasts
    assert [timeline.receivers(v).tolist() for v in range(timeline.models)] == expected.receivers


@MANY
@given(cases(planned=False))
def test_slots_of_each_device_are_counted_as_the_dumb_loop_counts_them(case: Case) -> None:
    if (timeline := case.play()) is None:
        return
    by_device = list(zip(*naive(case).seen[: timeline.last_slot], strict=True))
    counted = usage(timeline)
    assert counted.computing.tolist() == [seen.count("computing") for seen in by_device]
    assert counted.sending.tolist() == [seen.count("sending") for seen in by_device]
    assert counted.receiving.tolist() == [seen.count("receiving") for seen in by_device]
    assert counted.idle.tolist() == [seen.count("waiting") + seen.count("ready") for seen in by_device]
    assert sum(counted).tolist() == [timeline.last_slot - seen.count("away") for seen in by_device]


@MANY
@given(case=cases(planned=False), data=st.data())
def test_the_beginning_of_a_run_has_spent_what_the_dumb_loop_has_by_then(
    case: Case, data: st.DataObject
) -> None:
    if (timeline := case.play()) is None:
        return
    rounds = data.draw(st.integers(1, timeline.rounds))
    beginning = timeline.first(rounds)
    assert beginning.last_slot == timeline.broadcast_end[rounds - 1]
    by_device = list(zip(*naive(case).seen[: beginning.last_slot], strict=True))
    counted = usage(beginning)
    assert counted.computing.tolist() == [seen.count("computing") for seen in by_device]
    assert counted.sending.tolist() == [seen.count("sending") for seen in by_device]
    assert counted.receiving.tolist() == [seen.count("receiving") for seen in by_device]
    assert counted.idle.tolist() == [seen.count("waiting") + seen.count("ready") for seen in by_device]


@given(cases())
def test_the_beginning_of_all_rounds_is_the_whole(case: Case) -> None:
    if (timeline := case.play()) is not None:
        assert timeline.first(timeline.rounds) == timeline


def driven(scenario: Scenario, fleet: Fleet, policy: Any, kind: type[Scheduler] = Scheduler) -> Record:
    scheduler = kind(
        scenario.group_size, policy, retransmission=fleet.retransmission, absent=fleet.absent_at_first
    )
    return drive(scheduler, fleet, scenario.link_slots, rounds=None, deadline=scenario.deadline)


@given(scenario=scenarios(), data=st.data())
def test_a_plan_is_followed_through_faults_as_the_dumb_loop_follows_it(
    scenario: Scenario, data: st.DataObject
) -> None:
    fleet = data.draw(fleets(scenario))
    expected = fleet.without_faults()
    plan = simulate(replace(scenario, deadline=None), "idfl", fleet=expected, rounds=40)
    record = driven(scenario, fleet, Planned.of(plan))
    naively = SlotBySlot(scenario, fleet, plan=plan).run(DEADLINE)
    assert record.uplinks == naively.uplinks
    assert record.lost == naively.lost
    assert record.broadcasts == naively.broadcasts
    assert [list(group) for group in record.receivers] == naively.receivers


# ---------------------------------------------------------------- what holds for any fleet


class Training(NamedTuple):
    """A reception, what became of it, worked out from the timeline's rows and the fleet alone."""

    device: int
    version: int
    arrival: int
    start: int
    ready: int
    departure: int | None


def trainings(timeline: Timeline, fleet: Fleet) -> list[Training]:
    count: defaultdict[int, int] = defaultdict(int)
    found = []
    for version in range(timeline.models):
        arrival = int(timeline.broadcast_start[version - 1]) if version else 0
        start = int(timeline.broadcast_end[version - 1]) if version else 0
        for device in timeline.receivers(version).tolist():
            ready = start + fleet.slots_of_training(device, count[device])
            count[device] += 1
            leaves = [a.leaves for a in fleet.absences if a.device == device and a.leaves > arrival]
            found.append(Training(device, version, arrival, start, ready, min(leaves, default=None)))
    return found


def present(fleet: Fleet, device: int, slot: int) -> bool:
    return not any(
        a.device == device and a.leaves <= slot and (a.returns is None or slot < a.returns)
        for a in fleet.absences
    )


def attempts(timeline: Timeline) -> dict[tuple[int, int], list[tuple[int, int, bool]]]:
    """Of each (device, version): (start, end, arrived) of its uplinks in order of time."""
    found: defaultdict[tuple[int, int], list[tuple[int, int, bool]]] = defaultdict(list)
    for rows, arrived in ((uplink_rows(timeline), True), (lost_rows(timeline), False)):
        for _, device, version, start, end in rows:
            found[device, version].append((start, end, arrived))
    return {key: sorted(rows) for key, rows in found.items()}


def apart(intervals: Iterable[tuple[int, int]]) -> bool:
    return all(end <= start for (_, end), (start, _) in pairwise(sorted(intervals)))


@MANY
@given(cases())
def test_every_update_is_applied_once_or_counted_as_lost_or_its_device_has_left(case: Case) -> None:
    if (timeline := case.play()) is None:
        return
    sent, received = attempts(timeline), trainings(timeline, case.fleet)
    assert len({(t.device, t.version) for t in received}) == len(received)
    assert set(sent) <= {(t.device, t.version) for t in received}
    busy = busy_slots(timeline)
    for t in received:
        tries = sent.get((t.device, t.version), [])
        assert not any(arrived for *_, arrived in tries[:-1])
        if (tries and tries[-1][2]) or (t.departure is not None and t.departure <= timeline.last_slot):
            continue
        # Neither applied nor gone: it waits, and others have had the channel since.
        since = max([t.ready, *(end for _, end, _ in tries)])
        assert timeline.schedule == "sync" or busy >= set(range(since, timeline.last_slot))


@MANY
@given(cases())
def test_the_channel_is_never_booked_twice_and_never_for_longer_than_a_devices_slots(case: Case) -> None:
    if (timeline := case.play()) is None:
        return
    taken = list(zip(timeline.broadcast_start.tolist(), timeline.broadcast_end.tolist(), strict=True))
    assert {end - start for start, end in taken} <= {case.scenario.link_slots}
    for _, device, _, start, end in (*uplink_rows(timeline), *lost_rows(timeline)):
        assert end - start == case.fleet.link_slots[device - 1]
        taken.append((start, end))
    assert apart(taken)


@MANY
@given(cases())
def test_a_device_does_one_thing_at_a_time_and_only_while_it_is_there(case: Case) -> None:
    if (timeline := case.play()) is None:
        return
    fleet, sent = case.fleet, attempts(timeline)
    tasks = defaultdict(list)
    for t in trainings(timeline, fleet):
        gone = t.departure if t.departure is not None else 10**9
        assert present(fleet, t.device, t.arrival)
        tasks[t.device] += [(t.arrival, min(t.start, gone)), (min(t.start, gone), min(t.ready, gone))]
        for start, end, arrived in sent.get((t.device, t.version), []):
            assert present(fleet, t.device, start)
            assert not arrived or end <= gone
            tasks[t.device].append((start, min(end, gone)))
    for intervals in tasks.values():
        assert apart((start, end) for start, end in intervals if start < end)


@MANY
@given(cases())
def test_staleness_is_what_the_slots_say(case: Case) -> None:
    if (timeline := case.play()) is None:
        return
    ready = {(t.device, t.version): t.ready for t in trainings(timeline, case.fleet)}
    for k, device, version, start, _ in (*uplink_rows(timeline), *lost_rows(timeline)):
        assert 0 <= version <= k
        assert ready[device, version] <= start
        assert start < timeline.broadcast_start[k]
        assert k == 0 or start >= timeline.broadcast_end[k - 1]
    ages = [k - version for k, _, version, _, _ in uplink_rows(timeline)]
    assert timeline.staleness.tolist() == ages
    assert timeline.max_staleness() == max(ages, default=0)


@MANY
@given(cases())
def test_losses_are_those_the_seed_gives_and_departures(case: Case) -> None:
    if (timeline := case.play()) is None:
        return
    by_device = defaultdict(list)
    for (device, _), rows in attempts(timeline).items():
        by_device[device] += rows
    for device, rows in by_device.items():
        for number, (start, end, arrived) in enumerate(sorted(rows)):
            left = any(a.device == device and start < a.leaves < end for a in case.fleet.absences)
            assert arrived == (not left and not case.fleet.loses(device, number))


def waits(timeline: Timeline, fleet: Fleet) -> list[tuple[int, int, range]]:
    """(turn, device, slots) of whoever waits for the channel, the slot included in which it gets it."""
    found, sent = [], attempts(timeline)
    for t in trainings(timeline, fleet):
        gone = DEADLINE if t.departure is None else t.departure
        turn, since, arrived = t.ready, t.ready, False
        for start, end, arrived in sent.get((t.device, t.version), []):  # noqa: B007
            found.append((turn, t.device, range(since, start + 1)))
            turn, since = (-1 if fleet.retransmission == "at-once" else end), end
        if not arrived:
            found.append((turn, t.device, range(since, gone)))
    return found


def busy_slots(timeline: Timeline) -> set[int]:
    """The slots in which the channel carries something."""
    sent = [(start, end) for *_, start, end in (*uplink_rows(timeline), *lost_rows(timeline))]
    models = zip(timeline.broadcast_start.tolist(), timeline.broadcast_end.tolist(), strict=True)
    return {slot for start, end in (*sent, *models) for slot in range(start, end)}


@MANY
@given(cases(planned=False))
def test_who_finished_first_sends_first_and_the_channel_does_not_wait_meanwhile(case: Case) -> None:
    if case.options["schedule"] == "sync" or (timeline := case.play()) is None:
        return
    queue, busy = waits(timeline, case.fleet), busy_slots(timeline)
    granted = {start: device for _, device, _, start, _ in (*uplink_rows(timeline), *lost_rows(timeline))}
    for slot in range(timeline.last_slot):
        waiting = [(turn, device) for turn, device, slots in queue if slot in slots]
        if slot in granted:
            assert min(waiting)[1] == granted[slot]
        elif waiting:
            assert slot in busy


@given(case=cases(), shuffle=st.randoms(use_true_random=False))
def test_the_order_of_events_within_a_slot_means_nothing(case: Case, shuffle: random.Random) -> None:
    class Shuffling(Scheduler):
        def step(self, events: Iterable[Event]) -> Action | None:
            mixed = list(events)
            shuffle.shuffle(mixed)
            return super().step(mixed)

    scenario, options = case.scenario, dict(case.options)
    policy: Any
    if options.pop("schedule") == "sync":
        policy = Synchronous(scenario.devices, scenario.group_size, **options)
    else:
        delay = 0 if options.get("delay") == "auto" else options.get("delay", 0)
        policy = Delayed(scenario.devices, scenario.group_size, delay)
    assert driven(scenario, case.fleet, policy, Shuffling) == driven(scenario, case.fleet, policy)


@given(case=cases(), seed=st.integers())
def test_a_timeline_depends_on_its_parameters_alone(case: Case, seed: int) -> None:
    first = case.play()
    random.seed(seed)
    case.fleet.slots_of_training(1, 999), case.fleet.loses(1, 999)
    assert case.play() == first


@given(case=cases(), rounds=st.integers(1, 20))
def test_a_shorter_run_is_the_beginning_of_a_longer_one(case: Case, rounds: int) -> None:
    longer, shorter = case.play(), case.play(rounds=rounds)
    if longer is None or shorter is None or longer.delay is None:  # a plan looks as far ahead as the run
        return
    assert shorter.rounds == min(rounds, longer.rounds)
    end = longer.round_offsets[shorter.rounds]
    assert uplink_rows(shorter) == uplink_rows(longer)[:end]
    assert lost_rows(shorter) == [row for row in lost_rows(longer) if row[0] < shorter.rounds]


@MANY
@given(cases())
def test_the_run_goes_on_while_anyone_is_there(case: Case) -> None:
    endless = case._replace(scenario=replace(case.scenario, deadline=None))
    timeline = endless.play(rounds=30)
    if timeline is None or timeline.rounds < 30:
        gone = {absence.device for absence in case.fleet.absences if absence.returns is None}
        assert gone == set(range(1, case.scenario.devices + 1))


@given(case=cases())
def test_json_gives_the_timeline_of_a_fleet_back(case: Case) -> None:
    if (timeline := case.play()) is None:
        return
    again = Timeline.from_json(timeline.to_json())
    assert again == timeline
    assert again.lost.dtype == timeline.lost.dtype
    assert again.fleet == timeline.fleet
