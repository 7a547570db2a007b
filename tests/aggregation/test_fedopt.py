"""FedAdam, FedYogi and FedAdagrad against their formulas, one number at a time."""

from collections.abc import Callable
from math import copysign, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.aggregation import (
    NO_STATE,
    Aggregation,
    Contribution,
    FedAdagrad,
    FedAdam,
    FedYogi,
    next_model,
)

RATE, BETA1, BETA2, TAU = 0.05, 0.8, 0.9, 0.01


def adam(v: float, u: float) -> float:
    return BETA2 * v + (1 - BETA2) * u * u


def yogi(v: float, u: float) -> float:
    difference = v - u * u
    return v - (1 - BETA2) * u * u * (copysign(1.0, difference) if difference else 0.0)


def adagrad(v: float, u: float) -> float:
    return v + u * u


CASES: dict[str, tuple[Aggregation, Callable[[float, float], float], float]] = {
    "adam": (FedAdam(RATE, BETA1, BETA2, TAU), adam, BETA1),
    "yogi": (FedYogi(RATE, BETA1, BETA2, TAU), yogi, BETA1),
    "adagrad": (FedAdagrad(RATE, TAU), adagrad, 0.0),
}


@pytest.mark.parametrize("name", CASES)
@given(sequence=st.lists(st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=4), max_size=12))
def test_rounds_follow_the_formula(name: str, sequence: list[list[float]]) -> None:
    rule, next_square, beta1 = CASES[name]
    model, state = np.array([1.0], dtype=np.float32), NO_STATE
    w, m, v = 1.0, 0.0, TAU**2
    for numbers in sequence:
        sent = [Contribution(np.array([x], dtype=np.float32), 0, model) for x in numbers]
        model, state = next_model(rule, model, sent, state)
        u = sum(numbers) / len(numbers)
        m = beta1 * m + (1 - beta1) * u
        v = next_square(v, u)
        w = float(np.float32(w - RATE * m / (sqrt(v) + TAU)))
        assert float(model[0]) == pytest.approx(w, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_the_first_step_by_hand(name: str) -> None:
    # u = 1 and tau = 0.01, so v_0 = 0.0001.
    v = {"adam": 0.9 * 0.0001 + 0.1, "yogi": 0.0001 + 0.1, "adagrad": 1.0001}[name]
    m = 1.0 if name == "adagrad" else 0.2
    sent = [Contribution(np.ones(1, dtype=np.float32), 0, np.zeros(1, dtype=np.float32))]
    model, _ = next_model(CASES[name][0], np.zeros(1, dtype=np.float32), sent)
    assert float(model[0]) == pytest.approx(-0.05 * m / (sqrt(v) + 0.01), rel=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_the_state_is_double_precision_and_as_long_as_the_model(name: str) -> None:
    start = np.zeros(5, dtype=np.float32)
    _, state = next_model(CASES[name][0], start, [Contribution(np.ones(5, dtype=np.float32), 0, start)])
    assert {(array.dtype.name, array.shape) for array in state.values()} == {("float64", (5,))}
