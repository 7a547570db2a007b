"""Plan and measurement side by side."""

import pytest

from live import play, prepare
from slotwise.live.server.live_results import Figures, compare, measured_timeline
from slotwise.live.server.round_log import Late, RoundLog
from slotwise.runs import RunConfig

OPTIONS = {"devices": 6, "group_size": 2, "compute_slots": 2, "schedule": "idfl", "deadline": 40}
CONFIG = RunConfig.from_options(OPTIONS)
PLAN = CONFIG.simulate()


def played(rounds=None):
    return play(prepare(CONFIG.channel, "idfl", rounds=rounds or PLAN.rounds)).state


def compared(state, slot_ms=None):
    return compare(PLAN, state, slot_ms)


def test_a_run_is_compared_with_as_much_of_its_plan_as_it_played():
    state = played()
    assert measured_timeline(CONFIG, PLAN, state) == PLAN
    comparison = compared(state)
    assert comparison.planned == comparison.measured
    assert (comparison.as_planned, comparison.first_difference, comparison.late) == (len(PLAN), None, {})
    comparison = compared(played(rounds=3))
    assert comparison.planned.rounds == 3
    assert comparison.first_difference is None
    figures = Figures.of(PLAN)
    taken = len(PLAN) + PLAN.rounds  # every uplink and every broadcast takes one slot
    assert figures.channel_use == taken / PLAN.last_slot
    assert figures.slots_per_round == PLAN.last_slot / PLAN.rounds
    assert figures.mean_staleness == PLAN.staleness.mean()
    assert compared(state).round_ms[0] is None
    planned, measured = compared(state, slot_ms=20).round_ms
    assert planned == pytest.approx(20 * PLAN.last_slot / PLAN.rounds)
    assert measured == pytest.approx(1000 * state.seconds / PLAN.rounds)


def test_the_first_update_that_was_not_as_planned_is_described_and_which_device_was_late():
    state = played()
    first, second, *others = state.log
    four, three = ((1, device, 0, *row[3:]) for device, row in zip((4, 3), second.uplinks, strict=True))
    second = second._replace(uplinks=[four, three], late=[Late(3, 1, "training")])
    state.log = RoundLog()
    for one in (first, second, *others):
        state.log.add(one)
    comparison = compared(state)
    assert comparison.as_planned == len(PLAN)  # each in its round, though in another order
    assert comparison.first_difference.startswith("round 1: device 4")
    assert "device 3 was late with its training" in comparison.first_difference
    assert comparison.late == {3: 1}
