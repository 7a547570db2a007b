"""RemoteWorkers: local trainings outside of this process; and processes of this machine.

Work of a worker that is lost is repeated by another, which is possible because an update is a function of
(model, device, training).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.base.machine import refuse_too_many_processes
from slotwise.base.user_code import describe_error
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.task import DeviceState, Evaluation, TrainingStart
from slotwise.learning.workers.threads import (
    NO_STATES,
    Threads,
    Trained,
    TrainingJob,
    WorkerPlan,
    Workers,
    train_all,
)
from slotwise.options.checks import whole
from slotwise.workers import (
    Pool,
    ProcessWorker,
    SharedObject,
    Work,
    Worker,
    WorkersGone,
    load_shared,
    trace_note,
)


class TaskWorker:
    """Computes trainings and evaluations of a task, in another process."""

    def __init__(self, task: CheckedTask) -> None:
        self._task = task
        self._models: dict[int, Vector] = {}

    @classmethod
    def shared(cls, *arguments: Any) -> TaskWorker:
        """Return the worker of a task that is in memory which processes share."""
        return cls(load_shared(*arguments))

    def train(self, starts: Sequence[TrainingStart], rounds: Sequence[int], *models: Vector) -> Trained:
        """Return the updates of local trainings, which start from the models w_round."""
        by_round = dict(zip(rounds, models, strict=True))
        with self._blaming_task():
            return train_all(self._task, [TrainingJob(by_round[start.round], start) for start in starts])

    def train_kept(
        self, starts: Sequence[TrainingStart], new: Mapping[int, Vector], dropped: Collection[int]
    ) -> Trained:
        """Return the updates of local trainings from models that are kept here until they are dropped."""
        # Drop before adding, as `_TaskProcess.train` does: a model that is sent again has to stay.
        for number in dropped:
            self._models.pop(number, None)
        self._models.update(new)
        return self.train(starts, list(self._models), *self._models.values())

    def evaluate(self, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:
        """Return the evaluation of a model."""
        with self._blaming_task():
            return self._task.evaluate(model, states)

    @contextmanager
    def _blaming_task(self) -> Iterator[None]:
        try:
            yield
        except UserError:
            raise
        except (Exception, SystemExit) as error:
            failed = UserError(f"task {self._task.name} failed: {describe_error(error)}")
            failed.add_note(trace_note(error))
            raise failed from error


class _Training(Work[Trained]):
    def __init__(self, jobs: Sequence[TrainingJob]) -> None:
        super().__init__()
        self._jobs = jobs

    def result(self, worker: Any) -> Trained:
        return cast(Trained, worker.train(self._jobs))

    def __str__(self) -> str:
        start = self._jobs[0].start
        return f"the local training of device {start.device} on model {start.round}"


class _Evaluating(Work[Evaluation]):
    def __init__(
        self, task: CheckedTask, round_number: int, model: Vector, states: Mapping[int, DeviceState]
    ) -> None:
        super().__init__()
        self._task, self._round, self._model, self._states = task, round_number, model, states

    def result(self, worker: Any) -> Evaluation:
        return cast(Evaluation, worker.evaluate(self._round, self._model, self._states))

    def fail(self, error: BaseException) -> None:
        """Evaluate here if there are no workers any more, because a checkpoint needs all evaluations."""
        if isinstance(error, WorkersGone):
            try:
                self.future.set_result(self._task.evaluate(self._model, self._states))
                return
            except BaseException as own:  # also a SystemExit, with which nobody would get a result
                error = own
        self.future.set_exception(error)

    def __str__(self) -> str:
        return f"the evaluation of model {self._round}"


class RemoteWorkers(ABC):
    """A number of workers outside of this process that hold the task; ``start`` starts one.

    They have methods `train` and `evaluate`, which return what a `TaskWorker` does.

    Attributes:
        count: How many there should be.
        pool: Those that there are.
    """

    def __init__(self, task: CheckedTask, count: int, start: Callable[[], Worker]) -> None:
        """Start the workers in the background."""
        self._task, self.count = task, count
        self.pool = Pool(start, count)

    def train(self, jobs: Sequence[TrainingJob]) -> Future[Trained]:
        """Start local trainings, which one worker computes one after another."""
        work = _Training(jobs)
        self.pool.add(work)
        return work.future

    def evaluate(
        self, round_number: int, model: Vector, states: Mapping[int, DeviceState] = NO_STATES
    ) -> Future[Evaluation]:
        """Start the evaluation of a model."""
        work = _Evaluating(self._task, round_number, model, states)
        self.pool.add(work)
        return work.future

    @abstractmethod
    def drop(self, rounds: Collection[int]) -> None:
        """Forget these models: no training that starts from them is left."""

    def end_trainings(self) -> None:  # noqa: B027
        """Do nothing: trainings that are started together take a few milliseconds."""

    def close(self) -> None:
        """Drop all work, and end the workers: the engine has waited for whatever it needs."""
        self.pool.close()


@dataclass(frozen=True)
class Processes:
    """Compute local trainings in processes of this machine.

    They start in a second or so, and each has its own interpreter lock: for tasks that are written in Python
    rather than in numpy, PyTorch or numba. The task must be one that can be pickled.

    Attributes:
        count: Local trainings at a time.
    """

    count: int

    def __post_init__(self) -> None:
        refuse_too_many_processes("workers", whole("workers", self.count))

    def __call__(self, task: CheckedTask) -> Workers:
        """Start the processes; raise a UserError if the task cannot be sent to them."""
        return ProcessWorkers(task, self.count)


class ProcessWorkers(RemoteWorkers):
    """Processes of this machine; they map the arrays of the task, models and updates go through pipes."""

    def __init__(self, task: CheckedTask, count: int) -> None:
        # First, because the threads of the pool need it at once.
        self._shared = SharedObject(task, f"task {task.name}")
        super().__init__(task, count, lambda: _TaskProcess(self._shared, task.name))

    def drop(self, rounds: Collection[int]) -> None:
        """Let processes forget these models with the next work that they get."""
        # A copy, because the threads of the workers change the list.
        for worker in tuple(self.pool.workers):
            worker.drop(rounds)

    def close(self) -> None:
        """End the processes, and free the memory of the task."""
        super().close()
        self._shared.close()


class _TaskProcess(ProcessWorker):
    """A process that holds the task, and the models that were sent to it."""

    def __init__(self, task: SharedObject, name: str) -> None:
        files = [task.file.fileno()]
        super().__init__(TaskWorker.shared, *task.arguments, shown=f"task {name}", files=files)
        self._sent: set[int] = set()
        self._dropped: deque[int] = deque()  # filled by another thread

    def train(self, jobs: Sequence[TrainingJob]) -> Trained:
        # As many as there are now: the thread of the engine may append more meanwhile.
        dropped = [self._dropped.popleft() for _ in range(len(self._dropped))]
        self._sent.difference_update(dropped)
        new = {job.start.round: job.model for job in jobs if job.start.round not in self._sent}
        self._sent.update(new)
        return cast(Trained, self.call("train_kept", [job.start for job in jobs], new, dropped))

    def evaluate(self, round_number: int, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:
        del round_number
        return cast(Evaluation, self.call("evaluate", model, states))

    def drop(self, rounds: Collection[int]) -> None:
        self._dropped.extend(number for number in rounds if number in self._sent)


def plan_of(workers: int | WorkerPlan, task: CheckedTask) -> WorkerPlan:
    """Return a plan as it is, and for a number so many threads, or processes if the task needs them."""
    # A class is callable too, but one that was not called, such as `Threads`, is a mistake.
    if callable(workers) and not isinstance(workers, type):
        return workers
    count = whole("workers", workers)
    return Processes(count) if task.one_per_process and count > 1 else Threads(count)
