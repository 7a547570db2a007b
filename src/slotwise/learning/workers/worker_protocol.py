"""Workers: the interface of what computes local trainings and evaluations for the engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from itertools import groupby
from typing import NamedTuple, Protocol

from slotwise.aggregation import Vector
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.task import DeviceState, Evaluation, TrainingResult, TrainingStart

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


def train_all(task: CheckedTask, jobs: Sequence[Job], ending: Callable[[], bool] = lambda: False) -> Trained:
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
