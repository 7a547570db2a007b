"""ProcessExecutor: jobs in processes of this machine that share its cores.

Results do not depend on threads, so a job gets as many as are free for it: one each while there are more jobs
than cores, several once there are fewer. In sum there are never more threads than cores.

A worker is a Python process with a pipe of `multiprocessing`, and not part of a ready-made pool: to
concurrent.futures (and to loky) one dead worker breaks the whole pool, ends the other workers and does not
tell whose job it was. Here only the job of the dead worker is tried again.
"""

from __future__ import annotations

import queue
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import BatchObserver, Job, JobEnd, JobProgress
from slotwise.batch.serial import Executor, TaskCache, train_job
from slotwise.errors import UserError
from slotwise.machine import available_cores, refuse_too_many_processes
from slotwise.scenario import whole
from slotwise.worker_process import WorkerProcess, open_pipe

PREDECESSOR_TIMEOUT = 10.0  # seconds


class ProcessExecutor(Executor):
    """Trains jobs in processes that are started when needed, up to ``workers``; by default on all cores."""

    retries = 1

    def __init__(self, workers: int | None = None) -> None:
        self._cores = available_cores() if workers is None else whole("workers", workers)
        refuse_too_many_processes("workers", self._cores)
        self._workers: list[_Worker] = []

    def submit(self, job: Job, waiting: int) -> bool:
        """Start a job on its share of the free cores."""
        free = self._cores - sum(worker.threads for worker in self._workers)
        if free <= 0:
            return False
        worker = next((worker for worker in self._workers if worker.job is None), None)
        if worker is None:
            worker = _Worker(self.folder, self.checkpoint_every)
            self._workers.append(worker)
        # Rounded up: the cores that do not divide evenly go to the jobs that start first, the largest.
        worker.job, worker.threads = job, -(-free // min(waiting, free))
        worker.send((job, worker.threads))
        return True

    def wait(self, seconds: float) -> list[JobEnd]:
        """Return the jobs that have ended or lost their process."""
        ends: list[JobEnd] = []
        waiting: dict[Any, _Worker] = {worker.pipe: worker for worker in self._workers}
        for pipe in wait(list(waiting), seconds):
            worker = waiting[pipe]
            try:
                message = worker.pipe.recv()
            except (EOFError, OSError):
                # The pipe ends with the process; another worker can resume the job from its checkpoint.
                self._workers.remove(worker)
                reason = worker.death()
                ends += [] if worker.job is None else [JobEnd(worker.job, reason, lost=True)]
                continue
            if message is None:
                worker.started = True
                continue
            if worker.job is None:  # a late message about a job that has ended
                continue
            if isinstance(message, JobProgress):
                self.observer.job_progress(worker.job, message)
            else:
                ends.append(JobEnd(worker.job, *message))
                worker.job, worker.threads = None, 0
        return ends

    def stop(self) -> None:
        """Ask every worker to save its job and to end."""
        for worker in self._workers:
            worker.send(None)

    def close(self) -> None:
        """Kill the workers that are left."""
        for worker in self._workers:
            worker.kill()
        self._workers.clear()


class _Worker:
    """A process, its pipe, and the job it trains."""

    def __init__(self, folder: BatchFolder, checkpoint_every: float) -> None:
        self.job: Job | None = None
        self.threads = 0
        self.started = False
        self._process = WorkerProcess("slotwise.batch.processes", str(folder.path))
        self.pipe = self._process.pipe
        self.send((folder, checkpoint_every))

    def send(self, message: object) -> None:
        with suppress(OSError):  # it has died; `wait` finds out
            self.pipe.send(message)

    def death(self) -> str:
        """Return why the process has ended; raise a UserError if it could not even start."""
        failed, reason = self._process.death()
        if failed and not self.started:
            raise UserError(f"a worker process cannot start: {reason}")
        return reason

    def kill(self) -> None:
        self._process.close()


def work(descriptor: int) -> None:
    """Train the jobs that come through a pipe, in a worker process, until it is closed or says to stop.

    The pipe is closed when the main process is gone, however that ended: no worker outlives it for long.
    """
    pipe = open_pipe(descriptor)
    folder, checkpoint_every = pipe.recv()
    executor, main, tasks = Executor(), _MainProcess(pipe), TaskCache()
    executor.open(folder, 1, checkpoint_every, main)
    while (message := main.jobs.get()) is not None:
        job, threads = message
        # A worker whose main process was killed may still be saving this run before it ends: wait for it.
        run, end = folder.run(job.run.name), time.monotonic() + PREDECESSOR_TIMEOUT
        while run.is_run and time.monotonic() < end:
            try:
                with run.held():
                    break
            except UserError:
                time.sleep(0.1)
        # In a tuple, because None alone is the message that the worker has started.
        main.send((train_job(executor, job, threads, tasks.make),))


class _MainProcess(BatchObserver):
    """The other end of a worker's pipe: jobs come from there, progress goes there.

    Jobs are received in a thread, so that the end of the pipe is noticed during a training.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.jobs: queue.SimpleQueue[tuple[Job, int] | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        threading.Thread(target=self._receive, daemon=True).start()
        # The worker has started: from here on a death is that of a job, not of the installation.
        self.send(None)

    def send(self, message: object) -> None:
        with suppress(OSError):  # the main process is gone; `_receive` notices that as well
            self._pipe.send(message)

    def job_progress(self, job: Job, progress: JobProgress) -> None:
        del job
        self.send(progress)

    def wants_stop(self) -> bool:
        return self._ended.is_set()

    def _receive(self) -> None:
        with suppress(EOFError, OSError):
            while (message := self._pipe.recv()) is not None:
                self.jobs.put(message)
        self._ended.set()
        self.jobs.put(None)
