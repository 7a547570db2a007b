"""Group sizes that change with time, against the dumb loop over slots, and where they are refused."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_fleets import DEADLINE, MANY, Case, driven, fleets, lost_rows, scenarios, schedules, uplink_rows
from slot_by_slot import SlotBySlot, naive

from slotwise import InputError, Scenario, Timeline, simulate, theory
from slotwise.fleet import Fleet
from slotwise.schedule import IntentionalDelay, automatic_delay, completed_rounds, scheduler_for
from slotwise.schedule.just_in_time import Planned

CHANGING = Scenario(devices=20, group_size="10@0, 4@60, 2@150", compute_slots=7, deadline=400)


@st.composite
def changing_cases(draw: st.DrawFn) -> Case:
    scenario = draw(scenarios())
    slots = sorted(draw(st.sets(st.integers(1, DEADLINE), min_size=1, max_size=3)))
    sizes = [draw(st.integers(1, scenario.devices)) for _ in slots]
    scenario = replace(scenario, group_size_changes=tuple(zip(slots, sizes, strict=True)))
    fleet = draw(st.just(Fleet.equal(scenario)) | fleets(scenario))
    return Case(scenario, fleet, draw(schedules(scenario)))


@MANY
@given(changing_cases())
def test_sizes_change_as_in_the_dumb_loop_over_slots(case: Case) -> None:
    expected, timeline = naive(case), case.play()
    if timeline is None:
        assert expected.broadcasts == []
        return
    assert uplink_rows(timeline) == expected.uplinks
    assert lost_rows(timeline) == expected.lost
    assert list(zip(timeline.broadcast_start, timeline.broadcast_end, strict=True)) == expected.broadcasts
    assert [timeline.receivers(v).tolist() for v in range(timeline.models)] == expected.receivers
    assert Timeline.from_json(timeline.to_json()) == timeline


@given(case=changing_cases())
def test_a_plan_is_followed_through_faults_and_changes(case: Case) -> None:
    unlimited = replace(case.scenario, deadline=None)
    plan = simulate(unlimited, "idfl", fleet=case.fleet.without_faults(), rounds=40)
    record = driven(case.scenario, case.fleet, Planned.of(plan))
    naively = SlotBySlot(case.scenario, case.fleet, plan=plan).run(DEADLINE)
    assert record.uplinks == naively.uplinks
    assert record.broadcasts == naively.broadcasts


@given(changing_cases())
def test_just_in_time_costs_nothing_and_no_update_gets_older(case: Case) -> None:
    faultless = Fleet(compute_slots=case.fleet.compute_slots, link_slots=case.fleet.link_slots)
    plain = simulate(case.scenario, "async", fleet=faultless, rounds=15)
    rule = IntentionalDelay().for_planned_slots()
    delayed = simulate(case.scenario, rule, fleet=faultless, rounds=15)
    assert delayed.start.tolist() == plain.start.tolist()
    assert (delayed.staleness <= plain.staleness).all()
    events = simulate(case.scenario, rule, fleet=faultless, rounds=15, event_by_event=True)
    assert uplink_rows(events) == uplink_rows(delayed)


def test_a_round_has_the_size_that_holds_when_its_model_is_broadcast() -> None:
    timeline = simulate(CHANGING, "async")
    sizes = [len(range(*timeline.uplinks(k).indices(len(timeline)))) for k in range(timeline.rounds)]
    begins = [0, *timeline.broadcast_start.tolist()]
    assert sizes == [10 if slot < 60 else 4 if slot < 150 else 2 for slot in begins[:-1]]
    assert len(set(sizes)) == 3


def test_text_and_pairs_are_the_same_value() -> None:
    pairs = ((60, 4), (150, 2))
    same = Scenario(devices=20, group_size=10, compute_slots=7, deadline=400, group_size_changes=pairs)
    assert same == CHANGING
    assert replace(CHANGING, group_size=CHANGING.group_size_text) == CHANGING
    assert Scenario(devices=20, group_size="10@0", compute_slots=7).group_size_changes == ()
    assert CHANGING.with_group_size(3).group_size_text == "3"


@pytest.mark.parametrize(
    "text",
    ["", "ten", "10@5", "10@0,", "10@0, 4@60, 2@60", "10@0, 0@60", "10@0, 21@60", "10@0, 4@-1", "10@0 4@6"],
)
def test_malformed_sizes_are_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        Scenario(devices=20, group_size=text, compute_slots=7)  # type: ignore[arg-type]
    assert caught.value.parameter == "group_size"


@pytest.mark.parametrize("changes", [[3], [[1, 2, 3]], [[5, 2], [5, 3]], [[0, 2]], [[1.5, 2]]])
def test_malformed_pairs_are_refused(changes: Any) -> None:
    with pytest.raises(InputError):
        Scenario(devices=20, group_size=3, compute_slots=7, group_size_changes=changes)


@pytest.mark.parametrize(
    "closed_form",
    [
        theory.round_slots,
        theory.sync_round_slots,
        theory.free_delay,
        partial(theory.rounds_within, deadline=100),
        partial(theory.staleness, round_number=3),
        automatic_delay,
        completed_rounds,
    ],
    ids=["round_slots", "sync_round_slots", "free_delay", "rounds_within", "staleness", "delay", "rounds"],
)
def test_closed_forms_are_refused(closed_form: Callable[[Scenario], object]) -> None:
    with pytest.raises(InputError) as caught:
        closed_form(CHANGING)
    assert caught.value.parameter == "group_size"


def test_a_restored_scheduler_goes_on_with_the_size_of_its_round() -> None:
    options: dict[str, Any] = {"participation": "random", "seed": 3}
    first = scheduler_for(CHANGING, "sync", **options)
    first.group_size, first.delivery = 4, first.delivery.resized(4)
    second = scheduler_for(CHANGING, "sync", **options)
    second.restore(first.state)
    assert second.state == first.state
    assert second.delivery == first.delivery
