import asyncio

import pytest
from tasks import Arithmetic

from live import play, prepare
from slotwise.live.report import Figures, compared, measured_timeline
from slotwise.live.state import Late
from slotwise.runs import RunConfig

OPTIONS = {"devices": 6, "group_size": 2, "compute_slots": 2, "schedule": "idfl", "deadline": 40}
PARAMETERS = RunConfig.from_options(OPTIONS)
PLAN = PARAMETERS.simulate()


def played(rounds=None):
    live, terms = prepare(PARAMETERS.scenario(), "idfl", rounds=rounds or PLAN.rounds)
    return asyncio.run(play(live, terms, task=Arithmetic()))


def test_a_run_that_went_to_plan_is_its_plan():
    live = played()
    measured = measured_timeline(PARAMETERS, PLAN, live.state)
    assert measured == PLAN
    comparison = compared(PLAN, measured, live.state)
    assert comparison.planned == comparison.measured
    assert (comparison.as_planned, comparison.first_difference, comparison.late) == (len(PLAN), None, {})


def test_a_run_that_was_ended_early_is_held_against_the_beginning_of_its_plan():
    live = played(rounds=3)
    comparison = compared(PLAN, measured_timeline(PARAMETERS, PLAN, live.state), live.state)
    assert comparison.planned.rounds == 3
    assert comparison.first_difference is None


def test_the_first_update_that_was_not_as_planned_is_told_and_who_was_late():
    live = played()
    rows = live.state.record.uplinks
    rows[2], rows[3] = (1, 4, 0, *rows[2][3:]), (1, 3, 0, *rows[3][3:])
    live.state.late.append(Late(3, 1, "training"))
    comparison = compared(PLAN, measured_timeline(PARAMETERS, PLAN, live.state), live.state)
    assert comparison.as_planned == len(PLAN)  # each in its round, though in another order
    assert comparison.first_difference == (
        "round 1: device 4 with staleness 1 instead of device 3 with staleness 1; "
        "device 3 was late with its training"
    )
    assert comparison.late == {3: 1}


def test_figures_are_counted_from_the_timeline():
    figures = Figures.of(PLAN)
    taken = len(PLAN) + PLAN.rounds  # every uplink and every broadcast takes one slot
    assert figures.channel_use == taken / PLAN.last_slot
    assert figures.slots_per_round == PLAN.last_slot / PLAN.rounds
    assert figures.mean_staleness == PLAN.staleness.mean()


def test_the_time_of_a_round_is_planned_where_slots_have_a_length():
    live = played()
    state, measured = live.state, measured_timeline(PARAMETERS, PLAN, live.state)
    assert compared(PLAN, measured, state).round_ms[0] is None
    planned, seen = compared(PLAN, measured, state, slot_ms=20).round_ms
    assert planned == pytest.approx(20 * PLAN.last_slot / PLAN.rounds)
    assert seen == pytest.approx(1000 * state.seconds / PLAN.rounds)
