import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.costs import usage
from slotwise.fleet import Absence, Fleet
from slotwise.report.activity import BEYOND, UNSENT, Activities, Activity, activities, kinds_of
from slotwise.report.window import Window
from slotwise.scenario import Scenario
from slotwise.schedule import Asynchronous, IntentionalDelay, Synchronous, Timeline, simulate

COMPUTING, SENDING, RECEIVING = Activity.COMPUTING, Activity.SENDING, Activity.RECEIVING
CHANNEL, MODEL = Activity.WAITING_FOR_CHANNEL, Activity.WAITING_FOR_MODEL
LOST, AWAY = Activity.LOST, Activity.AWAY


def life_of(device: int, timeline: Timeline) -> list[tuple[int, ...]]:
    """(kind, start, end, version, round) of one device."""
    return [tuple(row)[1:] for row in activities(timeline) if row.device == device]


def test_device_1_of_the_async_example(six_async: Timeline) -> None:
    assert life_of(1, six_async) == [
        (COMPUTING, 0, 2, 0, 0),
        (SENDING, 2, 3, 0, 0),
        (MODEL, 3, 4, 1, BEYOND),
        (RECEIVING, 4, 5, 1, 0),
        (COMPUTING, 5, 7, 1, 3),
        (CHANNEL, 7, 11, 1, 3),
        (SENDING, 11, 12, 1, 3),
        (MODEL, 12, 13, 4, BEYOND),
        (RECEIVING, 13, 14, 4, 3),
        (COMPUTING, 14, 16, 4, BEYOND),
        (CHANNEL, 16, 20, 4, BEYOND),
    ]


def test_device_6_of_the_async_example_waits_for_the_channel(six_async: Timeline) -> None:
    assert life_of(6, six_async) == [
        (COMPUTING, 0, 2, 0, 2),
        (CHANNEL, 2, 9, 0, 2),
        (SENDING, 9, 10, 0, 2),
        (RECEIVING, 10, 11, 3, 2),
        (COMPUTING, 11, 13, 3, 5),
        (CHANNEL, 13, 18, 3, 5),
        (SENDING, 18, 19, 3, 5),
        (RECEIVING, 19, 20, 6, 5),
    ]


def test_device_5_of_the_idfl_example_starts_from_the_first_broadcast(six_idfl: Timeline) -> None:
    assert life_of(5, six_idfl) == [
        (MODEL, 0, 4, 1, BEYOND),
        (RECEIVING, 4, 5, 1, 0),
        (COMPUTING, 5, 7, 1, 2),
        (CHANNEL, 7, 8, 1, 2),
        (SENDING, 8, 9, 1, 2),
        (MODEL, 9, 13, 4, BEYOND),
        (RECEIVING, 13, 14, 4, 3),
        (COMPUTING, 14, 16, 4, 5),
        (CHANNEL, 16, 17, 4, 5),
        (SENDING, 17, 18, 4, 5),
        (MODEL, 18, 20, BEYOND, BEYOND),
    ]


def test_a_training_whose_uplink_lies_beyond_the_end_is_computing() -> None:
    timeline = simulate(Scenario(devices=2, group_size=1, compute_slots=9), "async", rounds=2)
    assert life_of(1, timeline)[-1] == (COMPUTING, 11, 13, 1, BEYOND)


def test_a_device_that_never_takes_part_waits_for_a_model() -> None:
    timeline = simulate(Scenario(devices=3, group_size=1, compute_slots=2), "sync", rounds=1)
    assert life_of(3, timeline) == [(MODEL, 0, 4, BEYOND, BEYOND)]


def test_overlapping_keeps_whole_intervals(six_async: Timeline) -> None:
    seen = activities(six_async).overlapping(Window(8, 9))
    assert [row.end for row in seen if row.device == 1] == [11]
    assert len(seen) == 6


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
def test_the_event_by_event_timeline_has_the_same_activities(schedule: str) -> None:
    scenario = Scenario(devices=7, group_size=3, compute_slots=4, link_slots=2)
    quick = activities(simulate(scenario, schedule, rounds=9))
    slow = activities(simulate(scenario, schedule, rounds=9, event_by_event=True))
    assert list(quick) == list(slow)


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    devices = draw(st.integers(1, 9))
    scenario = Scenario(
        devices=devices,
        group_size=draw(st.integers(1, devices)),
        compute_slots=draw(st.integers(1, 12)),
        link_slots=draw(st.integers(1, 3)),
    )
    policies = [Synchronous(), Synchronous(participation="random"), Asynchronous(), IntentionalDelay()]
    return simulate(scenario, draw(st.sampled_from(policies)), rounds=draw(st.integers(1, 12)))


def chained(found: Activities, device: int) -> bool:
    mine = found.select(found.device == device)
    return bool(np.array_equal(mine.end[:-1], mine.start[1:]))


@given(timelines())
def test_intervals_cover_each_device_once_and_completely(timeline: Timeline) -> None:
    found = activities(timeline)
    assert np.all(found.start < found.end)
    for device in range(1, timeline.scenario.devices + 1):
        mine = found.select(found.device == device)
        assert (mine.start[0], mine.end[-1]) == (0, timeline.last_slot)
        assert chained(found, device)


