import json

import numpy as np
import pytest

from slotwise import Scenario, simulate
from slotwise.energy import Powers
from slotwise.fleet import Absence, Fleet
from slotwise.schedule import TotalUsage
from slotwise.spending import Spending, Spread

EXAMPLE = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=4)  # 14 slots
POWERS = Powers(computing=4.0, sending=2.0, receiving=1.0, idle=0.25, slot_seconds=0.5)


def test_the_worked_example_in_all() -> None:
    spending = Spending.of(EXAMPLE)
    assert (spending.slots, spending.total) == (14, TotalUsage(24, 8, 8, 44))
    assert spending.shares == {"computing": 24 / 84, "sending": 8 / 84, "receiving": 8 / 84, "idle": 44 / 84}
    assert spending.air_slots == Spread(1, 8 / 6, 2)
    assert (spending.joules, spending.joules_of_a_device) == (None, None)


def test_powers_make_joules_of_the_slots() -> None:
    spending = Spending.of(EXAMPLE, POWERS)
    assert spending.joules == 65.5
    assert spending.joules_of_a_device == Spread(10.5, 65.5 / 6, 11.75)


def test_each_device_has_its_numbers() -> None:
    assert list(Spending.of(EXAMPLE, POWERS).devices())[1:3] == [
        {"device": 2, "computing": 4, "sending": 2, "receiving": 2, "idle": 6, "away": 0, "joules": 11.75},
        {"device": 3, "computing": 4, "sending": 1, "receiving": 1, "idle": 8, "away": 0, "joules": 10.5},
    ]


def test_slots_away_are_nobody_s_time() -> None:
    fleet = Fleet(compute_slots=(2, 2), link_slots=(1, 1), absences=(Absence(2, 0),))
    timeline = simulate(Scenario(devices=2, group_size=1, compute_slots=2), fleet=fleet, rounds=3)
    spending = Spending.of(timeline)
    assert [row["away"] for row in spending.devices()] == [0, timeline.last_slot]
    assert sum(spending.total) == timeline.last_slot
    assert sum(spending.shares.values()) == pytest.approx(1)


def test_json_has_joules_only_where_powers_are_known() -> None:
    assert Spending.of(EXAMPLE).as_dict() == {
        "slots": 14,
        "computing": 24,
        "sending": 8,
        "receiving": 8,
        "idle": 44,
        "air_slots_of_a_device": {"least": 1, "mean": 8 / 6, "most": 2},
    }
    document = json.loads(json.dumps(Spending.of(EXAMPLE, POWERS).as_dict()))
    assert document["joules"] == 65.5
    assert document["joules_of_a_device"]["most"] == 11.75


def test_a_spread_of_whole_numbers_stays_whole() -> None:
    spread = Spread.of(np.array([3, 5], dtype=np.int64))
    assert repr(spread) == "Spread(least=3, mean=4.0, most=5)"
