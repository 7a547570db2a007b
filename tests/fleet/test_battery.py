"""Batteries: harvests, waits and what is refused. The schedule with batteries is tested in tests/schedule."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.base.errors import InputError
from slotwise.base.random_streams import chance, chances
from slotwise.fleet import Batteries, Devices, Fleet
from slotwise.fleet.battery import NANOJOULES, Ledger
from slotwise.scenario import Scenario

USUAL: dict[str, Any] = {"capacity": (10.0,), "computing": (1.0,), "sending": (2.0,)}
SCENARIO = Scenario(devices=3, group_size=1, compute_slots=2, deadline=50)


@given(seed=st.integers(0, 2**64 - 1), first=st.integers(0, 10**9))
def test_many_chances_are_those_drawn_one_by_one(seed: int, first: int) -> None:
    numbers = np.arange(first, first + 5, dtype=np.uint64)
    assert chances((seed, 3), numbers).tolist() == [chance(seed, 3, int(number)) for number in numbers]


HARVESTS: list[dict[str, Any]] = [
    {"harvest": (0.3,)},
    {"harvest": (0.0,)},
    {"harvest": (2.0,), "probability": 0.2, "seed": 4},
    {"harvest": (2.0,), "probability": 0.01, "seed": 4},
    {"harvest": (0.0,), "probability": 0.5},
    {"trace": tuple(chance(2, slot) for slot in range(60))},
    {"trace": (1.0, 0.5)},
]


@pytest.mark.parametrize("harvest", HARVESTS, ids="-".join)
@pytest.mark.parametrize("needed", [0, 1, 4, 10, 11])
def test_the_first_slot_with_enough_is_found(harvest: dict[str, Any], needed: int) -> None:
    batteries = Batteries(**USUAL, initial=(2.0,), **harvest)
    ledger, charge, expected = Ledger(batteries, 1), 2 * NANOJOULES, None
    for slot in range(3, 2000):
        past = int(batteries.harvested(1, 0, slot).sum())
        if min(charge + past, 10 * NANOJOULES) >= needed * NANOJOULES:
            expected = slot
            break
    assert ledger.first_slot(1, needed * NANOJOULES, 3) == expected


def test_a_battery_pays_what_it_holds_and_harvests_as_often_as_said() -> None:
    batteries = Batteries(**USUAL, harvest=(1.0,), probability=0.3)
    share = (batteries.harvested(2, 0, 100_000) > 0).mean()
    assert share == pytest.approx(0.3, abs=5 * (0.3 * 0.7 / 100_000) ** 0.5)
    ledger = Ledger(Batteries(**USUAL), 1)
    with pytest.raises(AssertionError):
        ledger.pay(1, 11 * NANOJOULES, 0)
    with pytest.raises(InputError):
        Fleet(compute_slots=(1,) * 3, link_slots=(1,) * 3, batteries=Batteries(**USUAL, harvest=(1.0, 2.0)))


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"capacity": (-1.0,)}, "capacity"),
        ({"capacity": (float("nan"),)}, "capacity"),
        ({"initial": (11.0,)}, "initial"),
        ({"initial": (1.0, 11.0)}, "initial"),
        ({"initial": (5.0,), "capacity": (10.0, 4.0)}, "initial"),
        ({"probability": 0.0}, "probability"),
        ({"probability": 2.0}, "probability"),
        ({"trace": (1.0,), "harvest": (1.0,)}, "harvest"),
        ({"seed": -1}, "seed"),
    ],
)
def test_nonsense_is_refused(changes: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InputError) as caught:
        Batteries(**USUAL | changes)
    assert caught.value.parameter == parameter


def test_options_make_batteries() -> None:
    options: dict[str, Any] = {"battery_joules": 8.0, "battery_initial": 0.25, "computing_joules": 1.0}
    fleet = Devices(**options, harvest_joules=0.5, harvest_probability=0.5).fleet(SCENARIO, seed=7)
    assert fleet is not None
    assert fleet.batteries == Batteries(
        capacity=(8.0,),
        initial=(2.0,),
        computing=(1.0,),
        sending=(0.0,),
        harvest=(0.5,),
        probability=0.5,
        seed=7,
    )
    assert Fleet.from_dict(fleet.as_dict()) == fleet


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"harvest_joules": 1.0}, "harvest_joules"),
        ({"battery_joules": 1.0}, "computing_joules"),
        ({"battery_joules": 1.0, "battery_initial": 2.0, "computing_joules": 1.0}, "battery_initial"),
        ({"battery_joules": 1.0, "computing_joules": 1.0, "harvest_probability": 0.5}, "harvest_probability"),
        ({"battery_joules": 1.0, "device_battery_joules": (1.0,) * 3}, "battery_joules"),
        ({"device_battery_joules": (1.0, 2.0), "computing_joules": 1.0}, "device_battery_joules"),
        (
            {"battery_joules": 1.0, "computing_joules": 1.0, "harvest_joules": 1.0, "harvest_trace": (1.0,)},
            "harvest_joules",
        ),
        ({"device_uplink_loss": (0.5, 1.0, 0.0)}, "device_uplink_loss"),
        ({"device_uplink_loss": (0.5, 0.0)}, "device_uplink_loss"),
        ({"device_uplink_loss": (0.5, 0.0, 0.0), "uplink_loss": 0.1}, "uplink_loss"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InputError) as caught:
        Devices(**options).fleet(SCENARIO)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize("probability", [0.5, 1 / 3, 1e-9, 1 - 2**-53])
def test_the_ledger_of_many_devices_harvests_what_batteries_do(probability: float) -> None:
    batteries = Batteries(
        capacity=(1e6,), computing=(1.0,), sending=(1.0,), initial=(0.0,), harvest=(2.0,),
        probability=probability, seed=5,
    )  # fmt: skip
    ledger, slots = Ledger(batteries, 70), [1, 7, 7, 400, 9_000]
    for device in (1, 2, 70):
        for slot in slots:
            ledger.charge_at(device, slot)
        assert ledger.harvested[device - 1] == batteries.harvested_until(device, 0, slots[-1])
