"""The compiled loop of devices that come and go is the Scheduler driven event by event."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_fleets import MANY, Case, absences, cases

import slotwise as sw
from slotwise.fleet import Absence, Fleet
from slotwise.options import choose
from slotwise.schedule import POLICY, FleetLink, Simulator, case_of, ready_policy, simulator_of
from slotwise.schedule.events import event_timeline
from slotwise.schedule.presence_simulator import presence_timeline

WAYS = st.sampled_from(["next-turn", "at-once", "erasure"])


@MANY
@given(case=cases(), retransmission=WAYS, rounds=st.none() | st.integers(1, 30), data=st.data())
def test_it_is_the_scheduler_event_by_event(
    case: Case, retransmission: Any, rounds: int | None, data: st.DataObject
) -> None:
    away = data.draw(absences(case.scenario.devices))
    fleet = replace(case.fleet, retransmission=retransmission, absences=away)
    options = dict(case.options)
    seed, options["schedule"] = options.pop("seed", 0), options.pop("policy")
    policy = ready_policy(choose(POLICY, options), seed)
    link = FleetLink.of(case.scenario, fleet)
    fast = presence_timeline(case.scenario, policy, fleet, rounds)
    assert fast == event_timeline(case.scenario, policy, fleet, rounds, link)


@pytest.mark.parametrize("schedule", ["sync", "async", "idfl"])
@pytest.mark.parametrize("faults", [{}, {"jitter": 0.4, "uplink_loss": 0.2}])
def test_many_devices_that_come_and_go(schedule: str, faults: dict[str, float]) -> None:
    away = {"mean_present": 90, "mean_away": 30}
    case = {"devices": 100, "group_size": 7, "compute_slots": 20, "link_slots": 3, "deadline": 2_000}
    setting = sw.Setting.from_options(case | away | faults | {"schedule": schedule})
    timeline = setting.simulate()
    fleet, link = case_of(timeline.scenario, timeline.fleet)
    policy = ready_policy(choose(POLICY, {"schedule": schedule}))
    assert simulator_of(timeline.scenario, policy, fleet, link) is Simulator.PRESENCE
    again = event_timeline(timeline.scenario, policy, fleet, None, link)
    assert timeline == again
    assert len(timeline.lost) > 0


def test_queues_of_devices_that_left_have_room() -> None:
    # Device 1 sends for ever; all others leave while they compute, again and again.
    away = [Absence(n, slot, slot + 1) for n in range(2, 66) for slot in range(5, 900, 3)]
    scenario = sw.Scenario(devices=65, group_size=1, compute_slots=2, deadline=900)
    fleet = Fleet(compute_slots=(1, *(400,) * 64), link_slots=(1,) * 65, absences=tuple(away))
    policy = ready_policy(choose(POLICY, {"schedule": "async"}))
    fast = presence_timeline(scenario, policy, fleet, None)
    assert fast == event_timeline(scenario, policy, fleet, None, FleetLink.of(scenario, fleet))
    assert set(fast.device.tolist()) == {1}
