"""Task: the learning problem as the engine and the devices see it; TaskWrapper: one that changes another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import nan
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Correction, Vector
from slotwise.base.frozen import FrozenMapping

NO_METRICS: Mapping[str, float] = FrozenMapping()
LOSS = "loss"  # the metric in which a local training may report its loss
METRIC_NAME = "[A-Za-z][A-Za-z0-9_./-]*"
# The columns of every history; metrics have columns of their own after them.
COLUMNS: Mapping[str, type[int] | type[float]] = MappingProxyType(
    {"slot": int, "round": int, "loss": float, "accuracy": float, "staleness": int}
)
TRACKED_NAMES: Mapping[str, str] = MappingProxyType({"loss": "train_loss", "accuracy": "test_accuracy"})
RESERVED = (*COLUMNS, *TRACKED_NAMES.values())  # names that no metric may have
FLOAT_BITS = 32


DeviceState = Mapping[str, NDArray[Any]]
"""Arrays that a device keeps from one training to its next, by name; empty before the first."""

NO_DEVICE_STATE: DeviceState = FrozenMapping()


class TrainingStart(NamedTuple):
    """One local training: whose it is, its number, and the model it starts from.

    Attributes:
        device: Number of the device, from 1.
        training: Updates of the device that arrived before. After an update that is lost for good, the next
            training has the same number again.
        round: Number k of the model w_k it starts from.
        slot: Slot in which that model was complete; 0 for w_0.
        state: What the device keeps from its last training whose update arrived, if the task keeps something;
            read-only.
        correction: What the aggregation rule adds to every gradient; None for most rules.
    """

    device: int
    training: int
    round: int = 0
    slot: int = 0
    state: DeviceState = NO_DEVICE_STATE
    correction: Correction | None = None

    def corrected(self, gradient: Any, weights: Any) -> Any:
        """Return the gradient of a step at ``weights`` with the correction of the rule, if it has one."""
        return gradient if self.correction is None else self.correction.apply(gradient, weights)


class TrainingResult(NamedTuple):
    """Result of a local training that has more than an update.

    Attributes:
        update: w_start − w_end.
        samples: Samples it was computed from, the weight of the update; by default what the device holds.
        metrics: Numbers that the device reports, by name; part of the `Contribution`.
        state: What the device keeps for its next training; part of checkpoints.
    """

    update: Vector
    samples: int | None = None
    metrics: Mapping[str, float] = NO_METRICS
    state: DeviceState = NO_DEVICE_STATE


class Evaluation(NamedTuple):
    """Evaluation of one model.

    Attributes:
        loss: Training loss over all devices' data.
        accuracy: Test accuracy, 0 to 1; NaN if the task has none, as in a regression.
        metrics: Further numbers by name, such as ``test_loss``.
    """

    loss: float
    accuracy: float
    metrics: Mapping[str, float] = NO_METRICS


class Task(ABC):
    """A learning problem. Models are flat float32 vectors; devices are numbered from 1.

    A task of your own derives from it and has `initial_model`, `local_update` and `evaluate`; all else has a
    default. An object of another class that has these three methods is accepted as well.

    `local_update` must be a pure function of its arguments and safe to call from several threads at once:
    that is what makes results independent of the number of workers and a checkpoint small. A device that
    keeps a state between its trainings gets it in ``start`` and returns the next in a `TrainingResult`.

    Attributes:
        devices: Number of devices that have samples; None if any number may train.
        one_per_process: True for a task that uses what a process has once: several workers are processes.
        returns_new_arrays: True promises never to use an update again: it is not copied.
        start_notice: What a run says about the task when it starts; nothing if it is empty.
    """

    devices: int | None = None
    one_per_process: bool = False
    returns_new_arrays: bool = False
    start_notice: str = ""

    @abstractmethod
    def initial_model(self) -> Vector:
        """Return the first model, w_0."""

    @abstractmethod
    def local_update(self, model: Vector, start: TrainingStart) -> Vector | TrainingResult:
        """Return w_start − w_end of one local training on ``model``, or a result that contains it."""

    @abstractmethod
    def evaluate(self, model: Vector) -> Evaluation:
        """Return training loss, test accuracy and further metrics."""

    def local_updates(
        self, model: Vector, starts: Sequence[TrainingStart]
    ) -> Sequence[Vector | TrainingResult]:
        """Return what `local_update` does for each start; override it if that is faster together."""
        return [self.local_update(model, start) for start in starts]

    def evaluate_devices(self, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:
        """Return the evaluation of a model on devices with these states, which `evaluate` does not need."""
        del states
        return self.evaluate(model)

    def device_loss(self, model: Vector, device: int) -> float:
        """Return the training loss of a model on the samples of one device, for policies that look at it.

        A `TrainingResult` may report it as its metric ``loss`` instead. NaN, by default, is not known.
        """
        del model, device
        return nan

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        """Return the model's arrays by name and in their shapes, for people and for other programs."""
        return {"model": model}

    def sample_count(self, device: int) -> int:
        """Return the samples that a device holds, for rules that weight by it; 1 for each by default."""
        del device
        return 1

    @cached_property
    def update_bits(self) -> int:
        """Bits of one update as a device sends it; by default as many as those of a model."""
        return self.model_bits

    @cached_property
    def model_bits(self) -> int:
        """Bits of one model as the server sends it: 32 for each number."""
        return FLOAT_BITS * len(self.initial_model())

    @property
    def trains_together(self) -> bool:
        """True if the task computes several updates in one call, in a `local_updates` of its own."""
        return getattr(self.local_updates, "__func__", None) is not Task.local_updates


