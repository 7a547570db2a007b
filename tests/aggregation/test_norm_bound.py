"""The bound on the norms of updates, as live servers apply it."""

from math import inf

import numpy as np
import pytest

from slotwise.aggregation import Contribution, ServerMomentum, mean, next_model
from slotwise.aggregation.norm_bound import (
    FACTOR,
    FIRST,
    WINDOW,
    NormBounded,
    RoundNorms,
    check_clip_norm,
)
from slotwise.base.errors import InputError, UserError

MODEL = np.array([30, 40], dtype=np.float32)


def sent(*norms):
    unit = np.array([0.6, 0.8])
    return [
        Contribution((norm * unit).astype(np.float32), 0, MODEL, device)
        for device, norm in enumerate(norms, 1)
    ]


def played(rule, *rounds):
    """Return the last model and the last state."""
    model, state = MODEL, {}
    for norms in rounds:
        model, state = next_model(rule, MODEL, sent(*norms), state)
    return model, state


def test_long_updates_are_cut_to_a_multiple_of_the_median_of_a_window():
    contributions = sent(1, 2, 2.5, 3, 2)
    model, _ = next_model(NormBounded(mean), MODEL, contributions)
    assert np.array_equal(model, mean(MODEL, contributions))
    model, state = played(NormBounded(mean), [1, 1, 1, 1, 1e20])
    assert np.allclose(MODEL - model, [0.6 * (4 + FACTOR) / 5, 0.8 * (4 + FACTOR) / 5])
    found = RoundNorms.of(state, 5)
    assert (found.bounds[-1], found.median) == (pytest.approx(FACTOR), pytest.approx(1))
    assert found.norms[-1] == pytest.approx(1e20)
    usual = [[1.0] for _ in range(20)]
    model, _ = played(NormBounded(mean), *usual, [100.0])
    assert np.linalg.norm(MODEL - model) == pytest.approx(FACTOR, rel=1e-5)
    _, state = played(NormBounded(mean), *([[1.0, 1.0, 1.0]] * WINDOW))
    assert len(state["norm_bound.norms"]) == WINDOW


def test_a_first_update_is_bounded_by_the_model_if_there_is_one():
    model, _ = played(NormBounded(mean), [1e30])
    assert np.allclose(model, MODEL * (1 - FIRST))
    model, _ = played(NormBounded(mean), [4.0])
    assert np.linalg.norm(MODEL - model) == pytest.approx(4)
    zero = np.zeros_like(MODEL)
    model, _ = next_model(NormBounded(mean), zero, sent(4.0))
    assert np.linalg.norm(model) == pytest.approx(4)


@pytest.mark.parametrize(("bound", "expected"), [(2.0, 2.0), ("off", 100.0)])
def test_the_bound_is_fixed_or_off(bound, expected):
    model, state = played(NormBounded(mean, bound), [100.0])
    assert np.linalg.norm(MODEL - model) == pytest.approx(expected, rel=1e-5)
    assert RoundNorms.of(state, 1).bounds == [inf if bound == "off" else bound]


def test_a_rule_keeps_its_state_and_its_name():
    rule = ServerMomentum()
    _, bounded = played(NormBounded(rule), [1, 2, 1, 2, 1], [1, 1, 1, 1, 1])
    _, alone = played(rule, [1, 2, 1, 2, 1], [1, 1, 1, 1, 1])
    assert alone.keys() < bounded.keys()
    assert all(np.array_equal(bounded[name], alone[name]) for name in alone)

    def nonsense(model, contributions):
        return None

    with pytest.raises(UserError, match="nonsense"):
        next_model(NormBounded(nonsense), MODEL, sent(1))


@pytest.mark.parametrize("value", [0, -1.0, inf, float("nan"), "on", None])
def test_other_bounds_are_refused(value):
    with pytest.raises(InputError):
        check_clip_norm(value)
