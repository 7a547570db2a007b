import numpy as np
from hypothesis import given
from updates import MODEL, SIZE, arrived, rounds

from slotwise.aggregation import NO_STATE, Contribution, DelayAdaptive, Vector, mean, next_model


def aged(value: float, staleness: int) -> Contribution:
    return Contribution(np.full(SIZE, value, dtype=np.float32), staleness, MODEL)


def test_steps_shrink_beyond_the_threshold_which_is_the_mean_staleness() -> None:
    sent = [aged(12, 0), aged(12, 2), aged(12, 3), aged(12, 8)]  # weights 1, 1, 2/3, 1/4
    model, _ = next_model(DelayAdaptive(2), MODEL, sent)
    assert model.tolist() == [-8.75] * SIZE
    model, state = next_model(DelayAdaptive(), MODEL, [aged(8, 1), aged(8, 3)], NO_STATE)
    assert state["seen"].tolist() == [4, 2]
    assert model[0] == np.float32(-(8 + 8 * 2 / 3) / 2)
    _, state = next_model(DelayAdaptive(), MODEL, [aged(8, 5)], state)
    assert state["seen"].tolist() == [9, 3]
    model, _ = next_model(DelayAdaptive(), MODEL, [aged(4, 0), aged(4, 0), aged(4, 1)])
    assert model.tolist() == [-4.0] * SIZE


@given(rounds)
def test_fresh_updates_give_the_mean_to_the_bit(updates: list[Vector]) -> None:
    sent = arrived(updates)
    assert next_model(DelayAdaptive(), MODEL, sent)[0].tobytes() == mean(MODEL, sent).tobytes()
