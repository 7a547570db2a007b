import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slotwise.aggregation import Contribution, Vector, mean, model_average

vectors = st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3).map(
    lambda numbers: np.array(numbers, dtype=np.float32)
)


def vector(*numbers: float) -> Vector:
    return np.array(numbers, dtype=np.float32)


def test_the_next_model_is_the_mean_of_the_local_models() -> None:
    # The local models are (9, 16) − (1, 0) = (8, 16) and (3, 4) − (1, 2) = (2, 2).
    sent = [Contribution(vector(1, 0), 1, vector(9, 16)), Contribution(vector(1, 2), 7, vector(3, 4))]
    assert model_average(vector(100, 200), sent).tolist() == [5, 9]


@given(vectors, st.lists(vectors, min_size=1, max_size=9))
def test_fresh_updates_give_the_mean_to_the_bit(model: Vector, updates: list[Vector]) -> None:
    sent = [Contribution(update, 0, model) for update in updates]
    assert model_average(model, sent).tobytes() == mean(model, sent).tobytes()


def test_constant_staleness_d_advances_d_plus_1_chains_in_turn() -> None:
    delay, steps = 2, 12
    models = [vector(0)] * (delay + 1)
    for k in range(delay, steps):  # each round adds the number of its chain, plus one
        update = vector(-(1 + k % (delay + 1)))
        start = models[k - delay]
        models.append(model_average(models[k], [Contribution(update, delay, start)]))
    for chain in range(delay + 1):
        values = [float(model[0]) for model in models[chain :: delay + 1]]
        assert len(set(np.diff(values).tolist())) == 1
