"""Trainings that end at a test accuracy: the rounds each takes, for FedAvg's Table 1.

Models are evaluated on the test set alone, and a training ends with the first that reaches the target. Of its
history those rounds are kept in which the test accuracy was higher than ever before.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

import slotwise as sw
from slotwise.base.files import write_csv
from slotwise.batch.specification import BatchPoint
from slotwise.learning.history import Point
from slotwise.options import loaded
from slotwise.runs.device_data import device_samples

TARGET = 0.97
COLUMNS = ("case", "learning_rate", "group_size", "seed", "round", "accuracy")


class Training(NamedTuple):
    """What tells one training of the table from another."""

    case: str
    learning_rate: float
    group_size: int
    seed: int

    @classmethod
    def of(cls, point: BatchPoint) -> Training:
        """Return the training of a point of a batch; cases in which all take part are the others' last C."""
        config = point.run.config
        case, rate = point.case.removesuffix("-all"), config.training.learning_rate
        return cls(case, rate, config.channel.group_size, point.seed)


Records = Mapping[Training, Sequence[tuple[int, float]]]
"""Round and test accuracy of every record of a training."""


def glorot(draw: np.random.Generator, inputs: int, outputs: int) -> NDArray[np.float64]:
    """Return weights uniform in ±√(6 / (inputs + outputs)), as in Keras."""
    return draw.uniform(-1, 1, (outputs, inputs)) * np.sqrt(6 / (inputs + outputs))


def normal(deviation: float) -> Weights:
    """Return how weights are drawn from a normal distribution that is cut at two deviations."""

    def draw_weights(draw: np.random.Generator, inputs: int, outputs: int) -> NDArray[np.float64]:
        weights = draw.standard_normal((outputs, inputs))
        while (far := np.abs(weights) > 2).any():
            weights[far] = draw.standard_normal(int(far.sum()))
        return deviation * weights

    return draw_weights


Weights = Callable[[np.random.Generator, int, int], NDArray[np.float64]]
FIRST_MODELS: Mapping[str, Weights] = {
    "glorot": glorot,
    "normal-0.1": normal(0.1),
    "normal-0.01": normal(0.01),
}
"""How cases of that name draw the weights of the first model; biases are 0."""


class TestSetOnly(sw.CnnTask):
    """A task whose evaluations read the test set, and not the samples of the devices."""

    weights: Weights | None = None  # of the first model, if they are not as in PyTorch

    def initial_model(self) -> sw.Vector:
        """Return the first model."""
        model = super().initial_model()
        if self.weights is None:
            return model
        draw, shapes = np.random.default_rng(self.training.seed), self.architecture.parameter_shapes
        own = [np.zeros(one) if len(one) == 1 else self.weights(draw, *one[::-1]) for one in shapes]
        return np.concatenate([values.ravel() for values in own], dtype=model.dtype)

    def evaluate(self, model: sw.Vector) -> sw.Evaluation:
        """Return test loss and test accuracy."""
        data = self.samples.dataset
        tests = len(data.test_targets)
        loss, correct = self._sums(model, data.test_inputs, data.test_targets, np.arange(tests))
        return sw.Evaluation(loss / tests, correct / tests)


class UntilTarget(sw.Observer):
    """Ends a training once the target is reached, or after a number of rounds."""

    def __init__(self, most: int) -> None:
        self._most, self._is_over = most, False

    def evaluated(self, point: Point) -> None:
        """Note whether this was the last evaluation that matters."""
        self._is_over = self._is_over or point.accuracy >= TARGET or point.round >= self._most

    def wants_stop(self) -> bool:
        """Return whether one was."""
        return self._is_over


Task = TypeVar("Task", bound=sw.CnnTask)


class HeldOut(sw.CnnTask):
    """A task whose evaluations read the training samples that no device holds."""

    def evaluate(self, model: sw.Vector) -> sw.Evaluation:
        """Return loss and accuracy of these samples."""
        data = self.samples.dataset
        rows = np.setdiff1d(np.arange(len(data.train_targets)), self.samples.all_rows)
        loss, correct = self._sums(model, data.train_inputs, data.train_targets, rows)
        return sw.Evaluation(loss / len(rows), correct / len(rows))


def task_of(config: sw.RunConfig, kind: type[Task]) -> Task:
    """Return the task of a configuration, with evaluations of that kind."""
    samples, network = device_samples(config), config.network()
    assert isinstance(network, sw.learning.Architecture)
    offset, scale = config.dataset.standardisation(samples.dataset)
    return kind(samples, network, config.training, offset=offset, scale=scale, model_seed=config.model_seed)


def records(config: sw.RunConfig, most: int, weights: Weights | None = None) -> Iterator[tuple[int, float]]:
    """Train; yield the rounds up to the target in which the test accuracy was higher than ever before."""
    task = task_of(config, TestSetOnly)
    task.weights = weights
    try:
        points = sw.train(
            config.simulate(),
            task,
            aggregation=loaded(config.rule),
            workers=1,
            evaluate_every=config.slots_between_evaluations,
            observer=UntilTarget(most),
        ).points
    except sw.Diverged as error:
        points = error.history.points
    best = 0.0
    for point in points:
        if best < point.accuracy and point.round <= most and best < TARGET:
            best = point.accuracy
            yield point.round, best


def read(path: Path) -> Records:
    """Return the records that are kept."""
    kept: dict[Training, list[tuple[int, float]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            training = Training(
                row["case"], float(row["learning_rate"]), int(row["group_size"]), int(row["seed"])
            )
            kept.setdefault(training, []).append((int(row["round"]), float(row["accuracy"])))
    return kept


def rounds_needed(kept: Sequence[tuple[int, float]]) -> int | None:
    """Return the round that reached the target; None if none did."""
    round_number, accuracy = kept[-1]
    return round_number if accuracy >= TARGET else None


def train(spec: sw.BatchSpec, path: Path, *, is_tuning: bool = False) -> None:
    """Train what is not kept yet, seed after seed; while tuning, no longer than the best step so far."""
    for point in sorted(spec.points, key=lambda point: point.seed):
        kept = dict(read(path)) if path.exists() else {}
        training, timeline = Training.of(point), point.run.config.simulate()
        if training in kept:
            continue
        others = [rounds_needed(rows) for one, rows in kept.items() if one.case == training.case]
        most = min(timeline.rounds, *(k for k in others if k is not None and is_tuning), timeline.rounds)
        kept[training] = list(records(point.run.config, most, FIRST_MODELS.get(point.case)))
        rows = [(*one, k, f"{accuracy:.4f}") for one, found in kept.items() for k, accuracy in found]
        write_csv(path, COLUMNS, rows)
        print(*training, rounds_needed(kept[training]), flush=True)
