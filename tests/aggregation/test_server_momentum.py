import numpy as np
from hypothesis import given
from updates import MODEL, SIZE, arrived, rounds

from slotwise.aggregation import NO_STATE, ServerMomentum, Vector, fedavg, next_model


def test_three_rounds_by_hand_and_samples_weigh() -> None:
    # Updates 4, 0, 8 with beta = 0.5 and eta_g = 0.5: v = 4, 2, 9 and w = 10 − 2 − 1 − 4.5.
    rule, model, state = ServerMomentum(0.5, 0.5), np.full(SIZE, 10, dtype=np.float32), NO_STATE
    found = []
    for value in (4, 0, 8):
        sent = arrived([np.full(SIZE, value, dtype=np.float32)])
        model, state = next_model(rule, model, sent, state)
        found.append((float(model[0]), float(state["velocity"][0])))
    assert found == [(8.0, 4.0), (7.0, 2.0), (2.5, 9.0)]
    updates = [np.full(SIZE, 8, dtype=np.float32), np.zeros(SIZE, dtype=np.float32)]
    model, _ = next_model(ServerMomentum(), MODEL, arrived(updates, [3, 1]))
    assert model.tolist() == [-6.0] * SIZE


@given(rounds)
def test_without_momentum_it_is_fedavg_to_the_bit(updates: list[Vector]) -> None:
    sent = arrived(updates, [3 + i for i in range(len(updates))])
    velocity = {"velocity": np.full(SIZE, 7.0)}
    model, _ = next_model(ServerMomentum(0.0), MODEL, sent, velocity)
    assert model.tobytes() == fedavg(MODEL, sent).tobytes()
