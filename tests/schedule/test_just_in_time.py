"""Just-in-time delivery: what docs/just-in-time.md claims of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotwise import Scenario, Timeline, simulate
from slotwise.base.errors import InputError
from slotwise.fleet import Absence, Fleet
from slotwise.schedule import IntentionalDelay, Scheduler
from slotwise.schedule import just_in_time as just_in_time_module
from slotwise.schedule.events import Drive
from slotwise.schedule.just_in_time import Planned, just_in_time
from slotwise.schedule.link import FleetLink
from slotwise.schedule.policy import FixedDelay
from slotwise.schedule.timeline import COLUMNS

MANY = settings(max_examples=300)
# Without the fixed delays that "idfl" prefers where they are fresher.
JUST_IN_TIME = IntentionalDelay().for_planned_slots()


@st.composite
def scenarios(draw: st.DrawFn, deadline: int | None = None) -> Scenario:
    devices = draw(st.integers(1, 10))
    return Scenario(
        devices=devices,
        group_size=draw(st.integers(1, devices)),
        compute_slots=draw(st.integers(1, 40)),
        link_slots=draw(st.integers(1, 8)),
        deadline=deadline,
    )


@st.composite
def fleets(draw: st.DrawFn, scenario: Scenario) -> Fleet:
    n = scenario.devices
    return Fleet(
        compute_slots=tuple(draw(st.lists(st.integers(1, 120), min_size=n, max_size=n))),
        link_slots=tuple(draw(st.lists(st.integers(1, 6), min_size=n, max_size=n))),
    )


@st.composite
def divided(draw: st.DrawFn) -> Scenario:
    size, groups = draw(st.integers(1, 8)), draw(st.integers(1, 12))
    compute, link = draw(st.integers(1, 300)), draw(st.integers(1, 5))
    return Scenario(devices=size * groups, group_size=size, compute_slots=compute, link_slots=link)


@MANY
@given(scenario=divided(), rounds=st.integers(1, 60))
def test_for_equal_devices_it_is_proposition_1(scenario: Scenario, rounds: int) -> None:
    # The rule is applied to equal devices too if the selection is not the built-in first-ready.
    planned = simulate(scenario, IntentionalDelay(selection=lambda waiting, *_: min(waiting)), rounds=rounds)
    assert planned.delay is None
    delayed = simulate(scenario, "idfl", rounds=rounds)
    for name in COLUMNS:
        assert np.array_equal(getattr(planned, name), getattr(delayed, name)), name


@MANY
@given(scenario=scenarios(), rounds=st.integers(1, 40), data=st.data())
def test_no_uplink_moves_and_no_update_gets_older(
    scenario: Scenario, rounds: int, data: st.DataObject
) -> None:
    fleet = data.draw(fleets(scenario))
    plain = simulate(scenario, "async", fleet=fleet, rounds=rounds)
    planned = simulate(scenario, JUST_IN_TIME, fleet=fleet, rounds=rounds)
    for name in ("round", "device", "start", "end", "broadcast_start", "broadcast_end"):
        assert np.array_equal(getattr(planned, name), getattr(plain, name)), name
    assert np.all(planned.staleness <= plain.staleness)
    assert planned.mean_staleness() <= plain.mean_staleness()


@given(scenario=scenarios(deadline=300), data=st.data())
def test_no_round_is_lost_by_a_deadline(scenario: Scenario, data: st.DataObject) -> None:
    fleet = data.draw(fleets(scenario))
    plain = simulate(scenario, "async", fleet=fleet)
    planned = simulate(scenario, JUST_IN_TIME, fleet=fleet)
    assert np.array_equal(planned.broadcast_end, plain.broadcast_end)


@given(scenario=scenarios(), rounds=st.integers(1, 40), data=st.data())
def test_a_device_could_not_have_taken_a_later_model(
    scenario: Scenario, rounds: int, data: st.DataObject
) -> None:
    """By the rule: the last broadcast that lets it finish before its round begins, or the plain one."""
    fleet = data.draw(fleets(scenario))
    plain = simulate(scenario, "async", fleet=fleet, rounds=rounds)
    planned = simulate(scenario, JUST_IN_TIME, fleet=fleet, rounds=rounds)
    ends = [0, *planned.broadcast_end.tolist()]
    columns = (planned.round, planned.device, planned.version, plain.version)
    for k, device, version, without in zip(*(column.tolist() for column in columns), strict=True):
        slots = fleet.compute_slots[device - 1]
        in_time = [v for v in range(k + 1) if ends[v] + slots <= ends[k]]
        assert version == max([without, *in_time])


@given(scenario=scenarios(), rounds=st.integers(1, 25), data=st.data())
def test_the_scheduler_with_the_plan_does_exactly_that(
    scenario: Scenario, rounds: int, data: st.DataObject
) -> None:
    fleet = data.draw(fleets(scenario))
    exact = simulate(scenario, "idfl", fleet=fleet, rounds=rounds)
    assert exact == simulate(scenario, "idfl", fleet=fleet, rounds=rounds, event_by_event=True)


@given(scenario=scenarios(), rounds=st.integers(1, 25), data=st.data())
def test_everyone_who_received_a_model_in_the_plain_schedule_receives_one_here(
    scenario: Scenario, rounds: int, data: st.DataObject
) -> None:
    """Also those who have not sent when the horizon ends: they compute on the model they will send from."""
    fleet = data.draw(fleets(scenario))
    shown = simulate(scenario, JUST_IN_TIME, fleet=fleet, rounds=rounds)
    longer = simulate(scenario, JUST_IN_TIME, fleet=fleet, rounds=rounds + 200)
    for version in range(rounds + 1):
        assert shown.receivers(version).tolist() == longer.receivers(version).tolist()


def test_a_slow_device_among_fast_ones_slot_by_slot() -> None:
    """Device 3 takes 8 slots, the others 1. In time for slot 11, it takes w_1 of slot 3 instead of w_0."""
    scenario = Scenario(devices=3, group_size=1, compute_slots=2)
    fleet = Fleet(compute_slots=(1, 1, 8), link_slots=(1, 1, 1))
    plain = simulate(scenario, "async", fleet=fleet, rounds=7)
    planned = simulate(scenario, JUST_IN_TIME, fleet=fleet, rounds=7)
    assert plain.device.tolist() == planned.device.tolist() == [1, 2, 1, 2, 1, 3, 2]
    assert plain.start.tolist() == planned.start.tolist() == [1, 3, 5, 7, 9, 11, 13]
    assert plain.version.tolist() == [0, 0, 1, 2, 3, 0, 4]
    assert planned.version.tolist() == [0, 0, 1, 2, 3, 1, 5]


def test_a_device_too_slow_to_plan_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(just_in_time_module, "MOST_ROUNDS", 400)
    scenario = Scenario(devices=2, group_size=1, compute_slots=1, deadline=100)
    assert simulate(scenario, "idfl", fleet=Fleet(compute_slots=(1, 500), link_slots=(1, 1))).rounds
    with pytest.raises(InputError) as raised:
        simulate(scenario, "idfl", fleet=Fleet(compute_slots=(1, 1000), link_slots=(1, 1)))
    assert raised.value.parameter == "compute_slots"


def test_short_uplinks_beside_a_long_broadcast_lose_no_receivers() -> None:
    """The plan has to look ahead by the shortest possible round, not by the scenario's."""
    scenario = Scenario(devices=2, group_size=1, compute_slots=1, link_slots=1_000)
    fleet = Fleet(compute_slots=(1, 20_000), link_slots=(1, 1))
    planned = simulate(scenario, JUST_IN_TIME, fleet=fleet, rounds=3)
    assert sorted(planned.receivers(0).tolist()) == [1, 2]


