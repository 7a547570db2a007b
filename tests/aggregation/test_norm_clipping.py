import numpy as np
from hypothesis import given
from updates import MODEL, SIZE, arrived, rounds

from slotwise.aggregation import NormClipping, Vector, mean


def of_length(norm: float, axis: int = 0) -> Vector:
    update = np.zeros(SIZE, dtype=np.float32)
    update[axis] = norm
    return update


def test_longer_updates_are_scaled_down_to_the_bound_or_the_lower_median() -> None:
    sent = arrived([of_length(8), of_length(1, axis=1)])
    assert NormClipping(2)(MODEL, sent).tolist() == [-1.0, -0.5, 0.0]
    sent = arrived([of_length(1), of_length(2), of_length(-300), of_length(4)])  # the bound is 2
    assert NormClipping()(MODEL, sent).tolist() == [-0.75, 0.0, 0.0]
    for bad in (np.nan, np.inf):
        sent = arrived([of_length(4), of_length(bad)])
        for rule in (NormClipping(), NormClipping(8)):
            assert rule(MODEL, sent).tolist() == [-2.0, 0.0, 0.0]
    assert NormClipping()(MODEL, arrived([of_length(0), of_length(0)])).tolist() == [0.0] * SIZE


@given(rounds)
def test_a_large_bound_gives_the_mean_to_the_bit(updates: list[Vector]) -> None:
    sent = arrived(updates)
    assert NormClipping(1e30)(MODEL, sent).tobytes() == mean(MODEL, sent).tobytes()


@given(rounds)
def test_no_step_is_longer_than_the_bound(updates: list[Vector]) -> None:
    assert np.linalg.norm(NormClipping(3)(MODEL, arrived(updates)).astype(np.float64)) <= 3 * (1 + 1e-6)
