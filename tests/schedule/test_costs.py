"""Slots, air time and joules of a timeline; any fleet is checked in schedule/test_fleets.py."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise import InputError, Scenario, simulate
from slotwise.fleet import Absence, Fleet
from slotwise.fleet.distributions import random_absences
from slotwise.schedule.costs import Costs, Powers, Spread, Usage, joules, usage, usage_until

EXAMPLE = Scenario(devices=6, group_size=2, compute_slots=2)
FOUR_ROUNDS = simulate(EXAMPLE, "async", rounds=4)  # 14 slots
POWERS = Powers(computing=4.0, sending=2.0, receiving=1.0, idle=0.25, slot_seconds=0.5)
ONE_DEVICE = Scenario(devices=1, group_size=1, compute_slots=3, link_slots=2, deadline=14)


def test_slots_of_the_worked_example_and_of_trainings_that_are_cut_short() -> None:
    """Four asynchronous rounds, 14 slots: devices 1 and 2 send twice and receive twice."""
    counted = usage(simulate(EXAMPLE, "async", rounds=4))
    assert counted.computing.tolist() == [4, 4, 4, 4, 4, 4]
    assert counted.sending.tolist() == [2, 2, 1, 1, 1, 1]
    assert counted.receiving.tolist() == [2, 2, 1, 1, 1, 1]
    assert counted.idle.tolist() == [6, 6, 8, 8, 8, 8]
    assert counted.total == Usage(computing=24, sending=8, receiving=8, idle=44)
    counted = usage(simulate(Scenario(devices=2, group_size=1, compute_slots=9), "async", rounds=2))
    assert counted.computing.tolist() == [9 + 2, 9]
    fleet = Fleet(compute_slots=(2, 2), link_slots=(1, 1), absences=(Absence(2, 0),))
    counted = usage(simulate(Scenario(devices=2, group_size=1, compute_slots=2), fleet=fleet, rounds=3))
    assert [int(column[1]) for column in counted] == [0, 0, 0, 0]


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


def test_the_worked_example_in_joules_of_all_and_of_each() -> None:
    counted = usage(simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=4))
    each = joules(counted, POWERS)
    assert each.tolist() == [0.5 * (4 * 4 + 2 * 2 + 2 * 1 + 6 * 0.25)] * 2 + [0.5 * (16 + 2 + 1 + 2)] * 4
    assert joules(counted.total, POWERS) == each.sum() == 65.5
    costs = Costs.of(FOUR_ROUNDS)
    assert (costs.slots, costs.usage.total) == (14, Usage(24, 8, 8, 44))
    assert costs.shares == {"computing": 24 / 84, "sending": 8 / 84, "receiving": 8 / 84, "idle": 44 / 84}
    assert costs.air_slots == Spread(1, 8 / 6, 2)
    assert (costs.joules, costs.joules_of_a_device) == (None, None)
    costs = Costs.of(FOUR_ROUNDS, POWERS)
    assert costs.joules == 65.5
    assert costs.joules_of_a_device == Spread(10.5, 65.5 / 6, 11.75)
    assert list(Costs.of(FOUR_ROUNDS, POWERS).devices())[1:3] == [
        {"device": 2, "computing": 4, "sending": 2, "receiving": 2, "idle": 6, "away": 0, "joules": 11.75},
        {"device": 3, "computing": 4, "sending": 1, "receiving": 1, "idle": 8, "away": 0, "joules": 10.5},
    ]
    spread = Spread.of(np.array([3, 5], dtype=np.int64))
    assert repr(spread) == "Spread(least=3, mean=4.0, most=5)"


@pytest.mark.parametrize("name", ["computing", "sending", "receiving", "idle", "slot_seconds"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "much", True])
def test_powers_are_finite_numbers(name: str, value: Any) -> None:
    given = dict.fromkeys(Powers.__dataclass_fields__, 1.0)
    with pytest.raises(InputError) as caught:
        Powers(**given | {name: value})
    assert caught.value.parameter == name


def test_a_slot_takes_time_and_powers_do_not_overflow() -> None:
    with pytest.raises(InputError, match="slot_seconds"):
        Powers(computing=1, sending=1, receiving=1, idle=1, slot_seconds=0)
    with pytest.raises(InputError, match="sending"):
        Powers(computing=1, sending=1e300, receiving=1)


def test_slots_away_are_nobody_s_time() -> None:
    fleet = Fleet(compute_slots=(2, 2), link_slots=(1, 1), absences=(Absence(2, 0),))
    timeline = simulate(Scenario(devices=2, group_size=1, compute_slots=2), fleet=fleet, rounds=3)
    costs = Costs.of(timeline)
    assert [row["away"] for row in costs.devices()] == [0, timeline.last_slot]
    assert sum(costs.usage.total) == timeline.last_slot
    assert sum(costs.shares.values()) == pytest.approx(1)


def test_json_has_joules_only_where_powers_are_known() -> None:
    assert Costs.of(FOUR_ROUNDS).as_dict() == {
        "slots": 14,
        "computing": 24,
        "sending": 8,
        "receiving": 8,
        "idle": 44,
        "air_slots_of_a_device": {"least": 1, "mean": 8 / 6, "most": 2},
    }
    document = json.loads(json.dumps(Costs.of(FOUR_ROUNDS, POWERS).as_dict()))
    assert document["joules"] == 65.5
    assert document["joules_of_a_device"]["most"] == 11.75


def test_a_device_alone_takes_turns_and_a_slot_has_seconds() -> None:
    timeline = simulate(ONE_DEVICE)  # slots 0-2 compute, 3-4 send, 5-6 receive, and once more
    powers = Powers(computing=100.0, sending=10.0, receiving=1.0, idle=1000.0)
    spent = joules(usage_until(timeline, [0, 1, 3, 4, 5, 7, 8, 14]), powers)
    assert spent.tolist() == [0, 100, 300, 310, 320, 322, 422, 644]
    powers = Powers(computing=1.0, sending=1.0, receiving=1.0, idle=1.0, slot_seconds=0.5)
    scenario = Scenario(devices=6, group_size=2, compute_slots=2, deadline=50)
    timeline = simulate(scenario)
    assert joules(usage_until(timeline, [timeline.last_slot]), powers) == [6 * timeline.last_slot / 2]


def test_unequal_devices_spend_what_they_compute_and_send() -> None:
    scenario = Scenario(devices=2, group_size=1, compute_slots=9, link_slots=1, deadline=9)
    fleet = Fleet(compute_slots=(2, 5), link_slots=(1, 2))
    timeline = simulate(scenario, "async", fleet=fleet)
    # Device 1: compute 0-1, send 2, receive 3, compute 4-5, …; device 2: compute 0-4, send from 5 on.
    computing = Powers(computing=1, sending=0, receiving=0)
    assert joules(usage_until(timeline, [0, 2, 4, 5]), computing).tolist() == [0, 4, 6, 8]
    sending = Powers(computing=0, sending=1, receiving=0)
    assert joules(usage_until(timeline, [2, 3, 5, 7]), sending).tolist() == [0, 1, 1, 3]


def test_lost_uplinks_cost_and_absent_devices_do_not() -> None:
    scenario = Scenario(devices=6, group_size=2, compute_slots=3, link_slots=2, deadline=300)
    lossy = Fleet(compute_slots=(3,) * 6, link_slots=(2,) * 6, uplink_loss=0.4, seed=1)
    timeline = simulate(scenario, "async", fleet=lossy)
    sending = Powers(computing=0, sending=1, receiving=0)
    assert len(timeline.lost) > 5
    assert joules(usage_until(timeline, [timeline.last_slot]), sending) == [
        2 * (len(timeline) + len(timeline.lost))
    ]
    absent = Fleet(compute_slots=(3,) * 6, link_slots=(2,) * 6, absences=(Absence(6, 0), Absence(5, 50, 90)))
    timeline = simulate(scenario, "async", fleet=absent)
    everything = Powers(computing=1, sending=1, receiving=1, idle=1)
    last = timeline.last_slot
    assert joules(usage_until(timeline, [50, 90, last]), everything).tolist() == [250, 410, 5 * last - 40]


def test_jitter_and_absences_never_leave_less_than_no_time_to_idle() -> None:
    scenario = Scenario(devices=5, group_size=2, compute_slots=7, link_slots=1, deadline=400)
    absences = random_absences(5, 400, mean_present=30, mean_away=9, seed=2)
    for loss, schedule in ((0.0, "async"), (0.3, "idfl"), (0.3, "sync")):
        fleet = Fleet(
            compute_slots=(7, 3, 9, 12, 1),
            link_slots=(1, 2, 1, 3, 1),
            jitter=0.5,
            uplink_loss=loss,
            absences=absences,
            seed=4,
        )
        timeline = simulate(scenario, schedule, fleet=fleet)  # type: ignore[arg-type]
        idling = Powers(computing=0, sending=0, receiving=0, idle=1)
        idle = joules(usage_until(timeline, range(timeline.last_slot + 1)), idling)
        assert (idle[1:] >= idle[:-1]).all()
