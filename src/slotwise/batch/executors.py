"""Executors train the jobs of a batch, in this process or in local processes; `ray_executor` has another."""

from __future__ import annotations

import queue
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from slotwise.base.errors import InputError, UserError
from slotwise.base.machine import available_cores, refuse_too_many_processes
from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import BatchObserver, Failure, Job
from slotwise.batch.job_worker import (
    Assignment,
    JobReport,
    JobWorker,
    MakeTask,
    TaskCache,
    train_job,
)
from slotwise.learning.workers import WorkerPlan
from slotwise.options.checks import whole
from slotwise.runs.run_timeline import known_timeline
from slotwise.runs.session import SECONDS_BETWEEN_CHECKPOINTS
from slotwise.workers import ATTEMPTS, Pool, ProcessWorker, Terms, Work, Worker, WorkerLost, WorkersGone

POLL_SECONDS = 0.2  # how often the observer is asked whether to stop


class Executor(ABC):
    """Trains the jobs of a batch. It can be used once."""

    checkpoint_every = SECONDS_BETWEEN_CHECKPOINTS  # the default

    @abstractmethod
    def train(
        self, folder: BatchFolder, jobs: Sequence[Job], checkpoint_every: float, observer: BatchObserver
    ) -> list[Failure]:
        """Train jobs in this order; tell the observer of each, which may ask to stop; return what failed."""


class SerialExecutor(Executor):
    """Trains one job after the other in this process, with some workers; the result is the same.

    ``make_task`` builds the task of a run; the default builds the built-in tasks and loads data sets once.
    """

    def __init__(self, workers: int | WorkerPlan = 1, make_task: MakeTask | None = None) -> None:
        self._workers, self._make_task = workers, make_task or TaskCache().make

    def train(
        self, folder: BatchFolder, jobs: Sequence[Job], checkpoint_every: float, observer: BatchObserver
    ) -> list[Failure]:
        """Train the jobs; Ctrl-C ends the one that is trained with a checkpoint."""
        failures = []
        for job in jobs:
            if observer.wants_stop():
                observer.batch_stopping()
                break
            try:
                observer.job_started(job)
                reason = train_job(
                    folder,
                    job,
                    workers=self._workers,
                    make_task=self._make_task,
                    checkpoint_every=checkpoint_every,
                    observer=observer,
                )
            except KeyboardInterrupt:
                observer.batch_stopping()
                observer.job_ended(job, None)
                raise
            observer.job_ended(job, reason)
            failures += [] if reason is None else [Failure(job.run, reason)]
        return failures


