"""Train one point, in a process of this machine or on a node of a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slotwise.batch.folder import SweepFolder
from slotwise.batch.job import Run
from slotwise.batch.training import Job, JobsWatcher, train_jobs
from slotwise.data import Dataset
from slotwise.learning import History, Task
from slotwise.learning import Point as CurvePoint
from slotwise.observer import Observer
from slotwise.runs import RunConfig
from slotwise.runs.tasks import build_task
from slotwise.schedule import Timeline

SECONDS_BETWEEN_WORDS = 0.25


@dataclass(frozen=True)
class Order:
    """A point to train: plain values, so that it can be sent anywhere.

    Attributes:
        name: of the run's folder.
        parameters: as run.json has them.
        threads: local trainings at once.
        checkpoint_every: seconds.
    """

    name: str
    parameters: dict[str, Any]
    threads: int
    checkpoint_every: float

    @classmethod
    def of(cls, job: Job, threads: int, checkpoint_every: float) -> Order:
        """To train a job."""
        return cls(job.run.name, job.run.parameters.options(), threads, checkpoint_every)


class Tasks:
    """Makes tasks from data sets that are loaded once."""

    def __init__(self) -> None:
        self._datasets: dict[str, Dataset] = {}

    def keep(self, dataset: Dataset) -> None:
        """Use this one for the points that name it."""
        self._datasets[dataset.name] = dataset

    def make(self, parameters: RunConfig) -> Task:
        """The task of a run."""
        if parameters.dataset.data not in self._datasets:
            self._datasets[parameters.dataset.data] = parameters.dataset.load()
        return build_task(parameters, self._datasets[parameters.dataset.data])


@dataclass(frozen=True)
class Words:
    """How far a point has come, in numbers that can be sent anywhere."""

    done: int
    rounds: int
    loss: float | None = None
    accuracy: float | None = None


def train_point(
    folder: SweepFolder,
    order: Order,
    make_task: Callable[[RunConfig], Task],
    tell: Callable[[Words], None],
    wants_stop: Callable[[], bool],
) -> str | None:
    """Train or resume a point in a folder; the reason if it fails."""
    job = Job(Run(order.name, RunConfig.from_options(order.parameters)), 0.0)
    failures = train_jobs(
        folder,
        [job],
        workers=order.threads,
        checkpoint_every=order.checkpoint_every,
        watcher=_Listener(tell, wants_stop),
        make_task=make_task,
    )
    return failures[0].reason if failures else None


class _Listener(JobsWatcher):
    """Has one job watched."""

    def __init__(self, tell: Callable[[Words], None], wants_stop: Callable[[], bool]) -> None:
        self._tell, self._wants_stop = tell, wants_stop

    def started(self, job: Job) -> Observer:
        del job
        return _Telling(self._tell, self._wants_stop)

    def wants_stop(self) -> bool:
        return self._wants_stop()


class _Telling(Observer):
    """Tells a few times a second how far a run has come."""

    def __init__(self, tell: Callable[[Words], None], wants_stop: Callable[[], bool]) -> None:
        self._tell, self._wants_stop = tell, wants_stop
        self._point: CurvePoint | None = None
        self._last = 0.0

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:
        self._rounds = timeline.rounds
        self._point = resumed.points[-1] if resumed and resumed.points else None
        self._say(resumed.rounds if resumed else 0)

    def round_done(self, round_number: int) -> None:
        done = round_number + 1
        if done == self._rounds or time.monotonic() - self._last >= SECONDS_BETWEEN_WORDS:
            self._say(done)

    def evaluated(self, point: CurvePoint) -> None:
        self._point = point
        if point.round == self._rounds:
            self._say(self._rounds)

    def wants_stop(self) -> bool:
        return self._wants_stop()

    def _say(self, done: int) -> None:
        self._last = time.monotonic()
        point = self._point
        self._tell(
            Words(done, self._rounds, point.loss if point else None, point.accuracy if point else None)
        )
