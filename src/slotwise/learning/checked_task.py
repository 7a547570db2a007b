"""CheckedTask: a task whose results are checked and copied; CallGate: whether threads may call it at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from numbers import Integral
from threading import Lock, get_ident
from typing import Any

import numpy as np

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.base.frozen import FrozenMapping, frozen_arrays, frozen_copy, read_only
from slotwise.base.user_code import check_arguments, describe_value
from slotwise.learning.task import (
    LOSS,
    METRIC_NAME,
    RESERVED,
    DeviceState,
    Evaluation,
    Task,
    TaskWrapper,
    TrainingResult,
    TrainingStart,
    update_of,
)

UNSAVED_NAMES = ("file", "allow_pickle")  # parameters of numpy.savez, which takes arrays by keyword


class CallGate:
    """Lets one thread after another call a task until two threads have got arrays of different memory.

    A task that returns the same array to all threads stays at one call at a time. Otherwise one training
    would overwrite the result of another before it is copied.
    """

    def __init__(self, *, is_open: bool = False) -> None:
        """Begin with one call at a time, unless the gate ``is_open`` from the start."""
        self._open, self._lock = is_open, Lock()
        self._first: tuple[int, Vector] | None = None  # thread and array of the first call
        self._decided = is_open

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(
            CallGate, is_open=self._open
        ), ()  # a lock cannot be sent; threads elsewhere find out for themselves

    def turn(self) -> AbstractContextManager[object]:
        """Return the context in which the task is called, its result noted and copied."""
        return nullcontext() if self._open else self._lock

    def note(self, update: Vector) -> None:
        """Note an update that this thread was returned, in its turn."""
        if self._decided:
            return
        thread = get_ident()
        if self._first is None:
            self._first = thread, update  # kept, so that no other array gets its memory
        elif thread != self._first[0]:
            self._open = not np.may_share_memory(update, self._first[1])
            self._first, self._decided = None, True


class CheckedTask(TaskWrapper):
    """A task whose results are checked and copied: a mistake in it becomes one clear line.

    It is the one place where a task is called. The task cannot write to models and states that it gets, and
    may use the arrays that it returns again: with any workers, and after a resume, the numbers are the same.

    Attributes:
        name: What messages call the task.
        size: Numbers of a model.

    Raises:
        UserError: ``task`` is no Task, or its first model is not a finite float32 vector that its
            `named_arrays` cover.
    """

    def __init__(self, name: str, task: Any) -> None:
        self.name = name
        if isinstance(task, type):
            raise UserError(f"task {name}: must be an object, and {task.__name__} is a class; call it")
        missing = [
            method for method in sorted(Task.__abstractmethods__) if not callable(getattr(task, method, None))
        ]
        if missing:
            lacks = f"{describe_value(task)} has no {', '.join(missing)}"
            raise UserError(f"task {name}: must be a slotwise.Task; {lacks}")
        super().__init__(task)
        self._copies = not self.returns_new_arrays
        self._gate = CallGate(is_open=self.returns_new_arrays)
        self.returns_new_arrays = True  # from here on
        self._metrics: frozenset[str] | None = None  # names in the first evaluation
        # Asked for once: a task may write to the array that it returned.
        self._first: Vector | None = self._first_model()
        self.size = self._first.size
        if self.trains_together:
            check_arguments(f"task {name}: local_updates", self.task.local_updates, 2)
        self._check_names(self.task.named_arrays(self._first))

    def _check_names(self, arrays: object) -> None:
        """Refuse names and arrays that numpy could not write when the training has ended."""
        if not isinstance(arrays, Mapping) or not all(isinstance(a, np.ndarray) for a in arrays.values()):
            raise self._wrong("named_arrays", "a dict of numpy arrays by name", arrays)
        for name in arrays:
            if not isinstance(name, str) or name in UNSAVED_NAMES:
                allowed = f"a text other than {' and '.join(UNSAVED_NAMES)}"
                raise UserError(f"task {self.name}: named_arrays names {name!r}; it must be {allowed}")
        named = sum(array.size for array in arrays.values())
        if named != self.size:
            covered = f"they have {named} of {self.size} numbers"
            raise UserError(f"task {self.name}: named_arrays must cover the model; {covered}")

    @classmethod
    def of(cls, task: Task) -> CheckedTask:
        """Return the task with checks, unless it has them already."""
        if isinstance(task, CheckedTask):
            return task
        return cls(cls.of(task.task).name if isinstance(task, TaskWrapper) else type(task).__name__, task)

    def __getstate__(self) -> dict[str, Any]:
        # Workers get the models that they train on one by one: the first is not sent along.
        return {**self.__dict__, "_first": None}

    def initial_model(self) -> Vector:
        """Return the task's first model, which is read-only."""
        if self._first is None:
            self._first = self._first_model()
        return self._first

    def _first_model(self) -> Vector:
        model: Any = self.task.initial_model()
        vector = isinstance(model, np.ndarray) and model.dtype == np.float32 and model.ndim == 1
        if not vector or not model.size:
            raise self._wrong("initial_model", "a float32 array of one dimension", model)
        if not np.isfinite(model).all():
            raise UserError(f"task {self.name}: initial_model must return finite numbers")
        return frozen_copy(model)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector | TrainingResult:
        """Return a copy of the task's result, with the update in float32."""
        with self._gate.turn():
            return self._checked_result(self.task.local_update(read_only(model), _frozen_start(start)))

    def local_updates(self, model: Vector, starts: Sequence[TrainingStart]) -> list[Vector | TrainingResult]:
        """Return the results of several local trainings on one model."""
        if not self.trains_together:
            return [self.local_update(model, start) for start in starts]
        with self._gate.turn():
            found = self._train_together(model, [_frozen_start(start) for start in starts])
        if len(found) != len(starts):
            wrong = f"must return {len(starts)} updates; it returned {len(found)}"
            raise UserError(f"task {self.name}: local_updates {wrong}")
        return found

    def _train_together(
        self, model: Vector, starts: Sequence[TrainingStart]
    ) -> list[Vector | TrainingResult]:
        returned = self.task.local_updates(read_only(model), starts)
        if not isinstance(returned, Iterable):
            raise self._wrong("local_updates", "a list of updates", returned)
        if isinstance(returned, Sequence):
            self._refuse_shared_memory(returned)
        return [self._checked_result(result) for result in returned]

    def _checked_result(self, found: Any) -> Vector | TrainingResult:
        update: Any = update_of(found)
        real = isinstance(update, np.ndarray) and update.dtype.kind == "f"
        if not real or update.shape != (self.size,):
            raise self._wrong("local_update", f"a float32 array of length {self.size}", update)
        self._gate.note(update)
        if self._copies or update.dtype != np.float32:
            update = frozen_copy(update, np.float32)
        return self._frozen_result(found, update) if isinstance(found, TrainingResult) else update

    def _refuse_shared_memory(self, results: Sequence[Any]) -> None:
        """Refuse results of several trainings in one array, where the last has replaced the others."""
        updates = [update for update in map(update_of, results) if isinstance(update, np.ndarray)]
        if len({update.ctypes.data for update in updates}) < len(updates):
            raise UserError(f"task {self.name}: local_updates must return an array of its own for each start")

    def train(self, model: Vector, start: TrainingStart) -> TrainingResult:
        """Return the result of one local training, with the samples that weight it."""
        found = self.local_update(model, start)
        result = found if isinstance(found, TrainingResult) else TrainingResult(found)
        samples = self.sample_count(start.device) if result.samples is None else result.samples
        return result._replace(samples=samples)

    def evaluate(self, model: Vector, states: Mapping[int, DeviceState] | None = None) -> Evaluation:
        """Return the task's evaluation; a pair of numbers of any type is accepted."""
        kept = {device: frozen_arrays(state) for device, state in (states or {}).items()}
        found: Any = self.task.evaluate_devices(read_only(model), FrozenMapping(kept))
        try:
            loss, accuracy, *more = found
            metrics = dict(*more)
            evaluation = Evaluation(float(loss), float(accuracy))
        except (TypeError, ValueError):
            wanted = "a slotwise.learning.Evaluation: a loss, an accuracy and perhaps a dict of metrics"
            raise self._wrong("evaluate", wanted, found) from None
        return evaluation._replace(metrics=self._checked_metrics(metrics))

    def evaluate_devices(self, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:
        """Return the task's evaluation with the states of devices."""
        return self.evaluate(model, states)

    def device_loss(self, model: Vector, device: int) -> float:
        """Return the task's loss of a model on the samples of a device."""
        found: Any = self.task.device_loss(read_only(model), device)
        try:
            return float(found)
        except (TypeError, ValueError):
            raise self._wrong("device_loss", "a number", found) from None

    def reported_loss(self, result: Vector | TrainingResult, model: Vector, device: int) -> float:
        """Return the loss that a local training reports, or that of the model it started from."""
        if isinstance(result, TrainingResult) and LOSS in result.metrics:
            return float(result.metrics[LOSS])
        return self.device_loss(model, device)

    def _checked_metrics(self, metrics: Mapping[Any, Any]) -> Mapping[str, float]:
        """Return metrics as floats; their names, columns of history.csv, must always be the same."""
        for name in metrics:
            if not re.fullmatch(METRIC_NAME, str(name)) or name in RESERVED:
                allowed = f"letters, digits and _ . / -, and not {', '.join(RESERVED)}"
                raise UserError(f"task {self.name}: evaluate names a metric {name!r}; allowed are {allowed}")
        names = frozenset(map(str, metrics))
        self._metrics = names if self._metrics is None else self._metrics
        if names != self._metrics:
            change = f"{', '.join(sorted(self._metrics)) or 'none'}; now {', '.join(sorted(names)) or 'none'}"
            always = "must return the same metrics each time (NaN for one that is not known)"
            raise UserError(f"task {self.name}: evaluate {always}; it returned first {change}")
        try:
            return {str(name): float(value) for name, value in metrics.items()}
        except (TypeError, ValueError):
            found = ", ".join(f"{name} is {describe_value(value)}" for name, value in metrics.items())
            raise UserError(f"task {self.name}: evaluate must return numbers as metrics; {found}") from None

    def sample_count(self, device: int) -> int:
        """Return the number of samples that a device holds; 1 if the task does not say."""
        return self._count("sample_count", self.task.sample_count(device))

    @cached_property
    def update_bits(self) -> int:
        """Bits of one update as a device sends it."""
        return self._count("update_bits", self.task.update_bits)

    def _count(self, member: str, found: Any) -> int:
        if not _is_count(found):
            shown = found if isinstance(found, Integral) else describe_value(found)
            wanted = "a whole number of at least 1"
            raise UserError(f"task {self.name}: {member} must return {wanted}; it returned {shown}")
        return int(found)

    def _frozen_result(self, result: TrainingResult, update: Vector) -> TrainingResult:
        """Return a result with copies of its metrics and its state, if they are what they must be."""
        if result.samples is not None and not _is_count(result.samples):
            wanted = "a TrainingResult whose samples are a whole number of at least 1"
            raise self._wrong("local_update", wanted, result.samples)
        for what, table in (("metrics", result.metrics), ("state", result.state)):
            if not isinstance(table, Mapping):
                raise self._wrong("local_update", f"a TrainingResult whose {what} is a dict", table)
        for name, array in result.state.items():
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
                raise self._wrong("local_update", f"arrays of numbers as its state, also for {name}", array)
        state = FrozenMapping({name: frozen_copy(array) for name, array in result.state.items()})
        return result._replace(update=update, metrics=FrozenMapping(result.metrics), state=state)

    def check_devices(self, devices: int) -> None:
        """Raise a UserError if the task has samples for another number of devices than the schedule has."""
        if self.devices is not None and self.devices != devices:
            found = f"has samples for {self.devices} devices, and the schedule has {devices}"
            raise UserError(f"task {self.name}: {found}")

    def _wrong(self, method: str, wanted: str, found: object) -> UserError:
        returned = describe_value(found)
        return UserError(f"task {self.name}: {method} must return {wanted}; it returned {returned}")


def _frozen_start(start: TrainingStart) -> TrainingStart:
    """Return a start whose state the task cannot change."""
    return start._replace(state=frozen_arrays(start.state)) if start.state else start


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
