"""ThreadWorkers: local trainings in threads of this process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

from slotwise.aggregation import Vector
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.task import DeviceState, Evaluation
from slotwise.learning.workers.process_workers import ProcessWorkers
from slotwise.learning.workers.worker_protocol import NO_STATES, Job, Trained, WorkerPlan, Workers, train_all
from slotwise.scenario import whole


@dataclass(frozen=True)
class Threads:
    """Compute local trainings in threads of this process.

    Attributes:
        count: Local trainings at a time.
    """

    count: int

    def __post_init__(self) -> None:
        whole("workers", self.count)

    def __call__(self, task: CheckedTask) -> Workers:
        """Start the threads; several workers of a task that needs it are processes."""
        if task.one_per_process and self.count > 1:
            return ProcessWorkers(task, self.count)
        return ThreadWorkers(task, self.count)


class ThreadWorkers:
    """Threads of this process; kernels and PyTorch release the interpreter lock while they compute."""

    def __init__(self, task: CheckedTask, count: int) -> None:
        self._task, self.count = task, count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="slotwise")
        self._ending = Event()

    def train(self, jobs: Sequence[Job]) -> Future[Trained]:
        """Start local trainings, which one thread computes one after another."""
        return self._pool.submit(train_all, self._task, jobs, self._ending.is_set)

    def evaluate(
        self, round_number: int, model: Vector, states: Mapping[int, DeviceState] = NO_STATES
    ) -> Future[Evaluation]:
        """Start the evaluation of a model."""
        del round_number
        return self._pool.submit(self._task.evaluate, model, states)

    def drop(self, rounds: Collection[int]) -> None:
        """Do nothing: threads use the models of the engine."""

    def end_trainings(self) -> None:
        """Let trainings that were started together end after the one that is being computed."""
        self._ending.set()

    def close(self) -> None:
        """Drop what has not begun, and wait for what has."""
        self.end_trainings()
        self._pool.shutdown(cancel_futures=True)


def plan_of(workers: int | WorkerPlan) -> WorkerPlan:
    """Return a plan as it is, and for a number that of so many threads."""
    # A class is callable too, but one that was not called, such as `Threads`, is a mistake.
    if callable(workers) and not isinstance(workers, type):
        return workers
    return Threads(whole("workers", workers))
