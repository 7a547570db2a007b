from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.base.errors import InputError
from slotwise.fleet import Absence, Batteries, Fleet
from slotwise.radio import RateAdaptive
from slotwise.report.gantt.chart import (
    BEYOND,
    SERVER,
    UNSENT,
    Activity,
    Interval,
    Window,
    activities,
    activity_kinds,
    describe,
    lanes,
    round_starts,
    span,
    ticks,
    transfer_label,
    transfers,
    window_of,
)
from slotwise.scenario import Scenario
from slotwise.schedule import Asynchronous, IntentionalDelay, Synchronous, Timeline, simulate
from slotwise.schedule.costs import usage

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


def test_a_training_beyond_the_end_computes_and_who_takes_no_part_waits() -> None:
    timeline = simulate(Scenario(devices=2, group_size=1, compute_slots=9), "async", rounds=2)
    assert life_of(1, timeline)[-1] == (COMPUTING, 11, 13, 1, BEYOND)
    timeline = simulate(Scenario(devices=3, group_size=1, compute_slots=2), "sync", rounds=1)
    assert life_of(3, timeline) == [(MODEL, 0, 4, BEYOND, BEYOND)]


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


def check_cover(timeline: Timeline) -> dict[int, list[Interval]]:
    """Every device's intervals, which cover the timeline without gap or overlap."""
    lives: dict[int, list[Interval]] = {n: [] for n in range(1, timeline.scenario.devices + 1)}
    for interval in activities(timeline):
        lives[interval.device].append(interval)
    for life in lives.values():
        assert all(interval.start < interval.end for interval in life)
        assert (life[0].start, life[-1].end) == (0, timeline.last_slot)
        assert all(before.end == after.start for before, after in pairwise(life))
    return lives


@given(timelines())
def test_intervals_cover_each_device_once_with_all_uplinks_and_no_longer_training(timeline: Timeline) -> None:
    check_cover(timeline)
    sends = sorted((row for row in activities(timeline) if row.kind == SENDING), key=lambda row: row.start)
    for name in ("device", "start", "end", "version", "round"):
        assert [getattr(row, name) for row in sends] == getattr(timeline, name).tolist()
    longest = timeline.scenario.compute_slots
    computing = [row for row in activities(timeline) if row.kind == COMPUTING]
    assert all(row.end - row.start == longest for row in computing if row.end < timeline.last_slot)
    assert all(row.end - row.start <= longest for row in computing)


def test_devices_that_lose_leave_return_or_join_late(unequal: Timeline) -> None:
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
    assert life_of(4, unequal)[-2:] == [(COMPUTING, 8, 10, 1, UNSENT), (AWAY, 10, 43, BEYOND, BEYOND)]
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
    assert set(Activity) - set(activity_kinds(six_async)) == {LOST, AWAY, Activity.CHARGING}
    assert set(activity_kinds(unequal)) == set(Activity) - {Activity.CHARGING}


BATTERIES = Batteries(capacity=(40,), initial=(10,), computing=(1,), sending=(1,), harvest=(0.5,))


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
        uplink_loss=draw(st.sampled_from([0.0, 0.4])),
        absences=tuple(
            Absence(i, slot, slot + away if i % 2 else None)
            for i, slot in enumerate(leaves, 1)
            if slot is not None
        ),
        retransmission=draw(st.sampled_from(["next-turn", "erasure"])),
        batteries=draw(st.none() | st.just(BATTERIES)),
    )
    scenario = replace(scenario, sub_channels=draw(st.integers(1, 3)))
    schedule = draw(st.sampled_from(["sync", "async", "idfl"]))
    return simulate(scenario, schedule, fleet=fleet, rounds=draw(st.integers(1, 12)))


@given(fleet_timelines())
def test_intervals_of_any_fleet_cover_each_device_and_add_up_to_its_usage(timeline: Timeline) -> None:
    counted = usage(timeline)
    for device, life in check_cover(timeline).items():
        slots = {kind: sum(row.end - row.start for row in life if row.kind == kind) for kind in Activity}
        assert slots[COMPUTING] == counted.computing[device - 1]
        assert slots[RECEIVING] == counted.receiving[device - 1]
        assert slots[SENDING] + slots[LOST] == counted.sending[device - 1]
        idle = slots[CHANNEL] + slots[MODEL] + slots[Activity.CHARGING]
        assert idle == counted.idle[device - 1]


