"""The fast path of unequal devices is the Scheduler driven event by event, for all schedules and faults."""

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_fleets import MANY, Case, cases, fleets, scenarios, schedules

from slotwise import InputError, Scenario, Timeline, simulate
from slotwise.fleet import Fleet
from slotwise.options import choose
from slotwise.schedule import POLICY, FleetLink, ready_policy
from slotwise.schedule.events import event_timeline
from slotwise.schedule.just_in_time import _without_delay
from slotwise.schedule.one_at_a_time import one_at_a_time
from slotwise.schedule.policies import IntentionalDelay


def present(case: Case, retransmission: Any) -> Case:
    """The same devices, always present and at the same speed, some with a loss of their own."""
    steady = replace(case.fleet, absences=(), compute_changes=(), retransmission=retransmission)
    return case._replace(fleet=steady)


WAYS = st.sampled_from(["next-turn", "at-once", "erasure"])


@MANY
@given(case=cases(), retransmission=WAYS, rounds=st.none() | st.integers(1, 30))
def test_it_is_the_scheduler_event_by_event(case: Case, retransmission: Any, rounds: int | None) -> None:
    fleet = present(case, retransmission).fleet
    options = dict(case.options)
    seed, options["schedule"] = options.pop("seed", 0), options.pop("policy")
    policy = ready_policy(choose(POLICY, options), seed)
    link = FleetLink.of(case.scenario, fleet)
    fast = one_at_a_time(case.scenario, policy, fleet, rounds)
    assert fast == event_timeline(case.scenario, policy, fleet, rounds, link)


@given(case=cases(), retransmission=WAYS)
def test_simulate_uses_it(case: Case, retransmission: Any) -> None:
    found = present(case, retransmission)
    assert found.play() == found.play(event_by_event=True)


@given(scenario=scenarios(), data=st.data())
def test_losses_of_each_device(scenario: Scenario, data: st.DataObject) -> None:
    fleet, options = data.draw(fleets(scenario)), data.draw(schedules(scenario))
    fleet = replace(fleet, compute_changes=())
    losses = data.draw(
        st.lists(st.sampled_from([0.0, 0.5]), min_size=scenario.devices, max_size=scenario.devices)
    )
    fleet = replace(fleet, absences=(), uplink_loss=0.0, device_uplink_loss=tuple(losses))
    case = Case(scenario, fleet, options)
    assert case.play() == case.play(event_by_event=True)


@pytest.mark.parametrize("jitter", [0.0, 0.4])
def test_all_draws_of_a_device_are_those_drawn_one_by_one(jitter: float) -> None:
    fleet = Fleet(compute_slots=(30, 7), link_slots=(1, 1), jitter=jitter, uplink_loss=0.3, seed=4)
    for device in (1, 2):
        numbers = range(200)
        slots = [fleet.slots_of_training(device, number) for number in numbers]
        assert list(islice(fleet.training_slots(device), 200)) == slots
        lost = [fleet.loses(device, number) for number in numbers]
        assert list(islice(fleet.losses(device), 200)) == lost


@given(scenario=scenarios(), rounds=st.none() | st.integers(1, 20), data=st.data())
def test_the_plan_without_delay_is_made_in_one_go(
    scenario: Scenario, rounds: int | None, data: st.DataObject
) -> None:
    fleet = data.draw(fleets(scenario)).without_faults()
    shown, plain = _without_delay(IntentionalDelay(), scenario, fleet, rounds)
    link, endless = FleetLink.of(scenario, fleet), replace(scenario, deadline=None)
    by_events = event_timeline(scenario, IntentionalDelay(delay=0), fleet, rounds, link)
    assert shown == by_events.rounds
    assert columns(plain.first(shown)) == columns(by_events)
    longer = event_timeline(endless, IntentionalDelay(delay=0), fleet, plain.rounds, link)
    assert columns(plain) == columns(longer)


def columns(timeline: Timeline) -> list[list[int]]:
    names = ("round", "device", "version", "start", "end", "broadcast_end", "receiver", "receiver_offsets")
    return [getattr(timeline, name).tolist() for name in names]


def test_a_loss_that_never_ends_stops_at_the_deadline() -> None:
    scenario = Scenario(devices=3, group_size=3, compute_slots=2, deadline=1_000)
    fleet = Fleet(compute_slots=(2, 3, 4), link_slots=(1, 1, 1), uplink_loss=0.999999)
    with pytest.raises(InputError, match="deadline"):
        simulate(scenario, "async", fleet=fleet)
