"""Jobs: find the runs of a folder that are not finished, and train them with an executor.

Finished runs are kept, interrupted ones resume from their last checkpoint, and one that fails stops no other.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Protocol

from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import Failure, Job, JobEnd, Run, run_work
from slotwise.batch.serial import SerialExecutor
from slotwise.data import cifar10_path
from slotwise.errors import UserError
from slotwise.observer import Observer

FETCH_CIFAR10 = "CIFAR-10 is not on this machine: slotwise data fetch cifar10"
POLL_SECONDS = 0.2  # how often a caller is asked whether to stop


class Executor(Protocol):
    """Trains jobs: in this process, in local processes or on a cluster. It can be used once."""

    retries: int
    """How often a job is given to another worker after losing its own."""
    checkpoint_every: float
    """Default number of seconds between checkpoints."""

    def open(self, folder: BatchFolder, jobs: int, checkpoint_every: float, observer: Observer) -> None:
        """Get ready for a number of jobs; the observer is told their progress."""

    def submit(self, job: Job, waiting: int) -> bool:
        """Start a job, the first of ``waiting``; return False if no worker is free."""

    def wait(self, seconds: float) -> list[JobEnd]:
        """Return the jobs that have ended, as soon as there is one or the seconds have passed."""

    def stop(self) -> None:
        """Ask all jobs to end early with a checkpoint; `wait` returns them when they have."""

    def close(self) -> None:
        """End all workers at once."""


def unfinished(folder: BatchFolder, runs: Iterable[Run]) -> tuple[Job, ...]:
    """Return a job for each run that has to be trained or resumed.

    Raises:
        UserError: a run folder is damaged, or holds another run.
    """
    return tuple(
        Job(run, run_work(run.config)) for run in runs if _status(folder, run) not in {"finished", "diverged"}
    )


def can_train(run: Run) -> bool:
    """Return whether the data set of a run is on this machine."""
    return run.config.dataset.data == "mnist" or cifar10_path().is_file()


def run_jobs(
    folder: BatchFolder,
    jobs: Iterable[Job],
    executor: Executor | None = None,
    observer: Observer | None = None,
    *,
    finished: int = 0,
    checkpoint_every: float | None = None,
) -> tuple[Failure, ...]:
    """Train jobs, the largest first, so that no long one is left for the end; return those that failed.

    Args:
        folder: The folder of the run folders.
        jobs: The jobs, each with another run.
        executor: What trains them. Default: one after the other in this process.
        observer: Is told of starts, progress and ends, and may ask to stop early.
        finished: Runs that were finished before, for the observer.
        checkpoint_every: Seconds between checkpoints. Default: that of the executor.
    """
    waiting = tuple(jobs)
    chosen, watch = executor or SerialExecutor(), observer or Observer()
    seconds = chosen.checkpoint_every if checkpoint_every is None else checkpoint_every
    dispatcher = _Dispatcher(waiting, chosen, watch)
    try:
        watch.batch_started(waiting, finished)
        chosen.open(folder, len(waiting), seconds, watch)
        dispatcher.run()
    except KeyboardInterrupt:  # without signal handlers: save what there is; a second one ends at once
        dispatcher.stop()
        dispatcher.run()
        raise
    finally:
        chosen.close()
    return tuple(dispatcher.failures)


class _Dispatcher:
    """Gives jobs to an executor until all have ended."""

    def __init__(self, jobs: Iterable[Job], executor: Executor, observer: Observer) -> None:
        self._waiting = deque(sorted(jobs, key=lambda job: job.work, reverse=True))
        self._executor, self._observer = executor, observer
        self._active = 0
        self._losses: Counter[str] = Counter()
        self._stopping = False
        self.failures: list[Failure] = []

    def run(self) -> None:
        while self._waiting or self._active:
            if not self._stopping and self._observer.wants_stop():
                self.stop()
            while self._waiting and self._executor.submit(self._waiting[0], len(self._waiting)):
                self._active += 1
                self._observer.job_started(self._waiting.popleft())
            for end in self._executor.wait(POLL_SECONDS):
                self._end(end)

    def stop(self) -> None:
        self._stopping = True
        self._waiting.clear()
        self._executor.stop()

    def _end(self, end: JobEnd) -> None:
        self._active -= 1
        job, reason = end.job, end.reason
        if end.lost:
            self._losses[job.run.name] += 1
            times = self._losses[job.run.name]
            if not self._stopping and times <= self._executor.retries:
                self._observer.job_retried(job, reason or "")
                self._waiting.appendleft(job)
                return
            reason = f"{reason}, {times} times" if times > 1 else reason
        if reason is not None:
            self.failures.append(Failure(job.run, reason))
        self._observer.job_ended(job, reason)


def _status(folder: BatchFolder, run: Run) -> str:
    run_folder = folder.run(run.name)
    if not run_folder.is_run:
        return "missing"
    if run_folder.parameters() != run.config:
        raise UserError(f"{run_folder.path}: made with other options; remove it to train it again")
    return run_folder.status
