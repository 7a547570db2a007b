"""Pool: workers outside of this process that share work; one that is lost is replaced.

A worker holds an object whose methods are called from here. It is a process of this machine (`process`) or an
actor on a node of a cluster (`ray_cluster`). Each worker of a pool has a thread here, which gives it work and
waits for the result.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from threading import Condition, Thread
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from slotwise.base.errors import UserError
from slotwise.base.user_code import describe_error

ATTEMPTS = 3  # of a piece of work that loses its worker, and to start one


class WorkerLost(Exception):
    """The worker is gone; its work can be repeated by another.

    Attributes:
        limit: The limit that it has exceeded, if that was the reason.
    """

    def __init__(self, reason: str, limit: Literal["seconds", "memory"] | None = None) -> None:
        super().__init__(reason)
        self.limit = limit


class WorkersGone(UserError):
    """There are no workers any more, and no new ones can be started."""


class ClusterLost(WorkersGone):
    """The cluster does not answer any more, so nothing else can be computed on it either."""


class Worker(Protocol):
    """An object in another process. Its methods are called one at a time, in any thread.

    Methods raise WorkerLost if it is gone, and a UserError for anything that another worker would not do
    better.
    """

    def load(self) -> None:
        """Wait until the object is there; called once, before any other call."""

    def call(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the object returns; raise a UserError for whatever it raises."""

    def kill(self) -> None:
        """End the worker now, from any thread; what waits for it raises WorkerLost."""

    def close(self) -> None:
        """End the worker and free what it holds, when nothing waits for it."""


