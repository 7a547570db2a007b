import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slotwise.aggregation import Contribution, Vector, mean

floats = st.floats(-1e6, 1e6, width=32)
vectors = st.lists(floats, min_size=3, max_size=3).map(lambda numbers: np.array(numbers, dtype=np.float32))


def contributions(*updates: list[float]) -> list[Contribution]:
    return [Contribution(np.array(update, dtype=np.float32), 0) for update in updates]


def test_the_mean_of_the_updates_is_taken_away() -> None:
    model = np.array([1.0, 2.0], dtype=np.float32)
    assert mean(model, contributions([2.0, 0.0], [0.0, -4.0])).tolist() == [0.0, 4.0]


def test_one_update_is_taken_away_whole() -> None:
    assert mean(np.array([1.0], dtype=np.float32), contributions([0.25])).tolist() == [0.75]


@given(st.lists(vectors, min_size=1, max_size=5), st.lists(st.integers(0, 99), min_size=5, max_size=5))
def test_staleness_does_not_weigh(updates: list[Vector], ages: list[int]) -> None:
    model = np.ones(3, dtype=np.float32)
    fresh = mean(model, [Contribution(update, 0) for update in updates])
    stale = mean(model, [Contribution(u, age) for u, age in zip(updates, ages, strict=False)])
    assert np.array_equal(fresh, stale)


def test_a_small_update_is_not_lost_beside_a_large_one() -> None:
    # In float32, 2**24 + 1 is 2**24: the sum has to be made in double precision.
    small_and_large = contributions([2.0**24], [1.0], [-(2.0**24)], [1.0])
    assert mean(np.zeros(1, dtype=np.float32), small_and_large).tolist() == [-0.5]


def test_the_result_is_a_new_float32_vector() -> None:
    model = np.array([1.0, 2.0], dtype=np.float32)
    update = np.array([1.0, 1.0], dtype=np.float32)
    result = mean(model, [Contribution(update, 0)])
    assert result.dtype == np.float32
    assert not np.shares_memory(result, model)
    assert (model.tolist(), update.tolist()) == ([1.0, 2.0], [1.0, 1.0])
