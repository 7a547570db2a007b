"""Rules from the plan alone: fitted without the group size that they are tested on."""

import pytest

from slotwise.paper.tuned import step_size
from slotwise.paper.tuned_results import sine
from slotwise.paper.tuned_rules import (
    CURVATURE_RULE,
    FIRST_CURVATURE,
    Case,
    Contest,
    by_turns,
    fitted_turns,
    most_travel,
    regret,
    schedule_regrets,
    step_errors,
    turns,
)


def case(
    schedule: str, size: int, staleness: int, rounds: int = 100, step: float = 0.01, loss: float = 1.0
) -> Case:
    return Case(schedule, size, staleness, rounds, step, loss, {4: loss, 5: 2 * loss}, is_judged=False)


def contest(size: int, sync_rounds: int, sync: float, idfl: float) -> Contest:
    cases = (case("sync", size, 0, sync_rounds, loss=sync), case("idfl", size, 9, 1_000, loss=idfl))
    return {one.schedule: one for one in cases}


def test_a_rule_that_is_right_has_no_error() -> None:
    cases = [case("idfl", size, age, step=0.1 * sine(age)) for size, age in ((1, 25), (5, 9), (10, 5))]
    errors = {error.rule: error for error in step_errors(cases)}
    right = errors["c · sin(π/(2(2d+1)))"]
    assert (right.typical, right.largest, right.constant) == pytest.approx((1, 1, 0.1))
    assert all(error.typical > 1.01 for error in errors.values() if error is not right)


def test_a_constant_is_fitted_without_the_cases_it_is_tested_on() -> None:
    cases = [case("sync", size, 0, step=step) for size, step in ((1, 0.01), (5, 0.01), (10, 0.08))]
    same = step_errors(cases)[0]
    assert same.largest == pytest.approx(8)
    assert same.constant == pytest.approx(0.02)


def test_the_rule_from_the_curvature_is_not_fitted() -> None:
    steps = {9: 0.01, 5: 0.005}
    error = step_errors([case("idfl", age, age, step=step) for age, step in steps.items()])[-1]
    assert (error.rule, error.constant) == (CURVATURE_RULE, 2 / (5 * FIRST_CURVATURE))
    factors = [error.constant * sine(age) / step for age, step in steps.items()]
    assert error.typical == pytest.approx((max(factors) / min(factors)) ** 0.5)  # one too short, one too long


def test_the_penalty_is_the_loss_at_the_nearest_step_that_was_tried() -> None:
    cases = [case("sync", 1, 0, step=step_size(4)), case("sync", 5, 0, step=step_size(5))]
    same = step_errors(cases)[0]
    assert same.penalties == (1.0, 2.0)  # each is predicted the step of the other


def test_schedules_are_chosen_from_rounds_and_staleness() -> None:
    few, many = contest(1, 200, 0.4, 0.1), contest(25, 130, 0.1, 0.2)
    assert (turns(few), turns(many)) == (2.0, 32.5)
    assert (regret(few, "sync"), regret(many, "sync")) == (4.0, 1.0)
    assert fitted_turns([few, many]) == 2.0
    assert (by_turns(few, 2.0), by_turns(many, 2.0)) == ("idfl", "sync")
    assert most_travel(few) == "sync"  # 200 rounds of fresh updates against 1,000·sin(π/38)
    regrets = schedule_regrets({1: few, 25: many})
    assert regrets["always idfl"] == {1: 1.0, 25: 2.0}
    assert regrets["by turns"] == {1: 4.0, 25: 1.0}  # each fitted on the other