class PoolExecutor(Executor):
    """Trains jobs in workers outside of this process, each of which has a `JobWorker`."""

    retries = 0  # how often a job is given to another worker after losing its own
    report_seconds = 0.25  # between two reports of a worker

    def __init__(self) -> None:
        self.stopping = False
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    @abstractmethod
    def divide(self, jobs: int) -> tuple[int, list[int]]:
        """Divide the cores: return how many workers there are at most, and the threads of each job."""

    @abstractmethod
    def start_worker(self) -> Worker:
        """Start a worker for jobs; called from several threads."""

    @contextmanager
    def assigned(self, assignment: Assignment) -> Iterator[list[Any]]:
        """Return the arguments with which a worker begins a job; the block lasts until its end."""
        yield [assignment]

    def received(self, job: Job, report: JobReport) -> None:
        """Take the report of a worker."""

    def train(
        self, folder: BatchFolder, jobs: Sequence[Job], checkpoint_every: float, observer: BatchObserver
    ) -> list[Failure]:
        """Train the jobs; after Ctrl-C they save what there is and end, a second one ends them at once."""
        self.folder, self.checkpoint_every, self.observer = folder, checkpoint_every, observer
        workers, threads = self.divide(len(jobs))
        works = [_JobWork(self, *each) for each in zip(jobs, threads, strict=True)]
        pool = Pool(self.start_worker)
        try:
            for work in works:
                pool.add(work)
            pool.grow(min(workers, len(works)))
            try:
                self._follow(works, pool)
            except KeyboardInterrupt:
                self._stop(pool)
                self._follow(works, pool)
                raise
        finally:
            pool.close()
        if pool.gone is not None:
            raise pool.gone
        ended = [work for work in works if not work.future.cancelled()]
        return [
            Failure(work.job.run, reason) for work in ended if (reason := work.future.result()) is not None
        ]

    def _follow(self, works: Sequence[_JobWork], pool: Pool) -> None:
        """Tell the observer what happens until all work has ended."""
        left = deque(works)
        while left or not self._events.empty():
            if not self.stopping and self.observer.wants_stop():
                self._stop(pool)
            with suppress(queue.Empty):
                self._events.get(timeout=POLL_SECONDS if left else 0)()
            # The futures say what has ended, because an interrupt may lose an event.
            while left and left[0].future.done():
                left.popleft()

    def _stop(self, pool: Pool) -> None:
        """Start no other job, and let those that are trained save what there is."""
        self.stopping = True
        pool.drop()
        self.observer.batch_stopping()

    def tell(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Call a method of the observer, from the thread of a worker; it is called in the main thread."""
        self._events.put(partial(callback, *arguments))


class _JobWork(Work[str | None]):
    """A job that a worker trains; its result is the reason if it fails."""

    def __init__(self, executor: PoolExecutor, job: Job, threads: int) -> None:
        super().__init__()
        self._executor, self.job, self._threads = executor, job, threads
        self._begun, self._losses = False, 0

    def do(self, worker: Any) -> None:
        """Train the job; the worker is asked for news until it is over."""
        executor, job = self._executor, self.job
        if executor.stopping:
            self._end(None)
            return
        timeline = known_timeline(job.run.config)
        assignment = Assignment(job, self._threads, executor.checkpoint_every, timeline)
        with executor.assigned(assignment) as arguments:
            self._begun, over = False, False
            executor.tell(executor.observer.job_started, job)
            worker.call("report", 0.0, False)
            self._begun = True  # as the worker lives, whatever it dies of now is the job
            worker.call("begin", *arguments)
            while not over:
                report = worker.call("job_report", executor.report_seconds, executor.stopping)
                executor.received(job, report)
                for progress in report.progress:
                    executor.tell(executor.observer.job_progress, job, progress)
                over = report.over
        self._end(report.reason)

    def lost(self, error: WorkerLost) -> bool:
        """Let another worker resume the job, unless it has lost too many."""
        executor = self._executor
        self.attempts += 1
        self._losses += self._begun
        # A worker that was idle may be found dead by the next job, which has lost nothing then.
        may_repeat = self._losses <= executor.retries and self.attempts - self._losses < ATTEMPTS
        if may_repeat and not executor.stopping:
            executor.tell(executor.observer.job_retried, self.job, str(error))
            return True
        self._end(f"{error}, {self._losses} times" if self._losses > 1 else str(error))
        return False

    def fail(self, error: BaseException) -> None:
        """End the job with the error as its reason; `PoolExecutor.train` raises that there are no workers."""
        if isinstance(error, WorkersGone):
            super().fail(error)
        else:
            self._end(str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}")

    def cancel(self) -> None:
        """End the job as it is; one that has not begun is not told of."""
        if not self.future.cancel():
            self._end(None)

    def _end(self, reason: str | None) -> None:
        self._executor.tell(self._executor.observer.job_ended, self.job, reason)
        self.future.set_result(reason)


class ProcessExecutor(PoolExecutor):
    """Trains jobs in processes, up to ``workers``; by default on all cores.

    Results do not depend on threads, so jobs get several if there are fewer than cores. In sum there are
    never more threads than cores.
    """

    retries = 1

    def __init__(self, workers: int | None = None) -> None:
        super().__init__()
        self._cores = available_cores() if workers is None else whole("workers", workers)
        refuse_too_many_processes("workers", self._cores)

    def divide(self, jobs: int) -> tuple[int, list[int]]:
        """Divide the cores; those that do not divide evenly go to the first jobs, the largest."""
        each, more = divmod(self._cores, max(1, jobs))
        return self._cores, [max(1, each + (number < more)) for number in range(jobs)]

    def start_worker(self) -> Worker:
        """Start a process; it saves its job when this process is gone."""
        shown, terms = str(self.folder.path), Terms(may_finish=True)
        return ProcessWorker(JobWorker, self.folder, shown=shown, terms=terms)


def make_executor(name: str, workers: int | None = None) -> Executor:
    """Return the executor called ``processes``, ``serial`` or ``ray:ADDRESS``."""
    if workers is not None:
        whole("workers", workers)
    if name == "processes":
        return ProcessExecutor(workers)
    if name == "serial":
        return SerialExecutor(workers or available_cores())
    if name.startswith("ray:"):
        from slotwise.batch.ray_executor import RayExecutor  # noqa: PLC0415
        from slotwise.workers.ray_cluster import RayCluster  # noqa: PLC0415

        return RayExecutor(RayCluster.at(name.removeprefix("ray:")), workers)
    raise InputError("executor", name, "processes, serial or ray:ADDRESS")
