"""The example of SPEC and paper (N=6, S=2, tau_comp=2, r=1), computed by hand in exact binary fractions.

The model is linear, y = w·x, with squared error ½(w·x − y)², so a gradient is x(w·x − y). Four samples:

    A: x = (1, 0), y = 4      B: x = (0, 1), y = 8      C: x = (1, 1), y = 16      D: x = (2, 0), y = 8

Devices 1 to 6 hold A, B, C, D, A, B. The step size is ½, one step is a local training, so an update is half
a gradient, and a round takes half the sum of its two updates away: w_{k+1} = w_k − ½(u + u').
"""

import numpy as np
import pytest

from slotwise.aggregation import Vector
from slotwise.learning import Evaluation, Training, TrainingStart
from slotwise.learning.reference import asynchronous
from slotwise.scenario import Scenario
from slotwise.schedule import Schedule, simulate

SAMPLES = [((1.0, 0.0), 4.0), ((0.0, 1.0), 8.0), ((1.0, 1.0), 16.0), ((2.0, 0.0), 8.0)]
SCENARIO = Scenario(devices=6, group_size=2, compute_slots=2)

# Rounds 0 and 1 are the same for async and idfl: devices 1 to 4 all start from w_0 = (0, 0).
#   round 0: u_1 = ½(1, 0)(0 − 4) = (−2, 0), u_2 = ½(0, 1)(0 − 8) = (0, −4)         w_1 = (0, 0) + (1, 2)
#   round 1: u_3 = ½(1, 1)(0 − 16) = (−8, −8), u_4 = ½(2, 0)(0 − 8) = (−8, 0)       w_2 = (1, 2) + (8, 4)
COMMON = [[0.0, 0.0], [1.0, 2.0], [9.0, 6.0]]

ASYNC = [
    *COMMON,
    # round 2: 5 and 6 started from w_0 too, staleness 2: u_5 = (−2, 0), u_6 = (0, −4)
    [10.0, 8.0],
    # round 3: 1 and 2 received w_1 = (1, 2), staleness 2:
    #   u_1 = ½(1, 0)(1 − 4) = (−1.5, 0), u_2 = ½(0, 1)(2 − 8) = (0, −3)
    [10.75, 9.5],
]

IDFL = [
    *COMMON,
    # round 2: 5 and 6 received w_1 = (1, 2), staleness 1:
    #   u_5 = ½(1, 0)(1 − 4) = (−1.5, 0), u_6 = ½(0, 1)(2 − 8) = (0, −3)
    [9.75, 7.5],
    # round 3: 1 and 2 received w_2 = (9, 6), staleness 1:
    #   u_1 = ½(1, 0)(9 − 4) = (2.5, 0), u_2 = ½(0, 1)(6 − 8) = (0, −1)
    [8.5, 8.0],
]

SYNC = [
    [0.0, 0.0],
    [1.0, 2.0],
    # round 1: 3 and 4 start from w_1 = (1, 2):
    #   u_3 = ½(1, 1)(3 − 16) = (−6.5, −6.5), u_4 = ½(2, 0)(2 − 8) = (−6, 0)
    [7.25, 5.25],
    # round 2: 5 and 6 start from w_2: u_5 = ½(7.25 − 4) = 1.625 along x, u_6 = ½(5.25 − 8) = −1.375 along y
    [6.4375, 5.9375],
    # round 3: 1 and 2 start from w_3: u_1 = ½(6.4375 − 4) = 1.21875, u_2 = ½(5.9375 − 8) = −1.03125
    [5.828125, 6.453125],
]


class FourSamples:
    def initial_model(self) -> Vector:
        return np.zeros(2, dtype=np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        inputs, target = SAMPLES[(start.device - 1) % 4]
        x = np.array(inputs, dtype=np.float32)
        return np.float32(0.5) * x * ((x * model).sum() - np.float32(target))

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(0.0, 0.0)


@pytest.mark.parametrize(("schedule", "expected"), [("async", ASYNC), ("idfl", IDFL), ("sync", SYNC)])
def test_the_engine_gives_the_models_computed_by_hand(
    schedule: Schedule, expected: list[list[float]]
) -> None:
    with Training(simulate(SCENARIO, schedule, rounds=4), FourSamples()) as training:
        models = [training.model.tolist(), *(training.model.tolist() for _ in training)]
    assert models == expected


@pytest.mark.parametrize(("delay", "expected"), [(0, ASYNC), (1, IDFL)])
def test_the_reference_gives_the_models_computed_by_hand(delay: int, expected: list[list[float]]) -> None:
    models = asynchronous(SCENARIO, FourSamples(), 4, delay)
    assert [model.tolist() for model in models] == expected
