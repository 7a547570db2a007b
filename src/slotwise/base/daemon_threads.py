"""DaemonThreads: an executor whose threads never keep the process alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class DaemonThreads(Executor):
    """Calls functions in up to ``workers`` threads, as a `ThreadPoolExecutor` does.

    Python waits for the threads of that one when it ends, so a training that never ends would keep a device
    alive that was told to stop. These are abandoned.
    """

    def __init__(self, workers: int, name: str) -> None:
        self._workers, self._name, self._threads = workers, name, 0
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._idle = threading.Semaphore(0)

    def submit(
        self, fn: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Result]:
        """Call a function in the next thread that is free."""
        future: Future[Result] = Future()
        self._calls.put((future, lambda: fn(*args, **kwargs)))
        if not self._idle.acquire(blocking=False) and self._threads < self._workers:
            self._threads += 1
            name = f"{self._name}-{self._threads}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Drop the calls that have not begun, if asked to; threads end with the process."""
        del wait
        while cancel_futures and not self._calls.empty():
            self._calls.get()[0].cancel()

    def _work(self) -> None:
        while True:
            future, call = self._calls.get()
            if future.set_running_or_notify_cancel():
                try:
                    result = call()
                except BaseException as error:  # whatever ended the call, its caller is told
                    future.set_exception(error)
                else:
                    future.set_result(result)
            del future, call  # a model may be large
            self._idle.release()
