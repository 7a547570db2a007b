"""RayExecutor: jobs on the nodes of a Ray cluster.

Each data set is put into the cluster's object store once; a node fetches it once, and all its workers read
that one copy. Checkpoints and curves come back as they are written, so the folder of the batch is as if the
jobs were trained here, and a job whose node is lost resumes elsewhere from what has come back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from typing import Any

from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import Job, JobEnd
from slotwise.batch.ray_connection import RayConnection
from slotwise.batch.ray_worker import News, RayWorker, resumable_files, write_files
from slotwise.batch.serial import Executor
from slotwise.errors import UserError
from slotwise.observer import Observer
from slotwise.runs import RunFolder

CONCURRENT_CALLS = 3  # of a worker: `stop` has to be heard while `news` waits
FALSE_STARTS = 3
PROBE_INTERVAL, HEAD_TIMEOUT = 3.0, 20.0  # seconds; Ray ends a process without a head after 60


class RayExecutor(Executor):
    """Trains jobs on as many workers as the cluster has cores, or on ``workers``."""

    retries = 3
    checkpoint_every = 30.0  # an S=1 run's checkpoint has megabytes, and all of them come to one machine

    def __init__(self, cluster: RayConnection, workers: int | None = None) -> None:
        self._cluster, self._ray, self._wanted = cluster, cluster.ray, workers
        self._datasets: dict[str, Any] = {}
        self._workers: list[_Worker] = []
        self._refused: list[JobEnd] = []
        self._false_starts = 0

    def open(self, folder: BatchFolder, jobs: int, checkpoint_every: float, observer: Observer) -> None:
        """Divide the cores of the cluster among the jobs."""
        super().open(folder, jobs, checkpoint_every, observer)
        with self._head_needed():
            cores = [int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]]
        total = max(1, sum(cores) if self._wanted is None else self._wanted)
        self._threads = max(1, min(total // max(1, jobs), max(cores, default=1)))
        self._size = max(1, min(total // self._threads, jobs))
        self._answered = self._probed = time.monotonic()

    def submit(self, job: Job, waiting: int) -> bool:
        """Start a job on a worker that is ready."""
        with self._head_needed():
            busy = sum(worker.job is not None for worker in self._workers)
            while len(self._workers) < min(self._size, busy + waiting) and self._cluster.answers():
                self._workers.append(_Worker(self._ray, self._threads))
            idle = next((worker for worker in self._workers if worker.call is None), None)
            if idle is None:
                return False
            try:
                idle.begin(job, self._run_folder(job), self._dataset(job), self.checkpoint_every)
            except UserError as error:  # of this job; it stops no other
                self._refused.append(JobEnd(job, str(error)))
            return True

    def wait(self, seconds: float) -> list[JobEnd]:
        """Return the jobs that have ended or lost their node."""
        with self._head_needed():
            self._probe_head()
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

    def _probe_head(self) -> None:
        now = time.monotonic()
        if now - self._probed < PROBE_INTERVAL:
            return
        self._probed = now
        if self._cluster.answers():
            self._answered = now
        elif now - self._answered > HEAD_TIMEOUT:
            raise self._lost_head()

    @contextmanager
    def _head_needed(self) -> Iterator[None]:
        """Report a lost head: with ray://, every call goes through it and fails."""
        try:
            yield
        except ConnectionError:
            raise self._lost_head() from None

    def _lost_head(self) -> UserError:
        return UserError(
            f"lost the Ray cluster at {self._cluster.head}; the results received so far are kept, "
            "and the same command resumes from there"
        )

    def _run_folder(self, job: Job) -> RunFolder:
        run = self.folder.run(job.run.name)
        return run if run.is_run else RunFolder.create(run.path, job.run.config)

    def _dataset(self, job: Job) -> Any:
        name = job.run.config.dataset.data
        if name not in self._datasets:
            self._datasets[name] = self._ray.put(job.run.config.dataset.load())
        return self._datasets[name]

    def _answer(self, worker: _Worker) -> list[JobEnd]:
        job, errors = worker.job, self._ray.exceptions
        try:
            ends = worker.answer(self.observer)
        except errors.RayTaskError as error:  # a worker that raises is of no use for any job
            self._dismiss(worker)
            if job is None:
                raise UserError(f"a node of the cluster cannot run slotwise: {_last_line(error)}") from None
            return [JobEnd(job, _last_line(error))]
        except errors.RayError as error:
            self._dismiss(worker)
            if job is None:
                self._count_false_start(_last_line(error))
                return []
            head = "" if self._cluster.answers() else ", and the head of the cluster does not answer"
            return [JobEnd(job, f"its node or its process was lost{head}", lost=True)]
        self._false_starts = 0
        return ends

    def _dismiss(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.end()

    def _count_false_start(self, reason: str) -> None:
        self._false_starts += 1
        if self._false_starts >= FALSE_STARTS:
            raise UserError(f"the cluster cannot start slotwise: {reason}")


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
            self._held = held.pop_all()
        self.job, self._run = job, run

    def answer(self, observer: Observer) -> list[JobEnd]:
        """Take the answer to the call, and make the next call; raise a RayError if there is no answer."""
        answer = self._ray.get(self.call)
        if not self._ready:
            node, installed = answer
            if installed != version("slotwise"):
                here = version("slotwise")
                raise UserError(f"node {node} has slotwise {installed}; it must be {here}, as here")
            self._ready, self.call = True, None
            return []
        if isinstance(answer, News):
            return self._take(answer, observer)
        self.call = self.actor.news.remote()
        return []

    def _take(self, news: News, observer: Observer) -> list[JobEnd]:
        job = self.job
        assert job is not None
        write_files(news.files, self._run)
        if news.progress is not None:
            observer.job_progress(job, news.progress)
        if not news.over:
            self.call = self.actor.news.remote()
            return []
        self.job, self.call = None, None
        self._held.close()
        return [JobEnd(job, news.reason)]

    def end(self) -> None:
        self._held.close()
        with suppress(Exception):  # it may be gone already, with its node
            self._ray.kill(self.actor)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
