"""Slots of the worked example, counted by hand; random fleets are counted in test_fleets.py."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slotwise import Scenario, simulate
from slotwise.fleet import Absence, Fleet
from slotwise.schedule import TotalUsage, trainings, usage
from slotwise.schedule.trainings import NEVER, NONE

EXAMPLE = Scenario(devices=6, group_size=2, compute_slots=2)


def test_the_worked_example_by_hand() -> None:
    """Four asynchronous rounds, 14 slots: devices 1 and 2 send twice and receive twice."""
    counted = usage(simulate(EXAMPLE, "async", rounds=4))
    assert counted.computing.tolist() == [4, 4, 4, 4, 4, 4]
    assert counted.sending.tolist() == [2, 2, 1, 1, 1, 1]
    assert counted.receiving.tolist() == [2, 2, 1, 1, 1, 1]
    assert counted.idle.tolist() == [6, 6, 8, 8, 8, 8]
    assert counted.total == TotalUsage(computing=24, sending=8, receiving=8, idle=44)


def test_a_training_cut_short_by_the_end_counts_as_far_as_it_goes() -> None:
    counted = usage(simulate(Scenario(devices=2, group_size=1, compute_slots=9), "async", rounds=2))
    assert counted.computing.tolist() == [9 + 2, 9]


def test_who_leaves_while_sending_has_sent_until_then() -> None:
    scenario = Scenario(devices=2, group_size=1, compute_slots=2, link_slots=4)
    fleet = Fleet(compute_slots=(2, 9), link_slots=(4, 4), absences=(Absence(1, 3, 5),))
    timeline = simulate(scenario, "async", fleet=fleet, rounds=1)
    assert timeline.lost.tolist() == [[0, 1, 0, 2, 6]]
    assert timeline.last_slot == 17
    counted = usage(timeline)
    assert counted.sending.tolist() == [1, 4]
    assert counted.computing.tolist() == [2, 9]
    assert counted.receiving.tolist() == [4, 4]
    assert counted.idle.tolist() == [17 - 2 - 2 - 1 - 4, 0]


def test_who_never_comes_has_no_slots() -> None:
    fleet = Fleet(compute_slots=(2, 2), link_slots=(1, 1), absences=(Absence(2, 0),))
    counted = usage(simulate(Scenario(devices=2, group_size=1, compute_slots=2), fleet=fleet, rounds=3))
    assert [int(column[1]) for column in counted] == [0, 0, 0, 0]


@given(
    size=st.integers(1, 9),
    compute=st.integers(1, 30),
    rounds=st.integers(1, 20),
    schedule=st.sampled_from(["sync", "async", "idfl"]),
)
def test_equal_devices_add_up(size: int, compute: int, rounds: int, schedule: str) -> None:
    scenario = Scenario(devices=9, group_size=size, compute_slots=compute, link_slots=2)
    timeline = simulate(scenario, schedule, rounds=rounds)  # type: ignore[arg-type]
    counted = usage(timeline)
    assert np.all(sum(counted) == timeline.last_slot)
    assert all(np.all(column >= 0) for column in counted)
    assert counted.total.sending == 2 * len(timeline)
    assert counted.total.receiving == 2 * (len(timeline.receiver) - len(timeline.receivers(0)))


def test_trainings_say_what_became_of_each_model() -> None:
    scenario = Scenario(devices=2, group_size=1, compute_slots=2)
    fleet = Fleet(compute_slots=(2, 3), link_slots=(1, 1), absences=(Absence(2, 6, 9),))
    timeline = simulate(scenario, "async", fleet=fleet, rounds=3)
    rows = zip(*(column.tolist() for column in trainings(timeline)), strict=True)
    assert list(rows) == [
        (1, 0, 0, 0, 2, NEVER, 0),
        (1, 1, 3, 4, 6, NEVER, 2),
        (1, 3, 7, 8, 10, NEVER, NONE),
        (2, 0, 0, 0, 3, 6, 1),
        (2, 2, 5, 6, 9, 6, NONE),
    ]
