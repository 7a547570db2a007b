"""Executor, the interface of all executors, and training in this process."""

from __future__ import annotations

import time
from collections.abc import Callable

from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import BatchObserver, Job, JobEnd, JobProgress
from slotwise.data import Dataset
from slotwise.learning import Diverged, History, Point, Task
from slotwise.learning.workers import WorkerPlan
from slotwise.learning.workers.ray_workers import ClusterLost
from slotwise.runs import Observer, RunConfig, RunSession
from slotwise.runs.execution import build_task
from slotwise.runs.run_timeline import schedule_timeline
from slotwise.runs.session import SECONDS_BETWEEN_CHECKPOINTS
from slotwise.schedule import Timeline

PROGRESS_INTERVAL = 0.25  # seconds
MakeTask = Callable[[RunConfig], Task]


class Executor:
    """Trains jobs: in this process, in local processes or on a cluster. It can be used once."""

    retries = 0  # how often a job is given to another worker after losing its own
    checkpoint_every = SECONDS_BETWEEN_CHECKPOINTS  # the default

    def open(self, folder: BatchFolder, jobs: int, checkpoint_every: float, observer: BatchObserver) -> None:
        """Get ready for a number of jobs; ``observer`` is told their progress."""
        del jobs
        self.folder, self.checkpoint_every, self.observer = folder, checkpoint_every, observer

    def submit(self, job: Job, waiting: int) -> bool:
        """Start a job, the first of ``waiting``; return False if no worker is free."""
        raise NotImplementedError

    def wait(self, seconds: float) -> list[JobEnd]:
        """Return the jobs that have ended, as soon as there is one or the seconds have passed."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ask all jobs to end early with a checkpoint; `wait` returns them when they have."""

    def close(self) -> None:
        """End all workers at once."""


class SerialExecutor(Executor):
    """Trains one job after the other in this process, with some workers; the result is the same.

    ``make_task`` builds the task of a run; the default builds the built-in tasks and loads data sets once.
    """

    def __init__(self, workers: int | WorkerPlan = 1, make_task: MakeTask | None = None) -> None:
        self._workers, self._make_task = workers, make_task or TaskCache().make
        self._job: Job | None = None
        self._interrupted: list[JobEnd] = []

    def submit(self, job: Job, waiting: int) -> bool:
        """Accept a job for the next call of `wait`."""
        del waiting
        if self._job is not None:
            return False
        self._job = job
        return True

    def wait(self, seconds: float) -> list[JobEnd]:
        """Train the accepted job; the observer may stop it."""
        del seconds
        job, self._job = self._job, None
        if job is None:
            ended, self._interrupted = self._interrupted, []
            return ended
        try:
            return [JobEnd(job, train_job(self, job, self._workers, self._make_task))]
        except KeyboardInterrupt:  # the next call reports the job as ended
            self._interrupted = [JobEnd(job)]
            raise

    def stop(self) -> None:
        """End an accepted job that has not begun; the observer stops one that has."""
        if self._job is not None:
            self._interrupted, self._job = [JobEnd(self._job)], None


class TaskCache:
    """Builds tasks; data sets are loaded once, and runs that differ in their schedule only share a task."""

    def __init__(self) -> None:
        self._datasets: dict[str, Dataset] = {}
        self._last: tuple[object, Task] | None = None

    def add(self, dataset: Dataset) -> None:
        """Use this data set for the runs that name it."""
        self._datasets[dataset.name] = dataset

    def make(self, config: RunConfig) -> Task:
        """Return the task of a run; a user's own task may depend on every option and is built each time."""
        if config.model.is_own:
            return build_task(config)
        # With the number of devices, all that a built-in task depends on.
        learned = (config.dataset, config.model, config.training, config.bits, config.adversary)
        key = (*learned, config.channel.devices)
        if self._last is None or self._last[0] != key:
            if config.dataset.source not in self._datasets:
                self.add(config.dataset.load())
            self._last = (key, build_task(config, self._datasets[config.dataset.source]))
        return self._last[1]


def train_job(executor: Executor, job: Job, workers: int | WorkerPlan, make_task: MakeTask) -> str | None:
    """Train or resume a job here, in the folder of the executor; return the reason if it fails."""
    run_folder, config = executor.folder.run(job.run.name), job.run.config
    try:
        with RunSession(
            run_folder,
            config,
            task=make_task(config),
            timeline=schedule_timeline(config),
            workers=workers,
            checkpoint_every=executor.checkpoint_every,
            resume=run_folder.is_run,
            observer=_JobObserver(job, executor.observer),
        ) as session:
            session.train()
    except Diverged as error:
        return f"diverged in round {error.round}"
    except ClusterLost:
        # Without its cluster no other job can be trained either.
        raise
    except (Exception, SystemExit) as error:  # whatever it is, the other jobs go on
        return f"{type(error).__name__}: {error}"
    return None


class _JobObserver(Observer):
    """Reports the progress of a run as that of a job, a few times a second."""

    def __init__(self, job: Job, observer: BatchObserver) -> None:
        self._job, self._observer = job, observer
        self._point: Point | None = None
        self._done, self._last = 0, 0.0

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:
        until = self._job.until
        self._rounds = timeline.rounds if until is None else min(timeline.rounds, until)
        if resumed:
            self._done, self._point = resumed.rounds, resumed.points[-1] if resumed.points else None
        self._report()

    def round_done(self, round_number: int) -> None:
        self._done = round_number + 1
        if self._done == self._rounds or time.monotonic() - self._last >= PROGRESS_INTERVAL:
            self._report()

    def evaluated(self, point: Point) -> None:
        self._point = point
        if point.round == self._rounds:
            self._report()

    def wants_stop(self) -> bool:
        return self._observer.wants_stop() or (self._job.until is not None and self._done >= self._job.until)

    def _report(self) -> None:
        self._last = time.monotonic()
        loss, accuracy = (self._point.loss, self._point.accuracy) if self._point else (None, None)
        self._observer.job_progress(self._job, JobProgress(self._done, self._rounds, loss, accuracy))
