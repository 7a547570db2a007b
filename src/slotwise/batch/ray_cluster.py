"""RayExecutor and RayWorker: jobs on the nodes of a Ray cluster.

Each data set is put into the cluster's object store once; a node fetches it once, and all its workers read
that one copy. Checkpoints and curves come back as they are written, so the folder of the batch is as if the
jobs were trained here, and a job whose node is lost resumes elsewhere from what has come back.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import BatchObserver, Job, JobEnd, JobProgress
from slotwise.batch.serial import Executor, SerialExecutor, TaskCache, train_job
from slotwise.data import Dataset
from slotwise.errors import UserError
from slotwise.files import write_atomically
from slotwise.learning.workers.ray_connection import (
    RayConnection,
    check_node_version,
    last_line,
    node_version,
)
from slotwise.learning.workers.ray_workers import ClusterLost, RayWorkers
from slotwise.runs import RunConfig, RunFolder

CONCURRENT_CALLS = 3  # of a worker: `stop` has to be answered while `report` waits
FALSE_STARTS = 3
PROBE_INTERVAL, HEAD_TIMEOUT = 3.0, 20.0  # seconds; Ray ends a process without a head after 60
REPORT_INTERVAL, REPORT_POLL = 1.0, 0.1  # seconds
CHECKPOINT = "checkpoint"
FILES = ("history.csv", "model.npz", "run.json")  # run.json last: its status describes the others
Files = dict[str, bytes]


class RayExecutor(Executor):
    """Trains jobs on as many workers as the cluster has cores, or on ``workers``.

    If there are at least as many jobs as nodes, each job is trained on one node. Otherwise one job after
    another is trained from here, and the local trainings of each are spread over all nodes.
    """

    retries = 3
    checkpoint_every = 30.0  # an S=1 run's checkpoint has megabytes, and all of them come to one machine

    def __init__(self, cluster: RayConnection, workers: int | None = None) -> None:
        self._cluster, self._ray, self._wanted = cluster, cluster.ray, workers
        self._datasets: dict[str, Any] = {}
        self._workers: list[_Worker] = []
        self._refused: list[JobEnd] = []
        self._false_starts = 0
        self._here: SerialExecutor | None = None

    def open(self, folder: BatchFolder, jobs: int, checkpoint_every: float, observer: BatchObserver) -> None:
        """Divide the cores of the cluster among the jobs."""
        super().open(folder, jobs, checkpoint_every, observer)
        with self._head_needed():
            cores = [int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]]
        total = max(1, sum(cores) if self._wanted is None else self._wanted)
        if jobs < sum(count > 0 for count in cores):
            self._here = SerialExecutor(
                partial(RayWorkers, cluster=self._cluster, count=total, disconnect=False)
            )
            self._here.open(folder, jobs, checkpoint_every, observer)
        # The threads of a job are on one node, so no job gets more than the largest node has.
        self._threads = max(1, min(total // max(1, jobs), max(cores, default=1)))
        self._size = max(1, min(total // self._threads, jobs))
        self._answered = self._probed = time.monotonic()

    def submit(self, job: Job, waiting: int) -> bool:
        """Start a job on a worker that is ready."""
        if self._here is not None:
            return self._here.submit(job, waiting)
        with self._head_needed():
            busy = sum(worker.job is not None for worker in self._workers)
            # No more workers than jobs: each holds cores of the cluster, also while it is idle.
            while len(self._workers) < min(self._size, busy + waiting) and self._cluster.answers():
                self._workers.append(_Worker(self._ray, self._threads))
            idle = next((worker for worker in self._workers if worker.call is None), None)
            if idle is None:
                return False
            config, run = job.run.config, self.folder.run(job.run.name)
            try:
                if not run.is_run:
                    run = RunFolder.create(run.path, config)
                idle.begin(job, run, self._dataset(config), self.checkpoint_every)
            except UserError as error:  # of this job; it stops no other
                self._refused.append(JobEnd(job, str(error)))
            return True

    def wait(self, seconds: float) -> list[JobEnd]:
        """Return the jobs that have ended or lost their node."""
        if self._here is not None:
            return self._here.wait(seconds)
        with self._head_needed():
            now = time.monotonic()
            if now - self._probed >= PROBE_INTERVAL:
                self._probed = now
                if self._cluster.answers():
                    self._answered = now
                elif now - self._answered > HEAD_TIMEOUT:
                    raise ConnectionError  # the head is lost
            refused, self._refused = self._refused, []
            if refused:
                return refused
            calls = {worker.call: worker for worker in self._workers if worker.call is not None}
            if not calls:
                time.sleep(seconds)
                return []
            answered, _ = self._ray.wait(list(calls), timeout=seconds)
            return [end for call in answered for end in self._answer(calls[call])]

    def stop(self) -> None:
        """Ask for checkpoints and an early end."""
        if self._here is not None:
            self._here.stop()
        with self._head_needed():
            for worker in self._workers:
                worker.actor.stop.remote()

    def close(self) -> None:
        """End the workers; the cluster stays."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()
        with suppress(ConnectionError):  # the head is lost
            self._ray.shutdown()

    def _dataset(self, config: RunConfig) -> Any:
        """Return the reference of a run's data set; None for a task of the user's, which has its own data."""
        if config.model.is_own:
            return None
        source = config.dataset.source
        if source not in self._datasets:
            self._datasets[source] = self._ray.put(config.dataset.load())
        return self._datasets[source]

    @contextmanager
    def _head_needed(self) -> Iterator[None]:
        """Report a lost head: with ray://, every call goes through it and fails."""
        try:
            yield
        except ConnectionError:
            raise ClusterLost(self._cluster.head) from None

    def _answer(self, worker: _Worker) -> list[JobEnd]:
        job, errors = worker.job, self._ray.exceptions
        try:
            ends = worker.answer(self.observer)
        except errors.RayError as error:
            self._workers.remove(worker)
            worker.end()
            reason = last_line(error)
            # A worker that raises is of no use for any job; other errors are those of its node.
            raised = isinstance(error, errors.RayTaskError)
            if job is not None and raised:
                return [JobEnd(job, reason)]
            if job is not None:
                head = "" if self._cluster.answers() else ", and the head of the cluster does not answer"
                return [JobEnd(job, f"its node or its process was lost{head}", lost=True)]
            if raised:
                raise UserError(f"a node of the cluster cannot run slotwise: {reason}") from None
            # No job had begun on the lost node, so none failed. Several in a row are a fault of the cluster.
            self._false_starts += 1
            if self._false_starts >= FALSE_STARTS:
                raise UserError(f"the cluster cannot start slotwise: {reason}") from None
            return []
        self._false_starts = 0
        return ends


