"""Devices that come and go in ways that could leave the channel stuck."""

from typing import Any

import pytest

from slotwise import InputError, Scenario, Timeline, simulate
from slotwise.fleet import Absence, Fleet


def unequal(*compute: int, link: int = 1, **options: Any) -> Fleet:
    return Fleet(compute_slots=compute, link_slots=(link,) * len(compute), **options)


def rows(timeline: Timeline) -> list[tuple[int, ...]]:
    """(round, device, version, start, end) of the uplinks."""
    columns = (timeline.round, timeline.device, timeline.version, timeline.start, timeline.end)
    return list(zip(*(column.tolist() for column in columns), strict=True))


THREE = Scenario(devices=3, group_size=2, compute_slots=2)


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
def test_everybody_is_away_at_first_and_then_one_joins(schedule: Any) -> None:
    fleet = unequal(2, 2, 2, absences=(Absence(1, 0), Absence(2, 0, 50), Absence(3, 0)))
    timeline = simulate(THREE, schedule, fleet=fleet, rounds=4)
    assert timeline.rounds == 4
    assert set(timeline.device.tolist()) == {2}
    assert timeline.broadcast_start[0] == 50  # a round without an update, to hand out a model


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
def test_rounds_of_more_uplinks_than_there_are_devices_end_early(schedule: Any) -> None:
    fleet = unequal(2, 2, 2, absences=(Absence(2, 1), Absence(3, 1)))
    timeline = simulate(THREE, schedule, fleet=fleet, rounds=5)
    assert timeline.round.tolist() == [0, 1, 2, 3, 4]
    assert timeline.device.tolist() == [1] * 5


def test_a_synchronous_round_whose_participants_all_leave_is_closed_for_the_next_ones() -> None:
    fleet = unequal(2, 2, 2, absences=(Absence(1, 1), Absence(2, 1)))
    timeline = simulate(THREE, "sync", fleet=fleet, rounds=3)
    assert timeline.round.tolist() == [1, 2]
    assert timeline.receivers(1).tolist() == [3]


def test_devices_booked_for_a_later_model_are_called_in_when_nobody_else_is_left() -> None:
    scenario = Scenario(devices=3, group_size=1, compute_slots=2)
    fleet = unequal(2, 2, 2, absences=(Absence(1, 1), Absence(2, 1)))
    timeline = simulate(scenario, "idfl", delay=2, fleet=fleet, rounds=3)
    assert timeline.receivers(1).tolist() == [3]
    assert set(timeline.device.tolist()) == {3}


def test_who_leaves_around_its_own_uplink_starts_anew_and_is_served_once() -> None:
    scenario = Scenario(devices=2, group_size=1, compute_slots=2, link_slots=4)
    fleet = unequal(2, 9, link=4, absences=(Absence(1, 3, 5),))
    timeline = simulate(scenario, "async", fleet=fleet, rounds=2)
    assert timeline.lost.tolist() == [[0, 1, 0, 2, 6]]
    assert rows(timeline)[0] == (0, 2, 0, 9, 13)
    assert timeline.receivers(1).tolist() == [1, 2]
    fleet = unequal(2, 30, 30, absences=(Absence(1, 5, 9),))
    timeline = simulate(THREE, "async", fleet=fleet, rounds=1)
    assert timeline.receivers(1).tolist() == [1, 2]


def test_fleets_without_devices_or_of_another_size_are_refused() -> None:
    fleet = unequal(2, 2, 2, absences=tuple(Absence(n, 0) for n in (1, 2, 3)))
    with pytest.raises(InputError, match=r"^absences = 3 in all: "):
        simulate(THREE, fleet=fleet, rounds=1)
    with pytest.raises(InputError, match=r"^fleet = "):
        simulate(THREE, fleet=unequal(1, 2), rounds=1)
