"""Workers: the interface of what computes local trainings and evaluations for the engine; and threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from threading import Event
from typing import NamedTuple, Protocol

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.task import DeviceState, Evaluation, TrainingResult, TrainingStart
from slotwise.options.checks import whole

NO_STATES: Mapping[int, DeviceState] = {}


class TrainingJob(NamedTuple):
    """One local training, and the model that it starts from: number ``start.round``."""

    model: Vector
    start: TrainingStart


class Trained(NamedTuple):
    """Results of consecutive local trainings, in order, and the seconds that they took."""

    updates: list[Vector | TrainingResult]
    seconds: float


class Workers(Protocol):
    """Computes local trainings and evaluations, several at a time.

    Attributes:
        count: How many are computed at a time.
    """

    count: int

    def train(self, jobs: Sequence[TrainingJob]) -> Future[Trained]:
        """Start local trainings, which one worker computes one after another."""

    def evaluate(
        self, round_number: int, model: Vector, states: Mapping[int, DeviceState] = NO_STATES
    ) -> Future[Evaluation]:
        """Start the evaluation of model w_round; ``states`` are those of devices, if they keep any."""

    def drop(self, rounds: Collection[int]) -> None:
        """Forget these models: no training that starts from them is left."""

    def end_trainings(self) -> None:
        """Let trainings that were started together end after the one that is being computed."""

    def close(self) -> None:
        """Drop what has not begun; threads finish what has, processes and actors are ended."""


class WorkerPlan(Protocol):
    """Says how many workers of which kind a training gets; calling it with the task starts them."""

    def __call__(self, task: CheckedTask) -> Workers:
        """Start the workers of a task, and return them.

        Raises:
            UserError: they cannot be started, or cannot compute this task.
        """


def train_all(
    task: CheckedTask, jobs: Sequence[TrainingJob], ending: Callable[[], bool] = lambda: False
) -> Trained:
    """Return the updates of local trainings, one after another; not of all once ``ending()`` is true."""
    began = time.perf_counter()
    updates: list[Vector | TrainingResult] = []
    for _, group in groupby(jobs, key=lambda job: job.start.round):
        together = list(group)
        # `local_updates` starts from one model. Other tasks train one by one and ask `ending` in between.
        size = len(together) if task.trains_together else 1
        for first in range(0, len(together), size):
            part = together[first : first + size]
            if ending():
                break
            updates += task.local_updates(part[0].model, [job.start for job in part])
    return Trained(updates, time.perf_counter() - began)


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
        """Start the threads; raise a UserError for several of a task that makes one call at a time."""
        if task.one_per_process and self.count > 1:
            raise UserError(
                f"task {task.name} makes one call at a time in a process: use Processes, or 1 thread"
            )
        return ThreadWorkers(task, self.count)


class ThreadWorkers:
    """Threads of this process; kernels and PyTorch release the interpreter lock while they compute."""

    def __init__(self, task: CheckedTask, count: int) -> None:
        self._task, self.count = task, count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="slotwise")
        self._ending = Event()

    def train(self, jobs: Sequence[TrainingJob]) -> Future[Trained]:
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
