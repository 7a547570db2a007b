"""The curves over group sizes."""

from typing import Any

import pytest

from slotwise.errors import InputError
from slotwise.planning import divisors
from slotwise.web import group_size_sweep
from slotwise.web.controls import effective, parse_options
from slotwise.web.group_size_sweep import Sweeps, group_sizes

EQUAL: dict[str, Any] = {"devices": 12, "group_size": 3, "compute_slots": 6, "deadline": 200}
UNEQUAL: dict[str, Any] = {"devices": 12, "group_size": 3, "compute_distribution": "two-classes:3:50:0.5"}


def test_of_few_equal_devices_every_size_is_shown_the_chosen_one_first() -> None:
    sizes = group_sizes(12, 5, equal=True)
    assert sizes[:7] == [5, 1, 2, 3, 4, 6, 12]
    assert sorted(sizes) == list(range(1, 13))


@pytest.mark.parametrize(("devices", "equal"), [(1000, True), (1000, False), (100, False)])
def test_of_many_or_unequal_devices_sizes_are_sampled(devices: int, equal: bool) -> None:
    sizes = group_sizes(devices, 7, equal=equal)
    assert {7, 1, devices, *divisors(devices)} <= set(sizes)
    assert len(sizes) == len(set(sizes)) < devices / 2
    assert all(1 <= size <= devices for size in sizes)


def test_equal_devices_are_planned_and_agree_with_the_simulation() -> None:
    rows = Sweeps().rows(EQUAL, [2, 3, 12])
    assert [row["group_size"] for row in rows] == [2, 3, 12]
    for row in rows:
        for schedule in ("sync", "async", "idfl"):
            case = {**EQUAL, "group_size": row["group_size"], "schedule": schedule}
            timeline = effective(case)[0].simulate()
            assert row[schedule] == {"rounds": timeline.rounds, "max_staleness": timeline.max_staleness()}


def test_sizes_whose_first_round_ends_after_the_deadline_have_no_row() -> None:
    short = {**EQUAL, "deadline": 10}
    assert [row["group_size"] for row in Sweeps().rows(short, [1, 12])] == [1]
    assert Sweeps().rows({**EQUAL, "deadline": 9}, [6, 12]) == []


def test_another_wrong_option_is_an_error() -> None:
    with pytest.raises(InputError) as raised:
        Sweeps().rows(EQUAL, [13])
    assert raised.value.parameter != "deadline"


def test_of_unequal_devices_schedules_without_a_round_are_missing() -> None:
    (row,) = Sweeps().rows({**UNEQUAL, "deadline": 20, "schedule": "async"}, [3])
    assert "sync" not in row  # it waits for slow devices
    assert row["async"]["rounds"] > 0


def test_a_wrong_size_of_unequal_devices_is_an_error() -> None:
    with pytest.raises(InputError) as raised:
        Sweeps().rows({**UNEQUAL, "deadline": 200}, [13])
    assert raised.value.parameter == "group_size"


def test_only_the_last_few_sweeps_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_size_sweep, "KEPT_SWEEPS", 2)
    sweeps = Sweeps()
    cases = [parse_options({"devices": str(devices), "group_size": "1"}) for devices in (3, 4, 5)]
    for case in cases:
        sweeps.rows(case, [1])
    assert [len(sweeps.begin(case)["rows"]) for case in reversed(cases)] == [1, 1, 0]
