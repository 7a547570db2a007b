import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from updates import MODEL, SIZE, arrived, rounds

from slotwise.aggregation import Vector, fedavg, mean
from slotwise.aggregation.rule import LARGE, PART
from slotwise.base.errors import UserError


def test_a_device_weighs_by_its_samples_and_must_have_some() -> None:
    updates = [np.full(SIZE, 8, dtype=np.float32), np.zeros(SIZE, dtype=np.float32)]
    assert fedavg(MODEL, arrived(updates, [30, 10])).tolist() == [-6.0] * SIZE
    with pytest.raises(UserError, match="device 2"):
        fedavg(MODEL, arrived([MODEL, MODEL], [1, 0]))


@given(rounds, st.integers(1, 10**6))
def test_equal_counts_give_the_mean_to_the_bit(updates: list[Vector], count: int) -> None:
    sent = arrived(updates, [count] * len(updates))
    assert fedavg(MODEL, sent).tobytes() == mean(MODEL, sent).tobytes()


@pytest.mark.parametrize("size", [LARGE - 1, LARGE, 4 * PART, 4 * PART + 1])
def test_sums_of_large_models_are_those_of_numpy_to_the_bit(size: int) -> None:
    draw = np.random.default_rng(size)
    model, *updates = draw.normal(size=(4, size)).astype(np.float32)
    counts = [3, 5, 4]
    total = np.zeros(size)
    for update in updates:
        total += update
    assert mean(model, arrived(updates)).tobytes() == (model - total / 3).astype(np.float32).tobytes()
    total[:] = 0
    for count, update in zip(counts, updates, strict=True):
        total += count / 5 * update.astype(np.float64)
    expected = (model - total / (0.6 + 1 + 0.8)).astype(np.float32)
    assert fedavg(model, arrived(updates, counts)).tobytes() == expected.tobytes()


@given(st.data(), rounds)
def test_it_is_the_mean_of_the_pooled_samples(data: st.DataObject, updates: list[Vector]) -> None:
    counts = data.draw(st.lists(st.integers(1, 9), min_size=len(updates), max_size=len(updates)))
    pooled = [u for u, count in zip(updates, counts, strict=True) for _ in range(count)]
    found, expected = fedavg(MODEL, arrived(updates, counts)), mean(MODEL, arrived(pooled))
    largest = max(float(np.abs(u).max()) for u in updates)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12 * largest)