class _Worker:
    """An actor on a node, its job, and the one call to it that has not been answered yet."""

    def __init__(self, ray: Any, threads: int) -> None:
        self._ray, self._threads = ray, threads
        options = {"num_cpus": threads, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        self.actor = ray.remote(max_concurrency=CONCURRENT_CALLS, **options)(RayWorker).remote()
        self.job: Job | None = None
        self.call: Any = self.actor.hello.remote()
        self._ready = False
        self._held = ExitStack()

    def begin(self, job: Job, run: RunFolder, dataset: Any, checkpoint_every: float) -> None:
        with ExitStack() as held:
            held.enter_context(run.held())  # until the job has ended
            self.call = self.actor.begin.remote(
                job, self._threads, checkpoint_every, resumable_files(run), dataset
            )
            # The lock outlives this block only if the call was made.
            self._held = held.pop_all()
        self.job, self._run = job, run

    def answer(self, observer: BatchObserver) -> list[JobEnd]:
        """Take the answer to the call, and make the next call; raise a RayError if there is no answer."""
        answer, job = self._ray.get(self.call), self.job
        # Without a call the worker is idle, and `submit` may use it.
        self.call = None
        if not self._ready:
            check_node_version(*answer)
            self._ready = True
            return []
        if isinstance(answer, JobReport) and job is not None:
            write_files(answer.files, self._run)
            if answer.progress is not None:
                observer.job_progress(job, answer.progress)
            if answer.over:
                self.job = None
                self._held.close()
                return [JobEnd(job, answer.reason)]
        self.call = self.actor.report.remote()
        return []

    def end(self) -> None:
        self._held.close()
        with suppress(Exception):  # it may be gone already, with its node
            self._ray.kill(self.actor)


class JobReport(NamedTuple):
    """Progress of a job, and the files that are new since the last report."""

    progress: JobProgress | None
    files: Files
    over: bool
    reason: str | None


class RayWorker(BatchObserver):
    """Trains one job after another on a node, each in a temporary folder. It knows nothing of the cluster.

    `report` and `stop` are called while a thread does the training that `begin` started. A worker that is
    killed leaves its folder among the temporary files of the node.
    """

    def __init__(self) -> None:
        self._tasks = TaskCache()
        self._stopping = threading.Event()

    def hello(self) -> tuple[str, str]:
        """Return the name of the node and its version of slotwise."""
        return node_version()

    def begin(
        self, job: Job, threads: int, checkpoint_every: float, files: Files, dataset: Dataset | None
    ) -> None:
        """Start to train a job from the files of its run."""
        if dataset is not None:
            self._tasks.add(dataset)
        self._scratch = tempfile.TemporaryDirectory(prefix="slotwise-")
        folder, executor = BatchFolder(Path(self._scratch.name)), Executor()
        executor.open(folder, 1, checkpoint_every, self)
        write_files(files, folder.run(job.run.name))
        self._changes = ChangedFiles(folder.run(job.run.name))
        self._progress: JobProgress | None = None
        self._reason: str | None = None
        self._over = threading.Event()

        def train() -> None:
            try:
                self._reason = train_job(executor, job, threads, self._tasks.make)
            finally:
                # Also after an error: otherwise no report would say that the job is over.
                self._over.set()

        threading.Thread(target=train, daemon=True).start()

    def report(self) -> JobReport:
        """Return what is new after a second, or as soon as there is a checkpoint or the job has ended."""
        end = time.monotonic() + REPORT_INTERVAL
        while not (over := self._over.wait(REPORT_POLL)) and time.monotonic() < end:
            if self._changes.has_checkpoint():
                break
        # ``over`` was read before the files are: what the training writes last is not missed.
        found = JobReport(self._progress, self._changes.take(over=over), over, self._reason)
        if over:
            self._scratch.cleanup()
        return found

    def stop(self) -> None:
        """Ask for a checkpoint and an early end."""
        self._stopping.set()

    def wants_stop(self) -> bool:
        """Return whether to stop."""
        return self._stopping.is_set()

    def job_progress(self, job: Job, progress: JobProgress) -> None:
        """Remember the progress for the next report."""
        del job
        self._progress = progress


def resumable_files(run: RunFolder) -> Files:
    """Return the files of a run that it takes to resume it elsewhere."""
    files = {"run.json": (run.path / "run.json").read_bytes()}
    checkpoint = run.checkpoints.newest()
    return files if checkpoint is None else {CHECKPOINT: checkpoint, **files}


def write_files(files: Files, run: RunFolder) -> None:
    """Write files into a run folder, in the order in which a training writes them."""
    run.path.mkdir(parents=True, exist_ok=True)
    if CHECKPOINT in files:
        run.checkpoints.receive(files[CHECKPOINT])
    for name in FILES:
        if name in files:
            write_atomically(run.path / name, files[name])


class ChangedFiles:
    """The files of a run that have changed since they were last taken."""

    def __init__(self, run: RunFolder) -> None:
        self._run, self._sent = run, run.checkpoints.newest_name()

    def has_checkpoint(self) -> bool:
        """Return whether there is a new checkpoint."""
        return self._run.checkpoints.newest_name() != self._sent

    def take(self, *, over: bool) -> Files:
        """Return a new checkpoint and the curve until then; all files once the training is over."""
        files: Files = {}
        # The name is read first: a checkpoint that is written in between is sent twice, and never missed.
        name = self._run.checkpoints.newest_name()
        if name != self._sent and (checkpoint := self._run.checkpoints.newest()) is not None:
            self._sent, files[CHECKPOINT] = name, checkpoint
        wanted = FILES if over else ("history.csv",) if files else ()
        paths = {name: self._run.path / name for name in wanted}
        return files | {name: path.read_bytes() for name, path in paths.items() if path.is_file()}
