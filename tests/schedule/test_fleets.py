"""What must hold for any fleet."""

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from random_fleets import DEADLINE, MANY, Case, cases, driven, lost_rows, own_cases, uplink_rows

from slotwise import Timeline, simulate
from slotwise.fleet import Fleet
from slotwise.schedule import Scheduler
from slotwise.schedule.costs import usage, usage_until
from slotwise.schedule.just_in_time import Planned
from slotwise.schedule.policies import Participants
from slotwise.schedule.policy import FixedDelay
from slotwise.schedule.scheduler import Action, Event


@given(cases())
def test_the_beginning_of_all_rounds_is_the_whole(case: Case) -> None:
    if (timeline := case.play()) is not None:
        assert timeline.first(timeline.rounds) == timeline


ANY = cases() | own_cases()


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
            ready = start + fleet.slots_of_training(device, count[device], start)
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
@given(ANY)
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
        assert case.waits_for_all or busy >= set(range(since, timeline.last_slot))


@MANY
@given(ANY)
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
@given(ANY)
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
@given(ANY)
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
@given(ANY)
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
    first, again, sent = [], [], attempts(timeline)
    for t in trainings(timeline, fleet):
        gone = DEADLINE if t.departure is None else t.departure
        found, since, arrived = first, t.ready, False
        for start, end, arrived in sent.get((t.device, t.version), []):  # noqa: B007
            found.append((since, t.device, range(since, start + 1)))
            found, since = again, end
        if not arrived:
            found.append((since, t.device, range(since, gone)))
    if fleet.retransmission == "at-once":
        return [*first, *((-1, device, slots) for _, device, slots in again)]
    for end, device, slots in sorted(again):
        others = [turn + 1 for turn, other, waited in first if end in waited and other != device]
        first.append((max([end, *others]), device, slots))
    return first


@MANY
@given(cases())
def test_what_was_lost_is_sent_again_behind_those_who_are_ready_by_then(case: Case) -> None:
    if case.fleet.retransmission == "at-once" or (timeline := case.play()) is None:
        return
    starts = sorted((start, n) for _, n, _, start, _ in (*uplink_rows(timeline), *lost_rows(timeline)))
    sent = attempts(timeline)
    applied = {key: rows[-1][0] for key, rows in sent.items() if rows[-1][2]}
    queue = [
        (
            t.device,
            t.ready,
            timeline.last_slot if t.departure is None else t.departure,
            applied.get((t.device, t.version), timeline.last_slot),
        )
        for t in trainings(timeline, case.fleet)
    ]
    for (device, _), rows in sent.items():
        for (_, end, _), (again, _, _) in pairwise(rows):
            meanwhile = {n for start, n in starts if end <= start < again}
            ready = {
                n for n, since, gone, sends in queue if n != device and since <= end <= sends and again < gone
            }
            assert ready <= meanwhile


def busy_slots(timeline: Timeline) -> set[int]:
    """The slots in which the channel carries something."""
    sent = [(start, end) for *_, start, end in (*uplink_rows(timeline), *lost_rows(timeline))]
    models = zip(timeline.broadcast_start.tolist(), timeline.broadcast_end.tolist(), strict=True)
    return {slot for start, end in (*sent, *models) for slot in range(start, end)}


@MANY
@given(cases(planned=False))
def test_who_finished_first_sends_first_and_the_channel_does_not_wait_meanwhile(case: Case) -> None:
    if case.options["policy"] == "sync" or (timeline := case.play()) is None:
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
        def actions(self, events: Iterable[Event], slot: int = 0) -> list[Action]:
            mixed = list(events)
            shuffle.shuffle(mixed)
            return super().actions(mixed, slot)

    scenario, options = case.scenario, dict(case.options)
    policy: Any
    if options.pop("policy") == "sync":
        policy = Participants(scenario.devices, scenario.group_size, **options)
    elif options.get("delay") == "auto":
        plan = simulate(
            replace(scenario, deadline=None), "idfl", fleet=case.fleet.without_faults(), rounds=40
        )
        policy = Planned.of(plan)
    else:
        policy = FixedDelay(scenario.devices, scenario.group_size, options.get("delay", 0))
    assert driven(scenario, case.fleet, policy, Shuffling) == driven(scenario, case.fleet, policy)


@given(case=ANY, seed=st.integers())
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
@given(ANY)
def test_the_run_goes_on_while_anyone_is_there(case: Case) -> None:
    endless = case._replace(scenario=replace(case.scenario, deadline=None))
    timeline = endless.play(rounds=30)
    if timeline is None or timeline.rounds < 30:
        gone = {absence.device for absence in case.fleet.absences if absence.returns is None}
        assert gone == set(range(1, case.scenario.devices + 1))


@given(case=ANY)
def test_json_gives_the_timeline_of_a_fleet_back(case: Case) -> None:
    if (timeline := case.play()) is None:
        return
    again = Timeline.from_json(timeline.to_json())
    assert again == timeline
    assert again.lost.dtype == timeline.lost.dtype
    assert again.fleet == timeline.fleet


@MANY
@given(ANY)
def test_slots_of_each_device_are_counted_as_the_rows_say(case: Case) -> None:
    if (timeline := case.play()) is None:
        return
    last, sent, devices = timeline.last_slot, attempts(timeline), case.scenario.devices
    names = ("computing", "sending", "receiving")
    seen: dict[str, list[set[int]]] = {name: [set() for _ in range(devices)] for name in names}
    for t in trainings(timeline, case.fleet):
        gone = last if t.departure is None else min(t.departure, last)
        seen["receiving"][t.device - 1] |= set(range(t.arrival, min(t.start, gone)))
        seen["computing"][t.device - 1] |= set(range(t.start, min(t.ready, gone)))
        for start, end, _ in sent.get((t.device, t.version), []):
            seen["sending"][t.device - 1] |= set(range(start, min(end, gone)))
    counted = usage(timeline)
    for name in names:
        assert getattr(counted, name).tolist() == [len(slots) for slots in seen[name]], name


@MANY
@given(cases())
def test_what_all_have_spent_by_the_last_slot_is_what_each_has(case: Case) -> None:
    if (timeline := case.play()) is None:
        return
    by_slot = usage_until(timeline, range(timeline.last_slot + 1))
    assert [int(spent[-1]) for spent in by_slot] == list(usage(timeline).total)
    assert all((np.diff(spent) >= 0).all() for spent in by_slot)
