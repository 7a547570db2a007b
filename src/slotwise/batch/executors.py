"""Executors train the jobs of a batch: in this process, in local processes, or on a Ray cluster."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import BatchObserver, Job, JobEnd, JobProgress
from slotwise.batch.job_worker import (
    Assignment,
    JobReport,
    JobWorker,
    MakeTask,
    TaskCache,
    resumable_files,
    train_job,
    write_files,
)
from slotwise.errors import InputError, UserError
from slotwise.learning.workers import WorkerPlan
from slotwise.machine import available_cores, refuse_too_many_processes
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.run_timeline import known_timeline
from slotwise.runs.session import SECONDS_BETWEEN_CHECKPOINTS
from slotwise.scenario import whole
from slotwise.workers import Pool, ProcessWorker, Terms, Worker, WorkerLost, WorkersGone
from slotwise.workers.pool import ATTEMPTS

if TYPE_CHECKING:
    from slotwise.workers.ray_cluster import RayCluster


class Executor:
    """Trains jobs: in this process, in local processes or on a cluster. It can be used once."""

    retries = 0  # how often a job is given to another worker after losing its own
    checkpoint_every = SECONDS_BETWEEN_CHECKPOINTS  # the default

    def open(
        self, folder: BatchFolder, jobs: int, checkpoint_every: float, observer: BatchObserver
    ) -> Executor:
        """Get ready for a number of jobs, and return who trains them; ``observer`` is told their progress."""
        del jobs
        self.folder, self.checkpoint_every, self.observer = folder, checkpoint_every, observer
        return self

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
            reason = train_job(
                self.folder,
                job,
                workers=self._workers,
                make_task=self._make_task,
                checkpoint_every=self.checkpoint_every,
                observer=self.observer,
            )
        except KeyboardInterrupt:  # the next call reports the job as ended
            self._interrupted = [JobEnd(job)]
            raise
        return [JobEnd(job, reason)]

    def stop(self) -> None:
        """End an accepted job that has not begun; the observer stops one that has."""
        if self._job is not None:
            self._interrupted, self._job = [JobEnd(self._job)], None


class PoolExecutor(Executor):
    """Trains jobs in workers outside of this process, each of which has a `JobWorker`."""

    report_seconds = 0.25  # between two reports of a worker

    def __init__(self) -> None:
        self.stopping = False
        self._events: queue.SimpleQueue[tuple[Job, JobProgress] | JobEnd] = queue.SimpleQueue()
        self._threads: dict[str, int] = {}  # of the jobs that are trained
        self._pool = Pool(self.start_worker)

    def start_worker(self) -> Worker:
        """Start a worker for jobs; called from several threads."""
        raise NotImplementedError

    def share(self, waiting: int, busy: int) -> tuple[int, int]:
        """Return how many workers there should be at most, and the threads of the next of ``waiting`` jobs.

        ``busy`` threads train other jobs.
        """
        raise NotImplementedError

    @contextmanager
    def assigned(self, assignment: Assignment) -> Iterator[list[Any]]:
        """Return the arguments with which a worker begins a job; the block lasts until its end."""
        yield [assignment]

    def received(self, job: Job, report: JobReport) -> None:
        """Take the report of a worker."""

    def submit(self, job: Job, waiting: int) -> bool:
        """Start a job on a worker that is ready; there are no more workers than jobs."""
        size, threads = self.share(waiting, sum(self._threads.values()))
        self._pool.grow(min(size, len(self._threads) + waiting))
        # Compared with the jobs that `wait` has not returned: a worker that has just ended one is free.
        if threads <= 0 or self._pool.ready <= len(self._threads):
            return False
        self._threads[job.run.name] = threads
        timeline = known_timeline(job.run.config)
        self._pool.add(_JobWork(self, Assignment(job, threads, self.checkpoint_every, timeline)))
        return True

    def tell(self, event: tuple[Job, JobProgress] | JobEnd) -> None:
        """Take an event of a job in a thread of a worker; `wait` passes it on."""
        self._events.put(event)

    def wait(self, seconds: float) -> list[JobEnd]:
        """Return a job that has ended or lost its worker; tell the observer of progress."""
        try:
            event = self._events.get(timeout=seconds)
        except queue.Empty:
            if self._pool.gone is not None:
                raise self._pool.gone from None
            return []
        if isinstance(event, JobEnd):
            del self._threads[event.job.run.name]
            return [event]
        self.observer.job_progress(*event)
        return []

    def stop(self) -> None:
        """Ask every worker to save its job and to end it."""
        self.stopping = True

    def close(self) -> None:
        """Kill the workers that are left."""
        self._pool.close()


class _JobWork:
    """A job that a worker trains; its events go to an executor."""

    def __init__(self, executor: PoolExecutor, assignment: Assignment) -> None:
        self._executor, self._assignment, self._job = executor, assignment, assignment.job
        self._attempts, self._begun = 0, False

    def begin(self) -> bool:
        return True

    def do(self, worker: Worker) -> None:
        executor, job = self._executor, self._job
        with executor.assigned(self._assignment) as arguments:
            worker.call("begin", *arguments)
            self._begun = True
            over = False
            while not over:
                report = worker.call("job_report", executor.report_seconds, executor.stopping)
                executor.received(job, report)
                for progress in report.progress:
                    executor.tell((job, progress))
                over = report.over
        executor.tell(JobEnd(job, report.reason))

    def lost(self, error: WorkerLost) -> bool:
        self._attempts += 1
        # A worker that was idle may be found dead by the next job, which has lost nothing then.
        if not self._begun and self._attempts < ATTEMPTS:
            return True
        self._executor.tell(JobEnd(self._job, str(error), lost=True))
        return False

    def fail(self, error: BaseException) -> None:
        if not isinstance(error, WorkersGone):  # `wait` raises those
            reason = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            self._executor.tell(JobEnd(self._job, reason))

    def cancel(self) -> None:
        """Do nothing: nobody waits for the job any more."""


class ProcessExecutor(PoolExecutor):
    """Trains jobs in processes that are started when needed, up to ``workers``; by default on all cores.

    Results do not depend on threads, so a job gets as many as are free for it: one each while there are more
    jobs than cores, several once there are fewer. In sum there are never more threads than cores.
    """

    retries = 1

    def __init__(self, workers: int | None = None) -> None:
        super().__init__()
        self._cores = available_cores() if workers is None else whole("workers", workers)
        refuse_too_many_processes("workers", self._cores)

    def start_worker(self) -> Worker:
        """Start a process; it saves its job when this process is gone."""
        folder = self.folder
        return ProcessWorker(JobWorker, folder, shown=str(folder.path), terms=Terms(may_finish=True))

    def share(self, waiting: int, busy: int) -> tuple[int, int]:
        """Divide the free cores among the jobs."""
        free = self._cores - busy
        # Rounded up: the cores that do not divide evenly go to the jobs that start first, the largest.
        return self._cores, -(-free // min(waiting, free)) if free > 0 else 0


class RayExecutor(PoolExecutor):
    """Trains jobs on as many workers as the cluster has cores, or on ``workers``.

    If there are at least as many jobs as nodes, each job is trained on one node. Otherwise one job after
    another is trained from here, and the local trainings of each are spread over all nodes.

    Each data set is put into the cluster's object store once; a node fetches it once, and all its workers
    read that one copy.
    """

    retries = 3
    checkpoint_every = 30.0  # an S=1 run's checkpoint has megabytes, and all of them come to one machine
    report_seconds = 1.0

    def __init__(self, cluster: RayCluster, workers: int | None = None) -> None:
        super().__init__()
        self._cluster, self._wanted = cluster, workers
        self._datasets: dict[str, Any] = {}
        self._loading = Lock()

    def open(
        self, folder: BatchFolder, jobs: int, checkpoint_every: float, observer: BatchObserver
    ) -> Executor:
        """Divide the cores of the cluster among the jobs."""
        super().open(folder, jobs, checkpoint_every, observer)
        cores = [int(node.get("CPU", 0)) for node in self._cluster.nodes()]
        total = max(1, sum(cores) if self._wanted is None else self._wanted)
        if jobs < sum(count > 0 for count in cores):
            from slotwise.learning.workers.ray_actors import RayWorkers  # noqa: PLC0415

            plan = partial(RayWorkers, cluster=self._cluster, count=total, disconnect=False)
            return SerialExecutor(plan).open(folder, jobs, checkpoint_every, observer)
        # The threads of a job are on one node, so no job gets more than the largest node has.
        self._each = max(1, min(total // max(1, jobs), max(cores, default=1)))
        self._size = max(1, min(total // self._each, jobs))
        return self

    def start_worker(self) -> Worker:
        """Start an actor with the cores of a job."""
        from slotwise.workers.ray_cluster import RayWorker  # noqa: PLC0415

        return RayWorker(self._cluster, JobWorker, cpus=self._each)

    def share(self, waiting: int, busy: int) -> tuple[int, int]:
        """Give every job the same cores."""
        del waiting, busy
        return self._size, self._each

    @contextmanager
    def assigned(self, assignment: Assignment) -> Iterator[list[Any]]:
        """Hold the folder of the run, and send what it has so far."""
        config, run = assignment.job.run.config, self.folder.run(assignment.job.run.name)
        with ExitStack() as lock:
            if run.is_run:
                lock.enter_context(run.held())
            else:
                run = lock.enter_context(RunFolder.creating(run.path, config))
            yield [assignment._replace(files=resumable_files(run)), self._dataset(config)]

    def received(self, job: Job, report: JobReport) -> None:
        """Write the files that are new."""
        write_files(report.files, self.folder.run(job.run.name))

    def _dataset(self, config: RunConfig) -> Any:
        """Return the reference of a run's data set; None for a task of the user's, which has its own data."""
        if config.model.is_own:
            return None
        source = config.dataset.source
        with self._loading:
            if source not in self._datasets:
                self._datasets[source] = self._cluster.put(config.dataset.load())
            return self._datasets[source]

    def close(self) -> None:
        """End the workers; the cluster stays."""
        super().close()
        self._cluster.close()


def make_executor(name: str, workers: int | None = None) -> Executor:
    """Return the executor called ``processes``, ``serial`` or ``ray:ADDRESS``."""
    if workers is not None:
        whole("workers", workers)
    if name == "processes":
        return ProcessExecutor(workers)
    if name == "serial":
        return SerialExecutor(workers or available_cores())
    if name.startswith("ray:"):
        from slotwise.workers.ray_cluster import RayCluster  # noqa: PLC0415

        return RayExecutor(RayCluster.at(name.removeprefix("ray:")), workers)
    raise InputError("executor", name, "processes, serial or ray:ADDRESS")
