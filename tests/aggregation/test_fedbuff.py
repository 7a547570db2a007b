import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slotwise.aggregation import Contribution, FedBuff, Vector, mean

vectors = st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3).map(
    lambda numbers: np.array(numbers, dtype=np.float32)
)
MODEL = np.array([8.0, 16.0], dtype=np.float32)


def aged(staleness: int, *update: float) -> Contribution:
    return Contribution(np.array(update, dtype=np.float32), staleness, MODEL)


def test_the_mean_of_the_discounted_updates_is_taken_away_times_the_step_size() -> None:
    # (4, 0)/1 and (0, 8)/sqrt(1 + 3) = (0, 4): their mean is (2, 2).
    assert FedBuff()(MODEL, [aged(0, 4.0, 0.0), aged(3, 0.0, 8.0)]).tolist() == [6.0, 14.0]
    assert FedBuff(0.5)(MODEL, [aged(0, 4.0, 0.0), aged(3, 0.0, 8.0)]).tolist() == [7.0, 15.0]
    # All equally old, 1 + 15 = 16: a quarter of the mean (4, 8).
    assert FedBuff()(MODEL, [aged(15, 8.0, 0.0), aged(15, 0.0, 16.0)]).tolist() == [7.0, 14.0]
    assert FedBuff()(MODEL, [aged(3, 4.0, 8.0)]).tolist() == [6.0, 12.0]


@given(vectors, st.lists(vectors, min_size=1, max_size=9))
def test_fresh_updates_give_the_mean_to_the_bit(model: Vector, updates: list[Vector]) -> None:
    sent = [Contribution(update, 0, model) for update in updates]
    assert FedBuff()(model, sent).tobytes() == mean(model, sent).tobytes()
