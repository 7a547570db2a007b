"""RemoteWorkers: workers outside of this process. One that is lost is replaced and its work repeated.

Work can be repeated because an update is a function of (model, device, training). Each worker has a thread
here, which gives it work and waits for the result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any, Protocol

from slotwise.aggregation import Vector
from slotwise.errors import UserError
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.task import DeviceState, Evaluation
from slotwise.learning.workers.worker_protocol import NO_STATES, Job, Trained
from slotwise.user_code import describe_error

ATTEMPTS = 3  # of a piece of work that loses its worker, and to start one


class WorkerLost(Exception):
    """The worker is gone; its work can be repeated by another."""


class WorkersGone(UserError):
    """There are no workers any more, and no new ones can be started."""


class RemoteWorker(Protocol):
    """A worker outside of this process, which does one piece of work at a time.

    Methods raise WorkerLost if it is gone, and a UserError for anything that another worker would not do
    better.
    """

    def load(self) -> None:
        """Wait until the worker has the task; called once, before any work."""

    def train(self, jobs: Sequence[Job]) -> Trained:
        """Compute local trainings, one after another, and return their updates."""

    def evaluate(self, round_number: int, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:
        """Return the evaluation of a model."""

    def kill(self) -> None:
        """End the worker now, from any thread; what waits for it raises WorkerLost."""

    def close(self) -> None:
        """End the worker and free what it holds, when nothing waits for it."""


@dataclass(eq=False)
class _Training:
    jobs: Sequence[Job]
    future: Future[Trained] = field(default_factory=Future)
    attempts: int = 0

    def do(self, worker: RemoteWorker) -> None:
        self.future.set_result(worker.train(self.jobs))

    def fail(self, error: BaseException, task: CheckedTask) -> None:
        del task
        self.future.set_exception(error)

    def cancel(self) -> None:
        _cancel(self.future)

    def __str__(self) -> str:
        start = self.jobs[0].start
        return f"the local training of device {start.device} on model {start.round}"


@dataclass(eq=False)
class _Evaluating:
    round_number: int
    model: Vector
    states: Mapping[int, DeviceState]
    future: Future[Evaluation] = field(default_factory=Future)
    attempts: int = 0

    def do(self, worker: RemoteWorker) -> None:
        self.future.set_result(worker.evaluate(self.round_number, self.model, self.states))

    def fail(self, error: BaseException, task: CheckedTask) -> None:
        """Evaluate here if there are no workers any more, because a checkpoint needs all evaluations."""
        if isinstance(error, WorkersGone):
            try:
                self.future.set_result(task.evaluate(self.model, self.states))
                return
            except BaseException as own:  # also a SystemExit, with which nobody would get a result
                error = own
        self.future.set_exception(error)

    def cancel(self) -> None:
        _cancel(self.future)

    def __str__(self) -> str:
        return f"the evaluation of model {self.round_number}"


def _cancel(future: Future[Any]) -> None:
    if not future.cancel():  # it had a worker already, and lost it
        future.set_exception(CancelledError())


class RemoteWorkers:
    """A number of remote workers; subclasses know how to start one.

    Attributes:
        count: How many there should be.
        ready: How many there are and have the task.
    """

    def __init__(self, task: CheckedTask, count: int) -> None:
        """Start the workers in the background."""
        self._task, self.count, self.ready = task, count, 0
        self._changed = Condition()
        self._waiting: deque[_Training | _Evaluating] = deque()
        self._workers: list[RemoteWorker] = []  # also those that do not have the task yet
        self._closing = False
        self._gone: WorkersGone | None = None
        self._threads = [Thread(target=self._serve, name=f"slotwise-{n}", daemon=True) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def start_worker(self) -> RemoteWorker:
        """Start a worker; called from several threads.

        Raises:
            WorkerLost, OSError: not this time.
            UserError: none can be started.
        """
        raise NotImplementedError

    def train(self, jobs: Sequence[Job]) -> Future[Trained]:
        """Start local trainings, which one worker computes one after another."""
        work = _Training(jobs)
        self._add(work)
        return work.future

    def evaluate(
        self, round_number: int, model: Vector, states: Mapping[int, DeviceState] = NO_STATES
    ) -> Future[Evaluation]:
        """Start the evaluation of a model."""
        work = _Evaluating(round_number, model, states)
        self._add(work)
        return work.future

    def drop(self, rounds: Collection[int]) -> None:
        """Forget these models: no training that starts from them is left."""
        raise NotImplementedError

    def end_trainings(self) -> None:
        """Do nothing: trainings that are started together take a few milliseconds."""

    def close(self) -> None:
        """Drop all work, and end the workers: the engine has waited for whatever it needs."""
        with self._changed:
            self._closing = True
            dropped, self._waiting = list(self._waiting), deque()
            workers = tuple(self._workers)
            self._changed.notify_all()
        # Not under the lock, which the threads need to end.
        for work in dropped:
            work.cancel()
        for worker in workers:  # a task may compute for long, or for ever
            worker.kill()
        for thread in self._threads:
            thread.join()

    def _add(self, work: _Training | _Evaluating) -> None:
        with self._changed:
            if self._closing:
                raise RuntimeError("cannot start work after the workers were closed")
            if self._gone is None:
                self._waiting.append(work)
                self._changed.notify()
                return
        # Not under the lock: an evaluation is computed here. `_gone` does not change once it is set.
        work.fail(self._gone, self._task)

    def _take(self) -> _Training | _Evaluating | None:
        """Return the next work, or None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            return self._waiting.popleft() if self._waiting else None

    def _serve(self) -> None:
        """Do work with one worker after another, each until it is lost."""
        failures = 0
        while not self._closing and self._gone is None:
            try:
                with self._started() as worker:
                    # Only failures to start count, and only in a row.
                    failures = 0
                    self._work_with(worker)
            except (WorkerLost, OSError) as error:
                failures += 1
                if failures == ATTEMPTS:
                    self._give_up(UserError(f"a worker cannot start: {error}"))
            except UserError as error:
                self._give_up(error)
            except BaseException as error:  # whatever it is, nobody may wait for this thread
                self._give_up(UserError(f"a worker cannot start: {describe_error(error)}"))

    @contextmanager
    def _started(self) -> Iterator[RemoteWorker]:
        """Start a worker, which is ready in the block and ended after it."""
        worker, is_ready = self.start_worker(), False
        try:
            with self._changed:
                if self._closing:
                    raise WorkerLost("the training has ended")
                self._workers.append(worker)  # from here on `close` kills it
            worker.load()
            with self._changed:
                self.ready, is_ready = self.ready + 1, True
            yield worker
        finally:
            with self._changed:
                self.ready -= is_ready
                if worker in self._workers:
                    self._workers.remove(worker)
            worker.close()

    def _work_with(self, worker: RemoteWorker) -> None:
        """Do work with this worker until it is lost or there is no more."""
        while (work := self._take()) is not None:
            # Repeated work is running already, and a future can be set to running only once.
            if work.attempts == 0 and not work.future.set_running_or_notify_cancel():
                continue
            try:
                work.do(worker)
            except WorkerLost as error:
                self._lost(work, error)
                return
            except WorkersGone as error:
                self._give_up(error)
                work.fail(error, self._task)
                return
            except BaseException as error:
                work.fail(error, self._task)

    def _lost(self, work: _Training | _Evaluating, error: WorkerLost) -> None:
        """Put work back that has lost its worker, before all other."""
        work.attempts += 1
        with self._changed:
            gone, closing = self._gone, self._closing
            if gone is None and not closing and work.attempts < ATTEMPTS:
                # The engine waits for the oldest updates first.
                self._waiting.appendleft(work)
                self._changed.notify()
                return
        if closing:
            work.cancel()
        else:
            reason = f"{work} has lost its worker {ATTEMPTS} times: {error}"
            work.fail(gone or UserError(reason), self._task)

    def _give_up(self, error: UserError) -> None:
        """Fail all work that is waiting, and all that comes."""
        with self._changed:
            gone = error if isinstance(error, WorkersGone) else WorkersGone(str(error))
            for note in () if gone is error else getattr(error, "__notes__", ()):
                gone.add_note(note)
            self._gone = gone = self._gone or gone  # the first is the reason
            dropped, self._waiting = list(self._waiting), deque()
        for work in dropped:
            # A future that was cancelled cannot get a result.
            if work.attempts or work.future.set_running_or_notify_cancel():
                work.fail(gone, self._task)
