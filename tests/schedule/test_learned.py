"""Policies that see the learning: each beside a slow twin that reads like its paper."""

from collections.abc import Sequence
from math import ceil, inf, isnan, log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise import InputError, Scenario, Synchronous, simulate
from slotwise.base.random_streams import SchedulePurpose, chance
from slotwise.schedule import Asynchronous, Decision, Learning, Waiting
from slotwise.schedule.learned import (
    GROUP_RULES,
    PARTICIPANTS,
    LossProportional,
    Oort,
    PowerOfChoice,
    ShrinkWhenStalled,
    UpdateNorm,
    decides,
)

NAN = float("nan")


@st.composite
def cases(draw: st.DrawFn) -> tuple[Decision, Learning]:
    devices = draw(st.integers(1, 12))
    values = st.lists(st.sampled_from([NAN, 0.0, 0.5, 1.5, 4.0]), min_size=devices, max_size=devices)
    losses, norms = draw(values), draw(values)
    samples = draw(st.lists(st.integers(1, 50), min_size=devices, max_size=devices))
    present = sorted(draw(st.sets(st.integers(1, devices), min_size=1)))
    round_number = draw(st.integers(0, 40))
    waiting = [
        Waiting(9, n, round_number, draw(st.integers(0, round_number)), 0, float(draw(st.integers(-5, 5))))
        for n in present
    ]
    waiting = [one._replace(planned_slots=draw(st.integers(1, 4))) for one in waiting]
    count = draw(st.integers(1, len(present)))
    decision = Decision("participants", 9, round_number, present, count, 0, count, lambda: waiting)
    return decision, Learning(np.array(losses), np.array(norms), np.array(samples), np.empty(0))


def roulette(seed: int, round_number: int, weights: dict[int, float]) -> list[int]:
    """All devices in the order in which exponential clocks with these rates ring; first those never heard."""

    def ring(device: int) -> tuple[float, float, int]:
        number = chance(seed, SchedulePurpose.PARTICIPANTS, round_number, device)
        weight = weights[device]
        if weight == inf:
            return (0, -number, device)
        return (1, -log(max(number, 2**-54)) / weight, device) if weight > 0 else (2, 0.0, device)

    return sorted(weights, key=ring)


def best(devices: Sequence[int], values: Any) -> list[int]:
    """The devices by falling value, those without one first; ties to the lower index."""
    return sorted(devices, key=lambda n: (not isnan(values[n - 1]), -np.nan_to_num(values[n - 1]), n))


@given(case=cases(), d=st.integers(1, 15), seed=st.integers(0, 3))
def test_power_of_choice(case: tuple[Decision, Learning], d: int, seed: int) -> None:
    decision, learning = case
    order = roulette(seed, decision.round, {n: float(learning.samples[n - 1]) for n in decision.allowed})
    candidates = order[: max(d, decision.count)]
    expected = best(candidates, learning.losses)[: decision.count]
    assert PowerOfChoice(choice_candidates=d, seed=seed)(decision, learning) == expected


@given(case=cases(), seed=st.integers(0, 3))
def test_loss_proportional(case: tuple[Decision, Learning], seed: int) -> None:
    decision, learning = case
    weights = {}
    for n in decision.allowed:
        loss = learning.losses[n - 1]
        weights[n] = inf if isnan(loss) else float(loss * learning.samples[n - 1])
    expected = roulette(seed, decision.round, weights)[: decision.count]
    assert LossProportional(seed=seed)(decision, learning) == expected


@given(case=cases(), candidates=st.integers(1, 15))
def test_update_norm(case: tuple[Decision, Learning], candidates: int) -> None:
    decision, learning = case
    by_channel = sorted(decision.waiting, key=lambda one: (-one.snr_db, one.device))
    good = [one.device for one in by_channel[: max(candidates, decision.count)]]
    expected = best(good, learning.norms)[: decision.count]
    assert UpdateNorm(norm_candidates=candidates)(decision, learning) == expected


