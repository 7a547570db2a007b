"""Which simulator a case has; that all make the same timelines is tested beside each."""

import pickle
from dataclasses import replace
from typing import Any

import pytest
from random_links import FadingLink

from slotwise import Asynchronous, IntentionalDelay, Scenario, Synchronous, simulate
from slotwise.fleet import Absence, Fleet
from slotwise.schedule import FleetLink, Policy, Simulator, case_of, simulator_of
from slotwise.schedule.selections import best_channel, largest_age, proportional_fair, round_robin

SCENARIO = Scenario(devices=3, group_size=1, compute_slots=2, deadline=100)
UNEQUAL = Fleet(compute_slots=(2, 3, 4), link_slots=(1, 1, 1))
SAID = Fleet(compute_slots=(2, 2, 2), link_slots=(1, 1, 1), retransmission="at-once", seed=7)
ABSENT = replace(UNEQUAL, absences=(Absence(1, 5),))
MANY = replace(SCENARIO, devices=64)
MANY_ABSENT = Fleet(compute_slots=(2,) * 64, link_slots=(1,) * 64, absences=(Absence(1, 5),))
FADING = FadingLink(devices=3)
SUB_CHANNELS = replace(SCENARIO, sub_channels=2)
CHANGES = replace(SCENARIO, group_size_changes=((20, 2),))


@pytest.mark.parametrize(
    ("simulator", "policy", "options"),
    [
        (Simulator.BATCHES, Asynchronous(), {}),
        (Simulator.BATCHES, Synchronous(participation="random"), {"fleet": SAID}),
        (Simulator.BATCHES, IntentionalDelay(), {"scenario": SUB_CHANNELS}),
        (Simulator.EVENTS, Synchronous(participation="largest-age"), {}),
        (Simulator.EVENTS, Asynchronous(selection=round_robin), {}),
        (Simulator.EVENTS, Asynchronous(), {"scenario": CHANGES}),
        (Simulator.JUST_IN_TIME, IntentionalDelay(selection=round_robin), {}),
        (Simulator.JUST_IN_TIME, IntentionalDelay(), {"fleet": UNEQUAL}),
        (Simulator.ONE_AT_A_TIME, IntentionalDelay(), {"fleet": replace(UNEQUAL, jitter=0.1)}),
        (Simulator.ONE_AT_A_TIME, IntentionalDelay(delay=1), {"fleet": UNEQUAL}),
        (Simulator.EVENTS, Asynchronous(), {"fleet": UNEQUAL, "scenario": SUB_CHANNELS}),
        (Simulator.EVENTS, Asynchronous(), {"fleet": ABSENT}),
        (Simulator.PRESENCE, Asynchronous(), {"fleet": MANY_ABSENT, "scenario": MANY}),
        (Simulator.EVENTS, Asynchronous(selection=round_robin), {"fleet": MANY_ABSENT, "scenario": MANY}),
        (Simulator.FADING, Asynchronous(selection=best_channel), {"link": FADING, "fleet": UNEQUAL}),
        (Simulator.FADING, IntentionalDelay(delay=1, selection=proportional_fair), {"link": FADING}),
        (Simulator.EVENTS, IntentionalDelay(delay=1, selection=largest_age), {"link": FADING}),
        (Simulator.EVENTS, IntentionalDelay(selection=largest_age), {"link": FADING}),
        (Simulator.EVENTS, Asynchronous(), {"link": FADING}),
    ],
)
def test_every_case_has_one_simulator(simulator: Simulator, policy: Policy, options: Any) -> None:
    case = {"scenario": SCENARIO, "fleet": None, "link": None, **options}
    fleet, link = case_of(**case)
    assert simulator_of(case["scenario"], policy.ready(), fleet, link) is simulator


def test_equal_devices_are_a_fleet_like_any_other() -> None:
    listed = Fleet(compute_slots=(2, 2, 2), link_slots=(1, 1, 1))
    equal = Fleet.equal(SCENARIO)
    assert "compute_slots" not in vars(equal)  # a million of them are three numbers
    assert pickle.loads(pickle.dumps(equal)) == equal == listed
    assert replace(equal, jitter=0.1) == replace(listed, jitter=0.1)
    assert case_of(SCENARIO, SAID, None)[0] == equal
    assert simulate(SCENARIO, fleet=SAID) == simulate(SCENARIO)


def test_fixed_slots_are_a_link_like_any_other() -> None:
    fixed, slow = (
        FleetLink.of(SCENARIO, UNEQUAL),
        FleetLink.of(SCENARIO, replace(UNEQUAL, link_slots=(9, 9, 9))),
    )
    assert simulate(SCENARIO, fleet=UNEQUAL, link=fixed) == simulate(SCENARIO, fleet=UNEQUAL)
    assert simulate(SCENARIO, link=FleetLink.of(SCENARIO, Fleet.equal(SCENARIO))) == simulate(SCENARIO)
    assert simulate(SCENARIO, fleet=UNEQUAL, link=slow).rounds < simulate(SCENARIO, fleet=UNEQUAL).rounds