@given(timelines())
def test_all_uplinks_and_only_they_are_sending(timeline: Timeline) -> None:
    found = activities(timeline)
    sends = found.select(found.kind == Activity.SENDING)
    order = np.argsort(sends.start)
    for name in ("device", "start", "end", "version", "round"):
        assert np.array_equal(getattr(sends, name)[order], getattr(timeline, name))


@given(timelines())
def test_computing_never_takes_longer_than_the_scenario_says(timeline: Timeline) -> None:
    found = activities(timeline)
    computing = found.select(found.kind == Activity.COMPUTING)
    slots = computing.end - computing.start
    ended = computing.end < timeline.last_slot
    assert np.all(slots[ended] == timeline.scenario.compute_slots)
    assert np.all(slots <= timeline.scenario.compute_slots)


def test_a_device_that_loses_leaves_and_returns(unequal: Timeline) -> None:
    """Ready in slot 2, lost in 3, gone from 7 to 15 with its update, back for w_3, lost again in 20."""
    assert life_of(2, unequal)[:10] == [
        (COMPUTING, 0, 2, 0, UNSENT),
        (CHANNEL, 2, 3, 0, 0),
        (LOST, 3, 4, 0, 0),
        (CHANNEL, 4, 7, 0, UNSENT),
        (AWAY, 7, 16, BEYOND, BEYOND),
        (RECEIVING, 16, 17, 3, 2),
        (COMPUTING, 17, 19, 3, 4),
        (CHANNEL, 19, 20, 3, 3),
        (LOST, 20, 21, 3, 3),
        (CHANNEL, 21, 24, 3, 4),
    ]


def test_a_device_that_leaves_while_it_computes(unequal: Timeline) -> None:
    assert life_of(4, unequal)[-2:] == [(COMPUTING, 8, 10, 1, UNSENT), (AWAY, 10, 43, BEYOND, BEYOND)]


def test_a_device_that_joins_late(unequal: Timeline) -> None:
    assert life_of(5, unequal)[:3] == [
        (AWAY, 0, 11, BEYOND, BEYOND),
        (MODEL, 11, 12, 2, BEYOND),
        (RECEIVING, 12, 13, 2, 1),
    ]


def test_a_device_that_leaves_while_it_receives_or_sends() -> None:
    scenario = Scenario(devices=2, group_size=1, compute_slots=2, link_slots=4)
    absences = (Absence(1, 3, 5), Absence(2, 15, 20))
    fleet = Fleet(compute_slots=(2, 9), link_slots=(4, 4), absences=absences)
    timeline = simulate(scenario, "async", fleet=fleet, rounds=3)
    assert life_of(1, timeline)[1:4] == [
        (LOST, 2, 3, 0, 0),
        (AWAY, 3, 5, BEYOND, BEYOND),
        (MODEL, 5, 13, 1, BEYOND),
    ]
    assert life_of(2, timeline)[1:4] == [
        (SENDING, 9, 13, 0, 0),
        (RECEIVING, 13, 15, 1, 0),
        (AWAY, 15, 20, BEYOND, BEYOND),
    ]


def test_only_what_happens_needs_explaining(six_async: Timeline, unequal: Timeline) -> None:
    assert set(Activity) - set(kinds_of(six_async)) == {LOST, AWAY}
    assert set(kinds_of(unequal)) == set(Activity)


@st.composite
def fleet_timelines(draw: st.DrawFn) -> Timeline:
    n = draw(st.integers(1, 6))
    scenario = Scenario(devices=n, group_size=draw(st.integers(1, n)), compute_slots=5, link_slots=2)
    numbers = st.lists(st.integers(1, 12), min_size=n, max_size=n)
    leaves = draw(st.lists(st.none() | st.integers(0, 40), min_size=n - 1, max_size=n - 1))
    away = draw(st.integers(1, 30))
    fleet = Fleet(
        compute_slots=tuple(draw(numbers)),
        link_slots=tuple(draw(numbers)),
        jitter=draw(st.sampled_from([0.0, 0.5])),
        loss=draw(st.sampled_from([0.0, 0.4])),
        absences=tuple(
            Absence(i, slot, slot + away if i % 2 else None)
            for i, slot in enumerate(leaves, 1)
            if slot is not None
        ),
    )
    schedule = draw(st.sampled_from(["sync", "async", "idfl"]))
    return simulate(scenario, schedule, fleet=fleet, rounds=draw(st.integers(1, 12)))


@given(fleet_timelines())
def test_intervals_of_any_fleet_cover_each_device_and_add_up_to_its_usage(timeline: Timeline) -> None:
    found, counted = activities(timeline), usage(timeline)
    assert np.all(found.start < found.end)
    for device in range(1, timeline.scenario.devices + 1):
        mine = found.select(found.device == device)
        assert (mine.start[0], mine.end[-1]) == (0, timeline.last_slot)
        assert chained(found, device)
        slots = {kind: int((mine.end - mine.start)[mine.kind == kind].sum()) for kind in Activity}
        assert slots[COMPUTING] == counted.computing[device - 1]
        assert slots[RECEIVING] == counted.receiving[device - 1]
        assert slots[SENDING] + slots[LOST] == counted.sending[device - 1]
        assert slots[CHANNEL] + slots[MODEL] == counted.idle[device - 1]
