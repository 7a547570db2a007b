"""An own task: logistic regression in numpy, on generated data.

slotwise train --task examples.own_task.logistic:make_task --devices 20 --group-size 4 --out runs/own
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from slotwise.learning import Evaluation, Task, TrainingStart
from slotwise.learning.randomness import Purpose, generator
from slotwise.runs import RunConfig

Array = NDArray[np.float32]
FEATURES = 8
TEST_SAMPLES = 2_000
SPREAD = 1.5  # distance between the devices' data: the larger, the more harm staleness does


class Logistic(Task):
    """Two classes with a plane between them; each device has samples around another centre."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        draw = generator(config.seed, Purpose.PARTITION)
        self._truth = draw.normal(size=FEATURES)
        centres = SPREAD * draw.normal(size=(config.channel.devices, 1, FEATURES))
        scattered = draw.normal(size=(config.channel.devices, config.dataset.samples_per_device, FEATURES))
        self._inputs = (centres + scattered).astype(np.float32)
        self._labels = self._inputs @ self._truth > draw.logistic(size=self._inputs.shape[:2])
        self._test = (SPREAD * draw.normal(size=(TEST_SAMPLES, FEATURES))).astype(np.float32)

    def initial_model(self) -> Array:
        """Return zero weights, then a zero bias."""
        return np.zeros(FEATURES + 1, dtype=np.float32)

    def local_update(self, model: Array, start: TrainingStart) -> Array:
        """Return w_start − w_end of the steps of SGD; batches depend on (seed, device, training) alone."""
        sgd, samples = self._config.training, self._config.dataset.samples_per_device
        weights = model.copy()
        for rows in sgd.batches(start, samples):
            inputs, labels = self._inputs[start.device - 1, rows], self._labels[start.device - 1, rows]
            wrong = _probability(weights, inputs) - labels
            weights[:-1] -= np.float32(sgd.learning_rate) * (wrong @ inputs) / np.float32(len(rows))
            weights[-1] -= np.float32(sgd.learning_rate) * wrong.mean()
        return model - weights

    def evaluate(self, model: Array) -> Evaluation:
        """Return the mean loss over all devices' samples, and the accuracy on fresh ones."""
        scores = self._inputs.reshape(-1, FEATURES) @ model[:-1] + model[-1]
        loss = np.logaddexp(0, np.where(self._labels.ravel(), -scores, scores)).mean()
        right = (self._test @ model[:-1] + model[-1] > 0) == (self._test @ self._truth > 0)
        return Evaluation(float(loss), float(right.mean()))

    def named_arrays(self, model: Array) -> Mapping[str, Array]:
        """Return the arrays of model.npz."""
        return {"weight": model[:-1], "bias": model[-1:]}


def make_task(config: RunConfig) -> Task:
    """Return the task of a run: the function that --task names."""
    return Logistic(config)


def _probability(weights: Array, inputs: Array) -> Array:
    scores = inputs @ weights[:-1] + weights[-1]
    return (1 / (1 + np.exp(-scores))).astype(np.float32)
