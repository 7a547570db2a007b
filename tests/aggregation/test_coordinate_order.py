import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from updates import MODEL, SIZE, arrived, rounds

from slotwise.aggregation import Aggregation, TrimmedMean, Vector, coordinate_median, mean
from slotwise.aggregation.robust_rules import BLOCK

shares = st.floats(0.01, 0.49)


def naive_trimmed_mean(numbers: list[float], dropped: int) -> float:
    kept = sorted(numbers)[dropped : len(numbers) - dropped]
    return sum(kept) / len(kept)


@given(rounds)
def test_the_median_is_that_of_each_coordinate(updates: list[Vector]) -> None:
    expected = [-statistics.median(float(u[i]) for u in updates) for i in range(SIZE)]
    assert np.array_equal(coordinate_median(MODEL, arrived(updates)), np.array(expected, dtype=np.float32))


@given(rounds, st.sampled_from([(0.1, 10), (0.2, 5), (0.25, 4), (0.4, 2.5)]))
def test_the_trimmed_mean_agrees_with_a_naive_one(updates: list[Vector], share: tuple[float, float]) -> None:
    trim, parts = share
    dropped = int(len(updates) / parts)
    expected = [-naive_trimmed_mean([float(u[i]) for u in updates], dropped) for i in range(SIZE)]
    assert np.array_equal(TrimmedMean(trim)(MODEL, arrived(updates)), np.array(expected, dtype=np.float32))


@pytest.mark.parametrize("rule", [coordinate_median, TrimmedMean(0.3)], ids=["median", "trimmed mean"])
@given(data=st.data(), updates=rounds)
def test_the_order_of_the_updates_does_not_matter(
    rule: Aggregation, data: st.DataObject, updates: list[Vector]
) -> None:
    shuffled = data.draw(st.permutations(updates))
    found, other = (rule(MODEL, arrived(each)) for each in (updates, shuffled))  # type: ignore[call-arg]
    assert np.asarray(found).tobytes() == np.asarray(other).tobytes()


@given(rounds.map(lambda updates: [updates[0]] * len(updates)), shares)
def test_equal_updates_give_the_mean(updates: list[Vector], share: float) -> None:
    expected = -updates[0]
    assert np.array_equal(coordinate_median(MODEL, arrived(updates)), expected)
    np.testing.assert_allclose(TrimmedMean(share)(MODEL, arrived(updates)), expected, rtol=1e-6)


@given(rounds)
def test_dropping_nothing_gives_the_mean_but_for_the_order_of_the_sum(updates: list[Vector]) -> None:
    found, expected = TrimmedMean(0.01)(MODEL, arrived(updates)), mean(MODEL, arrived(updates))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@given(rounds, st.sampled_from([np.nan, np.inf, -np.inf, 1e30]))
def test_a_minority_of_any_numbers_leaves_the_result_among_the_others(
    updates: list[Vector], bad: float
) -> None:
    attacks = [np.full(SIZE, bad, dtype=np.float32)] * ((len(updates) - 1) // 2)
    for rule in (coordinate_median, TrimmedMean(0.49)):
        with np.errstate(invalid="ignore"):
            found = -np.asarray(rule(MODEL, arrived([*attacks, *updates])))
        if isinstance(rule, TrimmedMean) and int(0.49 * (len(attacks) + len(updates))) < len(attacks):
            continue
        assert (np.min(updates, axis=0) <= found).all()
        assert (found <= np.max(updates, axis=0)).all()


def test_models_longer_than_a_block_are_done_in_blocks() -> None:
    draw = np.random.default_rng(0)
    updates = [draw.standard_normal(BLOCK + 5).astype(np.float32) for _ in range(5)]
    model = np.zeros(BLOCK + 5, dtype=np.float32)
    assert np.array_equal(coordinate_median(model, arrived(updates)), -np.median(updates, axis=0))


@pytest.mark.parametrize(
    ("trim", "size", "dropped"), [(0.2, 5, 1), (0.29, 100, 29), (0.07, 100, 7), (0.4, 25, 10)]
)
def test_shares_are_read_as_decimals(trim: float, size: int, dropped: int) -> None:
    updates = [np.full(SIZE, i < dropped, dtype=np.float32) * 100 for i in range(size)]
    assert TrimmedMean(trim)(MODEL, arrived(updates)).tolist() == [0.0] * SIZE
    more = [*updates[:dropped], updates[0], *updates[dropped + 1 :]]
    assert TrimmedMean(trim)(MODEL, arrived(more)).tolist() != [0.0] * SIZE
