"""Workers: what computes local trainings and evaluations for the engine; ThreadWorkers does it in threads."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from threading import Event
from typing import NamedTuple, Protocol

from slotwise.aggregation import Vector
from slotwise.learning.task import CheckedTask, DeviceState, Evaluation, TrainingResult, TrainingStart
from slotwise.scenario import whole

NO_STATES: Mapping[int, DeviceState] = {}


class Job(NamedTuple):
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

    def train(self, jobs: Sequence[Job]) -> Future[Trained]:
        """Start local trainings, which one worker computes one after another."""

    def evaluate(self, model: Vector, states: Mapping[int, DeviceState] = NO_STATES) -> Future[Evaluation]:
        """Start the evaluation of a model; ``states`` are those of devices, if they keep any."""

    def end_trainings(self) -> None:
        """Let trainings that were started together end after the one that is being computed."""

    def close(self) -> None:
        """Drop what has not begun, and wait for what has."""


class ThreadWorkers:
    """Threads of this process; kernels and PyTorch release the interpreter lock while they compute."""

    def __init__(self, task: CheckedTask, count: int) -> None:
        self._task, self.count = task, whole("workers", count)
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="slotwise")
        self._ending = Event()

    def train(self, jobs: Sequence[Job]) -> Future[Trained]:
        """Start local trainings, which one thread computes one after another."""
        return self._pool.submit(train_all, self._task, jobs, self._ending)

    def evaluate(self, model: Vector, states: Mapping[int, DeviceState] = NO_STATES) -> Future[Evaluation]:
        """Start the evaluation of a model."""
        return self._pool.submit(self._task.evaluate, model, states)

    def end_trainings(self) -> None:
        """Let trainings that were started together end after the one that is being computed."""
        self._ending.set()

    def close(self) -> None:
        """Drop what has not begun, and wait for what has."""
        self.end_trainings()
        self._pool.shutdown(cancel_futures=True)


def train_all(task: CheckedTask, jobs: Sequence[Job], ending: Event) -> Trained:
    """Return the updates of local trainings, one after another; not of all once ``ending`` is set."""
    began = time.perf_counter()
    updates: list[Vector | TrainingResult] = []
    for _, group in groupby(jobs, key=lambda job: job.start.round):
        together = list(group)
        size = len(together) if task.trains_together else 1
        for first in range(0, len(together), size):
            part = together[first : first + size]
            if ending.is_set():
                break
            updates += task.local_updates(part[0].model, [job.start for job in part])
    return Trained(updates, time.perf_counter() - began)
