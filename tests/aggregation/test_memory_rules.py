"""Rules with memory against their formulas, with the updates of all devices in one array."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slotwise.aggregation import (
    NO_STATE,
    Ace,
    Aggregation,
    Ca2fl,
    Contribution,
    DelayCompensated,
    FedVarp,
    Mifa,
    Vector,
    mean,
    next_model,
)

DEVICES, SIZE, RATE, AGE = 5, 3, 0.5, 2
Round = list[tuple[int, int, NDArray[np.float32]]]  # device, staleness, update


@st.composite
def plays(draw: st.DrawFn) -> list[Round]:
    """Rounds of some devices each, with updates of any age."""
    played, numbers = [], st.floats(-4, 4, width=32)
    for k in range(draw(st.integers(1, 8))):
        senders = draw(st.lists(st.integers(1, DEVICES), min_size=1, max_size=DEVICES, unique=True))
        rows = [draw(st.lists(numbers, min_size=SIZE, max_size=SIZE)) for _ in senders]
        ages = [draw(st.integers(0, k)) for _ in senders]
        played.append([(n, d, np.array(u, np.float32)) for n, d, u in zip(senders, ages, rows, strict=True)])
    return played


def models(rule: Aggregation, played: list[Round]) -> list[Vector]:
    """Return w_0, w_1, … of a rule."""
    made, state = [np.ones(SIZE, np.float32)], NO_STATE
    for k, sent in enumerate(played):
        arrived = [Contribution(u, d, made[k - d], n, k, devices=DEVICES) for n, d, u in sent]
        model, state = next_model(rule, made[-1], arrived, state)
        made.append(model)
    return made


def mifa(memory: NDArray[Any], started: NDArray[Any], sent: Round, k: int) -> NDArray[Any]:
    for n, d, u in sent:
        memory[n - 1], started[n - 1] = u, k - d
    return memory[started > -np.inf].mean(axis=0)


def aced(memory: NDArray[Any], started: NDArray[Any], sent: Round, k: int) -> NDArray[Any]:
    started[started < k - AGE] = -np.inf
    return mifa(memory, started, sent, k)


def fedvarp(memory: NDArray[Any], started: NDArray[Any], sent: Round, k: int) -> NDArray[Any]:
    step = np.mean([u - memory[n - 1] for n, _, u in sent], axis=0) + memory.mean(axis=0)
    mifa(memory, started, sent, k)
    return step


@pytest.mark.parametrize(
    ("rule", "formula"),
    [
        (Mifa(RATE), mifa),
        (Ace(RATE), mifa),
        (Ace(RATE, AGE), aced),
        (FedVarp(RATE), fedvarp),
        (Ca2fl(RATE), fedvarp),
    ],
    ids=["mifa", "ace", "aced", "fedvarp", "ca2fl"],
)
@given(played=plays())
def test_rounds_follow_the_formula(
    rule: Aggregation, formula: Callable[..., Any], played: list[Round]
) -> None:
    memory, started = np.zeros((DEVICES, SIZE)), np.full(DEVICES, -np.inf)
    expected = np.ones(SIZE)
    for k, (sent, model) in enumerate(zip(played, models(rule, played)[1:], strict=True)):
        expected = expected - RATE * formula(memory, started, sent, k)
        assert model == pytest.approx(expected, rel=1e-5, abs=1e-5)


@given(played=plays())
def test_compensation_follows_the_formula(played: list[Round]) -> None:
    made = models(DelayCompensated(RATE), played)
    for k, sent in enumerate(played):
        w = made[k].astype(np.float64)
        steps = [u + RATE * np.square(u, dtype=np.float64) * (w - made[k - d]) for _, d, u in sent]
        assert made[k + 1] == pytest.approx(w - np.mean(steps, axis=0), rel=1e-5, abs=1e-5)


@given(played=plays())
def test_a_round_of_all_devices_or_of_fresh_updates_is_their_mean(played: list[Round]) -> None:
    fresh = [[(n, 0, u) for n, _, u in sent] for sent in played]
    assert np.array_equal(models(DelayCompensated(3.0), fresh), models(mean, fresh))
    everyone = [[(n, 0, sent[n % len(sent)][2]) for n in range(1, DEVICES + 1)] for sent in played]
    for rule in (Mifa(), Ace(memory_age=0), FedVarp(), Ca2fl()):
        assert np.allclose(models(rule, everyone), models(mean, everyone), rtol=1e-5, atol=1e-5)


def test_updates_that_did_not_change_are_not_copied() -> None:
    update, start = np.ones(4, np.float32), np.zeros(4, np.float32)
    _, state = next_model(
        Mifa(), start, [Contribution(update, 0, start, 1), Contribution(update, 0, start, 2)]
    )
    _, later = next_model(Mifa(), start, [Contribution(2 * update, 0, start, 2, 1)], state)
    assert np.shares_memory(later["device 1"], state["device 1"])
    assert not np.shares_memory(later["device 2"], state["device 2"])
    assert not np.shares_memory(state["device 1"], update)
    with pytest.raises(ValueError, match="read-only"):
        later["device 1"][0] = 5