@given(case=cases(), share=st.sampled_from([0.0, 0.1, 0.9, 1.0]), slots=st.integers(1, 4))
def test_oort(case: tuple[Decision, Learning], share: float, slots: int) -> None:
    decision, learning = case
    k, count = decision.round, decision.count
    utility, explored = {}, {}
    for one in decision.waiting:
        n, loss = one.device, learning.losses[one.device - 1]
        penalty = (slots / one.planned_slots) ** 2 if one.planned_slots > slots else 1.0
        if isnan(loss):
            explored[n] = penalty
        else:
            last = max(1, k - one.age)
            utility[n] = (loss * learning.samples[n - 1] + sqrt(0.1 * log(max(1, k)) / last)) * penalty
    epsilon = share
    for _ in range(k):
        epsilon = epsilon * 0.98
    epsilon = max(epsilon, min(share, 0.2))
    explore = min(len(explored), max(ceil(epsilon * count - 1e-12), count - len(utility)))
    ranked = sorted(utility, key=lambda n: (-utility[n], n))
    exploit = min(count - explore, len(ranked))
    expected: list[int] = []
    if exploit:
        cutoff = 0.95 * utility[ranked[exploit - 1]]
        expected = roulette(0, k, {n: u for n, u in utility.items() if u >= cutoff})[:exploit]
    expected += roulette(0, k, explored)[: count - len(expected)]
    assert list(Oort(oort_exploration=share, oort_slots=slots)(decision, learning)) == expected


def test_devices_are_drawn_in_proportion() -> None:
    learning = Learning(np.array([1.0, 2.0, 5.0]), np.ones(3), np.ones(3, np.int64), np.empty(0))
    first = [
        LossProportional()(Decision("participants", 0, k, [1, 2, 3], 1), learning)[0] for k in range(4_000)
    ]
    shares = np.bincount(first, minlength=4)[1:] / len(first)
    assert shares == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=0.03)


def shrunk(losses: Sequence[float], rounds: int, factor: float, size: int) -> list[int]:
    """The group size of every round, as the text of the rule says."""
    sizes = []
    for k in range(len(losses) + 1):
        if k >= 2 * rounds and k % rounds == 0:
            now, before = losses[k - rounds : k], losses[k - 2 * rounds : k - rounds]
            if not sum(now) / rounds < sum(before) / rounds:
                size = min(size, ceil(factor * size))
        sizes.append(size)
    return sizes


@given(
    losses=st.lists(st.integers(0, 9), max_size=60),
    rounds=st.integers(1, 5),
    factor=st.sampled_from([0.1, 0.5, 0.9]),
    size=st.integers(1, 20),
)
def test_the_group_size_shrinks_when_the_loss_stalls(
    losses: list[int], rounds: int, factor: float, size: int
) -> None:
    rule = ShrinkWhenStalled(stall_rounds=rounds, stall_factor=factor)
    expected, found = shrunk([float(loss) for loss in losses], rounds, factor, size), []
    for k in range(len(losses) + 1):
        known = Learning(np.empty(0), np.empty(0), np.empty(0, np.int64), np.array(losses[:k], float))
        decision = Decision("group_size", 0, k, range(1, 21), group_size=size)
        size = rule(decision, known)
        found.append(size)
    assert found == expected


def test_rounds_without_updates_do_not_count() -> None:
    losses = np.array([3.0, NAN, NAN, 2.0, NAN, NAN])
    known = Learning(np.empty(0), np.empty(0), np.empty(0, np.int64), losses)
    rule = ShrinkWhenStalled(stall_rounds=2)
    sizes = [
        rule(
            Decision("group_size", 0, k, range(1, 9), group_size=8),
            Learning(known.losses, known.norms, known.samples, losses[:k]),
        )
        for k in (4, 6)
    ]
    assert sizes == [8, 8]


SCENARIO = Scenario(devices=6, group_size=2, compute_slots=3, deadline=60)


@pytest.mark.parametrize("name", PARTICIPANTS)
def test_nothing_is_simulated_without_learning(name: str) -> None:
    with pytest.raises(InputError, match=f"^participation = {name}: must be used with train, sweep or serve"):
        simulate(SCENARIO, "sync", participation=name)  # type: ignore[arg-type]


def test_rules_and_own_functions_are_refused_without_learning() -> None:
    rule = GROUP_RULES["shrink-when-stalled"]()
    with pytest.raises(InputError, match=r"^group_rule = shrink-when-stalled"):
        simulate(SCENARIO, Asynchronous(group_rule=rule))
    with pytest.raises(InputError, match=r"^selection = "):
        simulate(SCENARIO, Asynchronous(selection=lambda decision, learning: 1))  # type: ignore[arg-type,misc]


def test_functions_of_two_arguments_decide_by_learning() -> None:
    assert decides(lambda decision, learning: 1)
    assert not decides(lambda waiting, round_number, last_sender: waiting[0])
    assert not decides("round-robin")
    assert Synchronous(participation=Oort()).agents == {"participants": Oort()}
    assert Synchronous(participation=Oort(), seed=3).without_agents() == Synchronous(seed=3)
    assert Synchronous(participation=Oort()).ready(5).participation == Oort(seed=5)
