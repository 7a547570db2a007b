"""A cheap task with exact arithmetic of its own."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slotwise.aggregation import Vector
from slotwise.learning import Evaluation, Task, TrainingStart
from slotwise.learning.randomness import Purpose, draw_batches, generator

# live.py and what it imports; torch_cases.py.
for folder in (Path(__file__).parents[1] / "live", Path(__file__).parents[1] / "torch"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

SAMPLES, FEATURES = 6, 5


class LeastSquares(Task):
    """Linear regression with a few float32 samples on each device; two SGD steps are a local training."""

    def __init__(self, devices: int, seed: int) -> None:
        draw = generator(seed, Purpose.PARTITION)
        self.seed = seed
        self.inputs = draw.normal(size=(devices, SAMPLES, FEATURES)).astype(np.float32)
        self.targets = draw.normal(size=(devices, SAMPLES)).astype(np.float32)

    def initial_model(self) -> Vector:
        return generator(self.seed, Purpose.MODEL).normal(size=FEATURES).astype(np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        weights = model.copy()
        for batch in draw_batches(self.seed, start.device, start.training, SAMPLES, 2, 3):
            inputs, targets = self.inputs[start.device - 1, batch], self.targets[start.device - 1, batch]
            errors = (inputs * weights).sum(axis=1) - targets
            weights -= np.float32(0.05) * (inputs * errors[:, np.newaxis]).sum(axis=0)
        return model - weights

    def evaluate(self, model: Vector) -> Evaluation:
        errors = (self.inputs * model).sum(axis=2) - self.targets
        return Evaluation(float((errors**2).mean()), float((np.abs(errors) < 1).mean()))


@pytest.fixture(scope="session")
def least_squares() -> Callable[[int, int], Task]:
    return LeastSquares
