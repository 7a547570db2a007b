"""Task: the learning problem as the engine and the devices see it; CheckedTask checks a user's task."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.errors import UserError
from slotwise.frozen import FrozenMapping, frozen_arrays, frozen_copy, read_only
from slotwise.learning.call_gate import CallGate
from slotwise.user_code import check_arguments, describe_value

NO_METRICS: Mapping[str, float] = FrozenMapping()
METRIC_NAME = "[A-Za-z][A-Za-z0-9_./-]*"
# The columns of every history; metrics have columns of their own after them.
COLUMNS: Mapping[str, type[int] | type[float]] = MappingProxyType(
    {"slot": int, "round": int, "loss": float, "accuracy": float, "staleness": int}
)
TRACKED_NAMES: Mapping[str, str] = MappingProxyType({"loss": "train_loss", "accuracy": "test_accuracy"})
RESERVED = (*COLUMNS, *TRACKED_NAMES.values())  # names that no metric may have
UNSAVED_NAMES = ("file", "allow_pickle")  # parameters of numpy.savez, which takes arrays by keyword
METHODS = ("initial_model", "local_update", "evaluate", "named_arrays")


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
    """

    device: int
    training: int
    round: int = 0
    slot: int = 0
    state: DeviceState = NO_DEVICE_STATE


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


class Task(Protocol):
    """A learning problem. Models are flat float32 vectors; devices are numbered from 1.

    `local_update` must be a pure function of its arguments and safe to call from several threads at once:
    that is what makes results independent of the number of workers and a checkpoint small. A device that
    keeps a state between its trainings gets it in ``start`` and returns the next in a `TrainingResult`.
    """

    def initial_model(self) -> Vector:
        """Return the first model, w_0."""

    def local_update(self, model: Vector, start: TrainingStart) -> Vector | TrainingResult:
        """Return w_start − w_end of one local training on ``model``, or a result that contains it."""

    def evaluate(self, model: Vector) -> Evaluation:
        """Return training loss, test accuracy and further metrics."""

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        """Return the model's arrays by name and in their shapes, for people and for other programs."""


def metric_names(metrics: Iterable[Mapping[str, float]]) -> tuple[str, ...]:
    """Return the names of all metrics, each once, in the order in which they appear."""
    return tuple({name: None for values in metrics for name in values})


def update_of(result: Vector | TrainingResult) -> Vector:
    """Return the update in the result of a local training."""
    return result.update if isinstance(result, TrainingResult) else result


def with_update(result: Vector | TrainingResult, update: Vector) -> Vector | TrainingResult:
    """Return the result of a local training with another update."""
    return result._replace(update=update) if isinstance(result, TrainingResult) else update


class CheckedTask:
    """A task whose results are checked and copied: a mistake in it becomes one clear line.

    It is the one place where a task is called. The task cannot write to models and states that it gets, and
    may use the arrays that it returns again: with any workers, and after a resume, the numbers are the same.

    A task may also have ``sample_count(device)``, the samples that a device holds, for rules that weight by
    it; without it every device counts as one sample. It may have ``devices``, the number of devices that have
    samples. It may have ``local_updates(model, starts)``, which returns what ``local_update`` would for each
    start, if it is faster to compute them together. With ``one_per_process = True`` several workers are
    processes, for a task that uses what a process has once. And one whose devices keep a state may have
    ``evaluate_devices(model, states)``, which gets the states by device and is called instead of `evaluate`.
    A class with ``returns_new_arrays = True`` promises never to use an update again: it is not copied.

    Raises:
        UserError: ``task`` is no Task, or its first model is not a finite float32 vector that its
            `named_arrays` cover.
    """

    def __init__(self, name: str, task: Any) -> None:
        """Check ``task``, which messages call ``name``."""
        self.name, self.task = name, task
        self._metrics: frozenset[str] | None = None  # names in the first evaluation
        # Of the class itself: a subclass may have another `local_update`.
        self._returns_new_arrays = bool(vars(type(task)).get("returns_new_arrays"))
        self._gate = CallGate(is_open=self._returns_new_arrays)
        if isinstance(task, type):
            raise UserError(f"task {name}: must be an object, and {task.__name__} is a class; call it")
        missing = [method for method in METHODS if not callable(getattr(task, method, None))]
        if missing:
            found = f"{describe_value(task)} has no {', '.join(missing)}"
            raise UserError(f"task {name}: must be a slotwise.learning.Task; {found}")
        self.named_arrays = task.named_arrays
        self.evaluate_devices = getattr(task, "evaluate_devices", None)
        self.trains_together = callable(getattr(task, "local_updates", None))
        """True if the task computes several updates in one call."""
        self.devices: int | None = getattr(task, "devices", None)
        self.one_per_process: bool = getattr(task, "one_per_process", False)
        """True if several workers of this task have to be processes."""
        # Asked for once: a task may write to the array that it returned.
        self._first: Vector | None = self._first_model()
        model = self._first
        self.size = model.size
        if getattr(task, "local_updates", None) is not None:
            check_arguments(f"task {name}: local_updates", task.local_updates, 2)
        arrays = task.named_arrays(model)
        if not isinstance(arrays, Mapping) or not all(isinstance(a, np.ndarray) for a in arrays.values()):
            raise self._wrong("named_arrays", "a dict of numpy arrays by name", arrays)
        for array_name in arrays:  # found here, and not by numpy when the trained model is written
            if not isinstance(array_name, str) or array_name in UNSAVED_NAMES:
                allowed = f"a text other than {' and '.join(UNSAVED_NAMES)}"
                raise UserError(f"task {name}: named_arrays names {array_name!r}; it must be {allowed}")
        named = sum(array.size for array in arrays.values())
        if named != self.size:
            covered = f"they have {named} of {self.size} numbers"
            raise UserError(f"task {name}: named_arrays must cover the model; {covered}")

    @classmethod
    def of(cls, task: Task | CheckedTask) -> CheckedTask:
        """Return the task with checks, unless it has them already."""
        return task if isinstance(task, CheckedTask) else cls(type(task).__name__, task)

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
        same = self._returns_new_arrays and update.dtype == np.float32
        result = with_update(found, update if same else frozen_copy(update, np.float32))
        return self._frozen_result(result) if isinstance(result, TrainingResult) else result

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
        with_states = getattr(self.task, "evaluate_devices", None)
        found: Any
        if with_states is None:
            found = self.task.evaluate(read_only(model))
        else:
            kept = {device: frozen_arrays(state) for device, state in (states or {}).items()}
            found = with_states(read_only(model), FrozenMapping(kept))
        try:
            loss, accuracy, *more = found
            metrics = dict(*more)
            evaluation = Evaluation(float(loss), float(accuracy))
        except (TypeError, ValueError):
            wanted = "a slotwise.learning.Evaluation: a loss, an accuracy and perhaps a dict of metrics"
            raise self._wrong("evaluate", wanted, found) from None
        return evaluation._replace(metrics=self._checked_metrics(metrics))

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
        count = getattr(self.task, "sample_count", None)
        found: Any = 1 if count is None else count(device)
        if not isinstance(found, Integral) or isinstance(found, bool):
            raise self._wrong("sample_count", "a whole number", found)
        if not _is_count(found):
            raise UserError(f"task {self.name}: sample_count must return at least 1; it returned {found}")
        return int(found)

    def _frozen_result(self, result: TrainingResult) -> TrainingResult:
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
        return result._replace(metrics=FrozenMapping(result.metrics), state=state)

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