def test_transfers_and_rounds_of_a_window(six_async: Timeline) -> None:
    found = transfers(six_async, Window(5, 9))
    assert [one for one in found if one.kind == SENDING] == [
        Interval(3, SENDING, 5, 6, version=0, round=1),
        Interval(4, SENDING, 6, 7, version=0, round=1),
        Interval(5, SENDING, 8, 9, version=0, round=2),
    ]
    found = transfers(six_async, Window(4, 8))
    assert [one for one in found if one.device == SERVER] == [
        Interval(SERVER, RECEIVING, 4, 5, version=1, round=0),
        Interval(SERVER, RECEIVING, 7, 8, version=2, round=1),
    ]
    assert [transfer_label(one) for one in transfers(six_async, Window(2, 5))] == ["1", "2", "w1"]
    assert round_starts(six_async, Window(4, 9)) == {0: 0, 1: 5, 2: 8}
    assert round_starts(six_async, Window(5, 8)) == {1: 5}
    seen = activities(six_async, Window(8, 9))
    assert [row.end for row in seen if row.device == 1] == [11]
    assert len(seen) == 6


def test_a_transfer_that_only_reaches_into_the_window_counts() -> None:
    timeline = simulate(Scenario(devices=2, group_size=1, compute_slots=1, link_slots=4), rounds=1)
    assert [one.device for one in transfers(timeline, Window(4, 5))] == [1]


def test_lost_uplinks_of_a_window(unequal: Timeline, six_async: Timeline) -> None:
    found = [one for one in transfers(unequal, Window(2, 10)) if one.kind == LOST]
    assert found == [Interval(1, LOST, 2, 3, 0, 0), Interval(2, LOST, 3, 4, 0, 0)]
    assert not any(one.kind == LOST for one in transfers(six_async, Window(0, 20)))


@given(fleet_timelines())
def test_each_sub_channel_carries_one_transfer_at_a_time(timeline: Timeline) -> None:
    found = sorted(transfers(timeline, Window(0, timeline.last_slot)), key=lambda one: one.start)
    for lane in set(lanes(found)):
        mine = [one for one, place in zip(found, lanes(found), strict=True) if place == lane]
        assert all(before.end <= after.start for before, after in pairwise(mine))
    assert len(set(lanes(found))) <= timeline.scenario.sub_channels
    assert len(found) == len(timeline) + len(timeline.lost) + timeline.rounds


def test_settings_and_outcomes_are_described(
    six_idfl: Timeline, six_async: Timeline, unequal: Timeline
) -> None:
    assert describe(six_idfl) == (
        "6 devices, 2 uplinks a round, 2 slots to compute, 1 per uplink or broadcast",
        "idfl, delay 1: 6 rounds in 20 slots; staleness 1 at most, 0.83 on average",
    )
    assert describe(six_async)[1].startswith("async: 6 rounds")
    assert [span(4, 5), span(5, 7)] == ["slot 4", "slots 5–6"]
    assert describe(unequal) == (
        "6 devices, 2 uplinks a round, 2–9 slots to compute (jitter 20%), 1–2 per uplink, 1 per broadcast",
        "idfl, just in time: 9 rounds in 43 slots; staleness 3 at most, 0.89 on average; 8 uplinks lost",
    )


def test_slots_over_a_radio_link_are_those_that_transfers_took() -> None:
    scenario = Scenario(devices=4, group_size=2, compute_slots=2, deadline=200)
    radio = RateAdaptive(bits=500_000, broadcast_bits=500_000)
    timeline = simulate(scenario, "async", link=radio.link(scenario, seed=0))
    lengths = timeline.end - timeline.start
    assert lengths.max() > lengths.min()
    assert f", {lengths.min()}–{lengths.max()} per uplink, " in describe(timeline)[0]


@pytest.mark.parametrize(
    ("room", "expected"), [(2, [7, 8, 9, 10, 11, 12]), (3, [10]), (1, [7, 8, 9, 10, 11, 12])]
)
def test_numbers_that_touch_are_thinned_to_multiples(room: float, expected: list[int]) -> None:
    assert ticks(range(7, 13), lambda number: 2.0 * number, lambda _: room) == expected


def test_windows_are_cut_and_labels_step_as_people_count() -> None:
    assert ticks(range(0, 101), float, lambda _: 11) == [0, 20, 40, 60, 80, 100]
    assert ticks([], float, lambda _: 1) == []
    assert Window(5, 50).cut(10) == Window(5, 15)
    assert Window(5, 9).cut(10) == Window(5, 9)


@pytest.mark.parametrize(
    ("text", "window"),
    [("3:9", (3, 9)), (":9", (0, 9)), ("3:", (3, 20)), (":", (0, 20)), ("3:999999", (3, 20))],
)
def test_slots_as_python_slices_them(six_async: Timeline, text: str, window: tuple[int, int]) -> None:
    assert window_of(text, six_async) == window


@pytest.mark.parametrize("text", ["", "3", "9:3", "5:5", "20:30", "-3:5", "a:b", "1:2:3", "9" * 5000 + ":"])
def test_other_slots_are_refused(six_async: Timeline, text: str) -> None:
    with pytest.raises(InputError, match="A:B with A below B, within 0:20"):
        window_of(text, six_async)