def test_short_rounds_on_sub_channels_lose_no_receivers() -> None:
    """Several uplinks at once make rounds shorter, so the plan has to look further ahead."""
    scenario = Scenario(devices=5, group_size=2, compute_slots=2, sub_channels=5, link_slots=3)
    fleet = Fleet(compute_slots=(1, 1, 200, 2, 2), link_slots=(2,) * 5)
    shown, longer = (simulate(scenario, JUST_IN_TIME, fleet=fleet, rounds=rounds) for rounds in (6, 500))
    assert [shown.receivers(v).tolist() for v in range(7)] == [longer.receivers(v).tolist() for v in range(7)]


@pytest.mark.parametrize(
    "faults",
    [
        {"jitter": 0.5},
        {"uplink_loss": 0.3},
        {"uplink_loss": 0.3, "retransmission": "at-once"},
        {"absences": (Absence(2, 400, 900), Absence(5, 0, 600), Absence(7, 1000))},
    ],
)
def test_with_faults_it_is_a_heuristic_that_still_lowers_staleness_here(faults: dict[str, object]) -> None:
    scenario = Scenario(devices=8, group_size=2, compute_slots=4, deadline=4_000)
    slots = (2, 3, 4, 5, 6, 7, 8, 20)
    fleet = Fleet(compute_slots=slots, link_slots=(1,) * 8, **faults)  # type: ignore[arg-type]
    plain = simulate(scenario, "async", fleet=fleet)
    planned = simulate(scenario, "idfl", fleet=fleet)
    assert planned.mean_staleness() < plain.mean_staleness()
    assert planned.rounds >= 0.85 * plain.rounds


def test_a_plan_may_start_later_than_the_devices() -> None:
    plan = just_in_time(
        simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=9), [2] * 6, 4
    )
    assert [plan.receivers(v).tolist() for v in range(3)] == [[1, 2, 3, 4], [5, 6], [1, 2]]


def test_the_plan_is_followed_by_a_scheduler_that_knows_no_durations() -> None:
    scenario = Scenario(devices=6, group_size=2, compute_slots=2)
    plan: Timeline = just_in_time(simulate(scenario, "async", rounds=30), [2] * 6, 20)
    fleet = Fleet.equal(scenario)
    followed = Drive(Scheduler(2, Planned.of(plan)), fleet, FleetLink(fleet, 1)).play(8, None)
    delayed = Drive(Scheduler(2, FixedDelay(6, 2, 1)), fleet, FleetLink(fleet, 1)).play(8, None)
    assert followed == delayed
