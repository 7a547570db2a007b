"""A task that takes no time, for runs in this process, on the command line and in processes of their own."""

import os
import signal
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.learning import Evaluation
from slotwise.learning.task import TrainingStart

# Of a run of 40 rounds, evaluated every 10 slots.
OPTIONS = (
    *("--devices", "6", "--group-size", "2", "--compute-slots", "2"),
    *("--deadline", "122", "--evaluate-every", "10"),
)


class Toy:
    """Every device pulls the model towards a place of its own."""

    def initial_model(self) -> Vector:
        return np.zeros(3, dtype=np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        update: Vector = np.float32(0.1) * (model - np.float32(start.device + start.training))
        return update

    def evaluate(self, model: Vector) -> Evaluation:
        loss = float(np.square(model - 3).mean())
        return Evaluation(loss, float((model > 1).mean()), {"test_loss": 2 * loss})

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        return {"weight": model}


class Diverging(Toy):
    """The second update of a device is not finite."""

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        return super().local_update(model, start) * np.float32(np.inf if start.training > 1 else 1)


class Failing(Toy):
    """The second training of a device is an error."""

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        if start.training > 1:
            raise ZeroDivisionError
        return super().local_update(model, start)


def make_task(config: Any) -> Toy:
    return Toy()


def make_killer(config: Any) -> Toy:
    """The task of a process that is killed, as by kill -9, when it evaluates its sixth model."""
    evaluations = 0

    class Killer(Toy):
        def evaluate(self, model: Vector) -> Evaluation:
            nonlocal evaluations
            evaluations += 1
            if evaluations == 6 and "SLOTWISE_KILL" in os.environ:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().evaluate(model)

    return Killer()
