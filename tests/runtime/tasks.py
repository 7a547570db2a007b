"""Tasks for live runs: cheap, and different to the bit for every device, training and model."""

import os
import time
from collections.abc import Mapping

import numpy as np

from slotwise.aggregation import Vector
from slotwise.learning import Evaluation

SIZE = 500


class Arithmetic:
    """Updates that tell device, training and model apart."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds

    def initial_model(self) -> Vector:
        return np.linspace(1, 2, SIZE, dtype=np.float32)

    def local_update(self, model: Vector, device: int, training: int) -> Vector:
        time.sleep(self._seconds)
        step = np.float32(0.001 * device) * model + np.float32(0.0001 * training)
        return step.astype(np.float32)

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(float(model.sum()), 0.5)

    def named_arrays(self, model: Vector) -> Mapping[str, Vector]:
        return {"w": model}


def make(parameters):
    return Arithmetic()


class Failing(Arithmetic):
    """Fails in its second training."""

    def local_update(self, model: Vector, device: int, training: int) -> Vector:
        if training:
            raise RuntimeError("no more")
        return super().local_update(model, device, training)


def make_failing(parameters):
    return Failing()


def make_slow(parameters):
    """As slow as the environment says."""
    return Arithmetic(float(os.environ.get("SECONDS_OF_TRAINING", "0.3")))
