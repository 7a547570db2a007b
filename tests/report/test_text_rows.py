import pytest

from slotwise.fleet import Fleet
from slotwise.report.text_rows import Gap, Row, choose_rows
from slotwise.report.window import Window
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate


def test_few_devices_have_a_row_each(six_async: Timeline) -> None:
    assert choose_rows(six_async, Window(0, 20)) == [Row(n, n) for n in range(1, 7)]


def test_many_devices_share_a_row_with_their_group(hundred: Timeline) -> None:
    rows = choose_rows(hundred, Window(0, 60))
    assert rows == [Row(first, first + 9) for first in range(1, 101, 10)]
    assert rows[0].label == "devices 1–10"


def test_of_many_rows_those_that_send_are_shown(hundred_alone: Timeline) -> None:
    rows = choose_rows(hundred_alone, Window(100, 130))
    assert rows == [Gap(1, 25), *(Row(n, n) for n in range(26, 36)), Gap(36, 99), Row(100, 100)]


def test_a_gap_says_what_it_leaves_out() -> None:
    assert Gap(12, 99).label == "… 88 more devices (12–99)"


def test_random_participants_make_no_groups() -> None:
    scenario = Scenario(devices=20, group_size=4, compute_slots=2)
    timeline = simulate(scenario, "sync", rounds=6, participation="random")
    assert all(row.first == row.last for row in choose_rows(timeline, Window(0, 40)) if isinstance(row, Row))


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("first", [0, 40, 90])
def test_every_device_is_in_a_row_or_in_a_gap_of_several(size: int, first: int) -> None:
    timeline = simulate(Scenario(devices=50, group_size=size, compute_slots=9), "async", rounds=100)
    rows = choose_rows(timeline, Window(first, first + 30))
    covered = [device for row in rows for device in range(row.first, row.last + 1)]
    assert covered == list(range(1, 51))
    assert all(row.last > row.first for row in rows if isinstance(row, Gap))


def test_unequal_devices_have_a_row_each_even_if_groups_stay() -> None:
    scenario = Scenario(devices=20, group_size=4, compute_slots=2)
    fleet = Fleet(compute_slots=tuple(range(1, 21)), link_slots=(1,) * 20)
    timeline = simulate(scenario, "sync", fleet=fleet, rounds=6)
    assert all(row.first == row.last for row in choose_rows(timeline, Window(0, 40)) if isinstance(row, Row))
