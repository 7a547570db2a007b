import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slotwise.aggregation import Contribution, FedAsync, Hinge, Polynomial, Vector, constant, mean

vectors = st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3).map(
    lambda numbers: np.array(numbers, dtype=np.float32)
)
MODEL = np.array([8.0, 16.0], dtype=np.float32)
START = np.array([4.0, 0.0], dtype=np.float32)


def local(first: float, second: float, staleness: int) -> Contribution:
    """A device that started on START and ended there."""
    return Contribution(START - np.array([first, second], dtype=np.float32), staleness, START)


def test_local_models_are_mixed_in_one_after_another_less_the_older_they_are() -> None:
    # ½(8, 16) + ½(0, 4)
    assert FedAsync(0.5, constant)(MODEL, [local(0.0, 4.0, 7)]).tolist() == [4.0, 10.0]
    # a_t = ½·(1 + 3)^−½ = ¼: ¾(8, 16) + ¼(0, 4)
    assert FedAsync(0.5, Polynomial(0.5))(MODEL, [local(0.0, 4.0, 3)]).tolist() == [6.0, 13.0]
    # a_t = ½ / (1·(5 − 4) + 1) = ¼ for staleness 5, and ½ for staleness 4.
    mix = FedAsync(0.5, Hinge(1, 4))
    assert mix(MODEL, [local(0.0, 4.0, 5)]).tolist() == [6.0, 13.0]
    assert mix(MODEL, [local(0.0, 4.0, 4)]).tolist() == [4.0, 10.0]
    # (8, 16) and (0, 4) make (4, 10); that and (16, 2) make (10, 6). The other way round it is (6, 6.5).
    first, second = local(0.0, 4.0, 0), local(16.0, 2.0, 0)
    assert FedAsync(0.5)(MODEL, [first, second]).tolist() == [10.0, 6.0]
    assert FedAsync(0.5)(MODEL, [second, first]).tolist() == [6.0, 6.5]
    # The float32 after 2 is 2 + 2^−22.
    model = np.array([2.0], dtype=np.float32)
    exact = Contribution(np.array([-(2.0**-22)], dtype=np.float32), 0, np.array([2.0], dtype=np.float32))
    # ½·2 + ½(2 + 2^−22) = 2 + 2^−23, in float32 just 2; ½(2 + 2^−23) + ½(2 + 2^−22) = 2 + ¾·2^−22.
    assert FedAsync(0.5)(model, [exact, exact]).tolist() == [2.0 + 2.0**-22]
    model, update, start = (np.array([number], dtype=np.float32) for number in (1.0, 2.0, 3.0))
    result = FedAsync(0.5)(model, [Contribution(update, 0, start)])
    assert result.dtype == np.float32
    assert (model.tolist(), update.tolist(), start.tolist()) == ([1.0], [2.0], [3.0])


@given(vectors, vectors)
def test_mixing_a_fresh_model_in_whole_is_the_mean_of_one_to_the_bit(model: Vector, update: Vector) -> None:
    sent = [Contribution(update, 0, model)]
    assert np.array_equal(FedAsync(1.0)(model, sent), mean(model, sent))
