"""DriftTask: the half of a rule against client drift that is computed on the devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Correction, DriftRule, Vector, device_half
from slotwise.base.errors import UserError
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.task import (
    DeviceState,
    Evaluation,
    Task,
    TaskWrapper,
    TrainingResult,
    TrainingStart,
    update_of,
)

KEPT = "drift"  # in the state of a device
CONTROL = "control."  # the beginning of the names of arrays that are sent with a model


class DriftTask(TaskWrapper):
    """A task whose devices correct their gradients as a rule says; a model is the rule's whole message."""

    def __init__(self, task: Task, rule: DriftRule) -> None:
        checked = CheckedTask.of(task)
        super().__init__(checked)
        self.rule, self._name, self._size = rule, checked.name, checked.size

    def initial_model(self) -> Vector:
        """Return the first model of the other task, and zeros for what is sent with it."""
        zeros = np.zeros(self._size * (self.rule.message_parts - 1), np.float32)
        return np.concatenate([self.task.initial_model(), zeros])

    def local_update(self, model: Vector, start: TrainingStart) -> TrainingResult:
        """Return the device's message and what it keeps."""
        return self.local_updates(model, [start])[0]

    def local_updates(self, model: Vector, starts: Sequence[TrainingStart]) -> list[TrainingResult]:
        """Return the messages of several local trainings on one model."""
        message, none = self._parts(model), np.zeros(self._size, np.float32)
        kept = [start.state.get(KEPT, none) for start in starts]
        corrections = [self.rule.correction(own, message) for own in kept]
        corrected = [start._replace(correction=c) for start, c in zip(starts, corrections, strict=True)]
        results = self.task.local_updates(message[0], corrected)
        return [self._sent(*each, message) for each in zip(results, kept, corrections, strict=True)]

    def _sent(
        self, result: Vector | TrainingResult, kept: Vector, correction: Correction, message: Vector
    ) -> TrainingResult:
        if not correction.steps:
            name = type(self.rule).__name__
            missing = f"local_update must add start.correction to its gradients for {name}"
            raise UserError(f"task {self._name}: {missing}; start.corrected(gradient, weights) does")
        update = update_of(result)
        with np.errstate(over="ignore", invalid="ignore"):  # Diverged says it better than a numpy warning
            kept, parts = self.rule.trained(kept, message, update, correction)
        told = result if isinstance(result, TrainingResult) else TrainingResult(update)
        sent = np.concatenate(parts) if len(parts) > 1 else update
        return told._replace(update=sent, state={**told.state, KEPT: kept})

    def _parts(self, model: Vector) -> Vector:
        """Return a message as a table of its parts."""
        return model.reshape(self.rule.message_parts, -1)

    def evaluate_devices(self, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:
        """Return the evaluation of the model in a message."""
        return self.task.evaluate_devices(self._parts(model)[0], states)

    def device_loss(self, model: Vector, device: int) -> float:
        """Return the loss of the model in a message."""
        return self.task.device_loss(self._parts(model)[0], device)

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        """Return the arrays of the model, and of what is sent with it under names of their own."""
        weights, *others = (self.task.named_arrays(part) for part in self._parts(model))
        return {**weights, **{CONTROL + name: array for part in others for name, array in part.items()}}

    @cached_property
    def update_bits(self) -> int:
        """Bits of a device's message."""
        return self.task.update_bits * self.rule.message_parts


def for_rule(task: Task, rule: Any) -> Task:
    """Return the task with the devices' half of a rule, if the rule has one and the task does not.

    Raises:
        UserError: the task has that of another rule.
    """
    wanted = device_half(rule)
    present = next((each.rule for each in _wrapped(task) if isinstance(each, DriftTask)), None)
    if present is None:
        return task if wanted is None else DriftTask(task, wanted)
    if present != wanted:
        raise UserError(f"aggregation: must be {present}, for which the task was made")
    return task


def _wrapped(task: Task) -> Iterator[Task]:
    """Yield a task and all that it wraps."""
    yield task
    if isinstance(task, TaskWrapper):
        yield from _wrapped(task.task)