class TaskWrapper(Task):
    """A task that asks another one for everything. A subclass overrides what it changes.

    Attributes:
        task: The other task.
    """

    def __init__(self, task: Task) -> None:
        self.task = as_task(task)
        self.devices, self.one_per_process = self.task.devices, self.task.one_per_process
        self.returns_new_arrays, self.start_notice = self.task.returns_new_arrays, self.task.start_notice

    def sent(self, update: Vector, start: TrainingStart) -> Vector:
        """Return what the device sends in place of an update: the update, unless a subclass changes it."""
        del start
        return update

    def initial_model(self) -> Vector:
        """Return the first model of the other task."""
        return self.task.initial_model()

    def local_update(self, model: Vector, start: TrainingStart) -> Vector | TrainingResult:
        """Return the result of a local training, with the update as it is sent."""
        return self._as_sent(self.task.local_update(model, start), start)

    def local_updates(
        self, model: Vector, starts: Sequence[TrainingStart]
    ) -> Sequence[Vector | TrainingResult]:
        """Return the results of several local trainings, with the updates as they are sent."""
        return list(map(self._as_sent, self.task.local_updates(model, starts), starts))

    def _as_sent(self, result: Vector | TrainingResult, start: TrainingStart) -> Vector | TrainingResult:
        update = self.sent(update_of(result), start)
        return result._replace(update=update) if isinstance(result, TrainingResult) else update

    def evaluate(self, model: Vector) -> Evaluation:
        """Return the evaluation by devices without a state."""
        return self.evaluate_devices(model, {})

    def evaluate_devices(self, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:
        """Return the evaluation of the other task, unless a subclass has an `evaluate` of its own."""
        if type(self).evaluate is not TaskWrapper.evaluate:
            return self.evaluate(model)
        return self.task.evaluate_devices(model, states)

    def device_loss(self, model: Vector, device: int) -> float:
        """Return the loss of the other task."""
        return self.task.device_loss(model, device)

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        """Return the arrays of a model of the other task."""
        return self.task.named_arrays(model)

    def sample_count(self, device: int) -> int:
        """Return the samples that a device holds in the other task."""
        return self.task.sample_count(device)

    @cached_property
    def update_bits(self) -> int:
        """Bits of one update of the other task."""
        return self.task.update_bits

    @property
    def trains_together(self) -> bool:
        """True if the other task computes several updates in one call, which a subclass takes as they are."""
        one, together = type(self).local_update, type(self).local_updates
        kept = one is TaskWrapper.local_update or together is not TaskWrapper.local_updates
        return kept and self.task.trains_together


class _Adapter(Task):
    """An object of another class that has the methods of a task; what it lacks has the default."""

    def __init__(self, task: Any) -> None:
        self.task = task
        for name, default in vars(Task).items():
            lacking = name.startswith("_") or getattr(task, name, None) is None
            if not lacking and not isinstance(default, property):
                setattr(self, name, getattr(task, name))

    def initial_model(self) -> Vector:
        return self.task.initial_model()  # type: ignore[no-any-return]

    def local_update(self, model: Vector, start: TrainingStart) -> Vector | TrainingResult:
        return self.task.local_update(model, start)  # type: ignore[no-any-return]

    def evaluate(self, model: Vector) -> Evaluation:
        return self.task.evaluate(model)  # type: ignore[no-any-return]


def as_task(task: Any) -> Task:
    """Return a task as it is, and an object of another class with the defaults for what it lacks."""
    return task if isinstance(task, Task) else _Adapter(task)


def bare_task(task: Task) -> Any:
    """Return the task inside all wrappers, as its author made it."""
    while isinstance(task, TaskWrapper | _Adapter):
        task = task.task
    return task


def metric_names(metrics: Iterable[Mapping[str, float]]) -> tuple[str, ...]:
    """Return the names of all metrics, each once, in the order in which they appear."""
    return tuple({name: None for values in metrics for name in values})


def update_of(result: Vector | TrainingResult) -> Vector:
    """Return the update in the result of a local training."""
    return result.update if isinstance(result, TrainingResult) else result
