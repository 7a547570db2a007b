import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.aggregation import (
    Aggregation,
    Contribution,
    Hinge,
    Polynomial,
    StalenessWeightedMean,
    Vector,
    constant,
    mean,
)

floats = st.floats(-1e6, 1e6, width=32)
vectors = st.lists(floats, min_size=3, max_size=3).map(lambda numbers: np.array(numbers, dtype=np.float32))
discounts = st.one_of(
    st.just(constant),
    st.floats(0, 16).map(Polynomial),
    st.builds(Hinge, st.floats(0.01, 100), st.floats(0, 50)),
)
ZERO = np.zeros(2, dtype=np.float32)


def contributions(*updates: list[float]) -> list[Contribution]:
    return [aged(0, *update) for update in updates]


def aged(staleness: int, *update: float) -> Contribution:
    return Contribution(np.array(update, dtype=np.float32), staleness, ZERO)


def test_means_take_updates_away_weighted_by_the_discount_within_a_round() -> None:
    model = np.array([1.0, 2.0], dtype=np.float32)
    assert mean(model, contributions([2.0, 0.0], [0.0, -4.0])).tolist() == [0.0, 4.0]
    assert mean(np.array([1.0], dtype=np.float32), contributions([0.25])).tolist() == [0.75]
    # s(0) = 1 and s(3) = (1 + 3)^−½ = ½: weights ⅔ and ⅓ of (6, 0) and (0, 12) make (4, 4).
    sent = [aged(0, 6.0, 0.0), aged(3, 0.0, 12.0)]
    assert StalenessWeightedMean(Polynomial(0.5))(ZERO, sent).tolist() == [-4.0, -4.0]
    # s(1) = ½ and s(3) = ¼ for a = 1: weights ⅔ and ⅓ again, though nothing is fresh.
    sent = [aged(1, 6.0, 0.0), aged(3, 0.0, 12.0)]
    assert StalenessWeightedMean(Polynomial(1))(ZERO, sent).tolist() == [-4.0, -4.0]


@given(st.lists(vectors, min_size=1, max_size=5), st.lists(st.integers(0, 99), min_size=5, max_size=5))
def test_staleness_does_not_weigh_in_the_mean(updates: list[Vector], ages: list[int]) -> None:
    model = np.ones(3, dtype=np.float32)
    fresh = mean(model, [Contribution(update, 0, ZERO) for update in updates])
    stale = mean(model, [Contribution(u, age, ZERO) for u, age in zip(updates, ages, strict=False)])
    assert np.array_equal(fresh, stale)


@pytest.mark.parametrize("average", [mean, StalenessWeightedMean()])
def test_a_small_update_is_not_lost_beside_a_large_one(average: Aggregation) -> None:
    # In float32, 2**24 + 1 is 2**24: the sum has to be made in double precision.
    small_and_large = contributions([2.0**24], [1.0], [-(2.0**24)], [1.0])
    assert average(np.zeros(1, dtype=np.float32), small_and_large).tolist() == [-0.5]


@pytest.mark.parametrize("average", [mean, StalenessWeightedMean()])
def test_the_result_is_a_new_float32_vector(average: Aggregation) -> None:
    model = np.array([1.0, 2.0], dtype=np.float32)
    update = np.array([1.0, 1.0], dtype=np.float32)
    result = average(model, [Contribution(update, 0, ZERO)])
    assert result.dtype == np.float32
    assert not np.shares_memory(result, model)
    assert (model.tolist(), update.tolist()) == ([1.0, 2.0], [1.0, 1.0])


@given(vectors, st.lists(vectors, min_size=1, max_size=9), st.integers(0, 10**6), discounts)
def test_the_weighted_mean_of_equally_old_updates_is_the_mean_to_the_bit(
    model: Vector, updates: list[Vector], age: int, discount: Polynomial
) -> None:
    sent = [Contribution(update, age, model) for update in updates]
    assert StalenessWeightedMean(discount)(model, sent).tobytes() == mean(model, sent).tobytes()