class Failure(NamedTuple):
    """An error in a worker as it is sent: one line, and notes, such as where it was raised."""

    message: str
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an error; one that is no UserError gets its traceback as a note."""
        if isinstance(error, UserError):
            return cls(str(error), tuple(getattr(error, "__notes__", ())))
        return cls(describe_error(error), (trace_note(error),))

    def error(self) -> UserError:
        """Return the error to raise."""
        error = UserError(self.message)
        for note in self.notes:
            error.add_note(note)
        return error


def trace_note(error: BaseException) -> str:
    """Return the traceback of an error as a note for an error that is raised elsewhere."""
    return "In the worker:\n" + "".join(traceback.format_exception(error))


Result = TypeVar("Result")


class Work(Generic[Result]):
    """A piece of work for a worker, repeated up to three times if it loses that.

    Subclasses say how it is done, and what it is called. A pool calls its methods in its own threads.
    """

    def __init__(self) -> None:
        self.future: Future[Result] = Future()
        self.attempts = 0  # that were lost

    def result(self, worker: Any) -> Result:
        """Compute the result with a worker."""
        raise NotImplementedError

    def begin(self) -> bool:
        """Return whether it is to be done: False if the result is not wanted any more."""
        # Repeated work is running already, and a future can be set to running only once.
        return self.attempts > 0 or self.future.set_running_or_notify_cancel()

    def do(self, worker: Any) -> None:
        """Do it with a worker; also again, after it has lost one."""
        self.future.set_result(self.result(worker))

    def lost(self, error: WorkerLost) -> bool:
        """Return whether another worker is to do it; if not, it has failed."""
        self.attempts += 1
        if self.attempts < ATTEMPTS:
            return True
        self.fail(UserError(f"{self} has lost its worker {ATTEMPTS} times: {error}"))
        return False

    def fail(self, error: BaseException) -> None:
        """Take an error that ends the work."""
        self.future.set_exception(error)

    def cancel(self) -> None:
        """Take the end of the pool."""
        if not self.future.cancel():  # it had a worker already, and lost it
            self.future.set_exception(CancelledError())


class Pool:
    """A number of workers, and the work that they share.

    Args:
        start: Starts a worker; called from several threads. A WorkerLost or an OSError means: not this time,
            a UserError: none can be started.
        count: How many workers there are at first; they start in the background.

    Attributes:
        ready: How many workers there are and have loaded.
        workers: All workers, also those that load.
        gone: Why there are no workers any more; None while there may be.
    """

    def __init__(self, start: Callable[[], Worker], count: int = 0) -> None:
        self._start, self.ready = start, 0
        self._changed = Condition()
        self._waiting: deque[Work[Any]] = deque()
        self.workers: list[Any] = []
        self.gone: WorkersGone | None = None
        self._closing = False
        self._threads: list[Thread] = []
        self.grow(count)

    def grow(self, count: int) -> None:
        """Have at least so many workers; those that are missing start in the background."""
        while len(self._threads) < count:
            thread = Thread(target=self._serve, name=f"slotwise-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def add(self, work: Work[Any]) -> None:
        """Let the next free worker do some work; after the end of all workers it fails at once."""
        with self._changed:
            if self._closing:
                raise RuntimeError("cannot start work after the workers were closed")
            if self.gone is None:
                self._waiting.append(work)
                self._changed.notify()
                return
        # Not under the lock: it may take long. `gone` does not change once it is set.
        work.fail(self.gone)

    def drop(self) -> None:
        """Cancel the work that waits for a worker."""
        with self._changed:
            dropped, self._waiting = list(self._waiting), deque()
        for work in dropped:
            work.cancel()

    def close(self) -> None:
        """Drop all work, and end the workers."""
        with self._changed:
            self._closing = True
            dropped, self._waiting = list(self._waiting), deque()
            workers = tuple(self.workers)
            self._changed.notify_all()
        # Not under the lock, which the threads need to end.
        for work in dropped:
            work.cancel()
        for worker in workers:  # it may compute for long, or for ever
            worker.kill()
        for thread in self._threads:
            if thread.ident is not None:  # not so if an interrupt came before its start
                thread.join()

    def _take(self) -> Work[Any] | None:
        """Return the next work, or None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            return self._waiting.popleft() if self._waiting else None

    def _serve(self) -> None:
        """Do work with one worker after another, each until it is lost."""
        failures = 0
        while not self._closing and self.gone is None:
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
    def _started(self) -> Iterator[Worker]:
        """Start a worker, which is ready in the block and ended after it."""
        worker, is_ready = self._start(), False
        try:
            with self._changed:
                if self._closing:
                    raise WorkerLost("the pool was closed")
                self.workers.append(worker)  # from here on `close` kills it
            worker.load()
            with self._changed:
                self.ready, is_ready = self.ready + 1, True
            yield worker
        finally:
            with self._changed:
                self.ready -= is_ready
                if worker in self.workers:
                    self.workers.remove(worker)
            worker.close()

    def _work_with(self, worker: Any) -> None:
        """Do work with this worker until it is lost or there is no more."""
        while (work := self._take()) is not None:
            if not work.begin():
                continue
            try:
                work.do(worker)
            except WorkerLost as error:
                self._lost(work, error)
                return
            except WorkersGone as error:
                self._give_up(error)
                work.fail(error)
                return
            except BaseException as error:
                work.fail(error)

    def _lost(self, work: Work[Any], error: WorkerLost) -> None:
        """Put work back that has lost its worker, before all other."""
        with self._changed:
            gone, closing = self.gone, self._closing
            if gone is None and not closing:
                if work.lost(error):
                    # What was started first is waited for first.
                    self._waiting.appendleft(work)
                    self._changed.notify()
                return
        if closing:
            work.cancel()
        elif gone is not None:
            work.fail(gone)

    def _give_up(self, error: UserError) -> None:
        """Fail all work that is waiting, and all that comes."""
        with self._changed:
            gone = error if isinstance(error, WorkersGone) else WorkersGone(str(error))
            for note in () if gone is error else getattr(error, "__notes__", ()):
                gone.add_note(note)
            self.gone = gone = self.gone or gone  # the first is the reason
            dropped, self._waiting = list(self._waiting), deque()
        for work in dropped:
            if work.begin():  # a future that was cancelled cannot get a result
                work.fail(gone)
