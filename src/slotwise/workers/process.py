"""ProcessWorker: an object in a Python process of this machine, whose methods are called through a pipe.

A process and a pipe, and not part of a ready-made pool: to concurrent.futures (and to loky) one dead worker
breaks the whole pool, ends the other workers and does not tell whose work it was.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any, NamedTuple

from slotwise.workers.pool import Failure, WorkerLost

# One thread per local training is what slotwise decides; libraries must not add their own.
LIBRARY_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# Further arguments are visible in the list of processes.
COMMAND = "import sys; from slotwise.workers.process import work; work(int(sys.argv[1]))"
ENDING_TIMEOUT = 10.0  # seconds that a process may take to end after its pipe
SHOWN_BYTES = 1 << 14  # of its output, at most
LOAD = ""  # in place of the name of a method


class Terms(NamedTuple):
    """Conditions of a worker process.

    Attributes:
        seconds: Processor time that a call may take; a busy machine makes no call too long.
        memory: Bytes that it may need beyond what it has once its object is made.
        may_finish: After the end of the main process `close` of the object is called, and may take its time;
            otherwise the process ends at once.
        niceness: Added to that of the main process.
    """

    seconds: float = 0.0
    memory: int = 0
    may_finish: bool = False
    niceness: int = 0


class ProcessWorker:
    """A `Worker` in a process of its own, which ends when this process is gone, however that ended."""

    def __init__(
        self,
        make: Callable[..., object],
        *arguments: Any,
        shown: str = "",
        files: Sequence[int] = (),
        terms: Terms = Terms(),  # noqa: B008
    ) -> None:
        """Start a process that calls ``make`` for its object, with ``shown`` in its command line.

        It has these open files. `make` and the arguments are pickled when it loads.
        """
        self._make, self._arguments = make, arguments
        # A file and not a pipe: nobody reads while the process runs, and a full pipe would block it.
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self._pipe, theirs = Pipe()
        try:
            # The copy of this process is closed, so that the pipe ends when the worker does.
            with theirs:
                self._process = subprocess.Popen(
                    # -P keeps the current folder off the search path, which `work` extends instead.
                    [sys.executable, "-P", "-c", COMMAND, str(theirs.fileno()), shown],
                    stdin=subprocess.DEVNULL,
                    stdout=self._errors,
                    stderr=self._errors,
                    pass_fds=[theirs.fileno(), *files],
                    env={**os.environ, **dict.fromkeys(LIBRARY_THREADS, "1")},
                    # Ctrl-C in a terminal is for the main process only. Not a session of its own: Linux
                    # shares the processor between sessions, so `nice slotwise ...` would have no effect.
                    process_group=0,
                )
        except BaseException:
            self._free()
            raise
        with suppress(OSError):  # it has died; who calls it finds out
            self._pipe.send((sys.path, terms))

    def load(self) -> None:
        """Wait until the object is made."""
        self.call(LOAD, self._make, *self._arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the object returns."""
        try:
            send(self._pipe, (method, arguments))
            answer = receive(self._pipe)
        except (EOFError, OSError):
            raise self._death() from None
        if isinstance(answer, _OutOfMemory):
            raise WorkerLost("its process has not enough memory", "memory")
        if isinstance(answer, Failure):
            raise answer.error()
        return answer

    def kill(self) -> None:
        """End the process now, if it runs, and those in its process group; the pipe stays open.

        It leads a group of its own, which has the processes that it has started, except those that have left
        it, as with setsid. Those that outlive the process are not ended here.
        """
        # Not after its end: its number may belong to another process by then.
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process now and close the pipe."""
        self.kill()
        self._process.wait()
        self._free()

    def _death(self) -> WorkerLost:
        """Close a process whose pipe has ended; return how it ended."""
        try:
            code = self._process.wait(ENDING_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.close()
            return WorkerLost("its process has closed the pipe to this one")
        error = "no message"
        if not self._errors.closed:
            self._errors.seek(max(0, os.fstat(self._errors.fileno()).st_size - SHOWN_BYTES))
            lines = self._errors.read().decode(errors="replace").split("\n")
            error = next((line.strip() for line in reversed(lines) if line.strip()), error)
        self.close()
        if code < 0:
            known = -code in set(signal.Signals)
            name = signal.Signals(-code).name if known else f"signal {-code}"
            took_long = code == -signal.SIGPROF
            return WorkerLost(f"its process was ended by {name}", "seconds" if took_long else None)
        return WorkerLost(f"its process ended: {error}")

    def _free(self) -> None:
        self._pipe.close()
        self._errors.close()


class _OutOfMemory(NamedTuple):
    """The answer of a process that ends because it needs more memory than it may have."""


def send(pipe: Connection, message: object) -> None:
    """Send a message; arrays are not copied into the pickled bytes."""
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    pipe.send((content, len(buffers)))
    for buffer in buffers:
        pipe.send_bytes(buffer.raw())


def receive(pipe: Connection) -> Any:
    """Return a message that `send` has sent."""
    content, count = pipe.recv()
    # Arrays use the received bytes without a copy, so they are read-only.
    return pickle.loads(content, buffers=[pipe.recv_bytes() for _ in range(count)])


def work(descriptor: int) -> None:
    """Make an object and call its methods as messages from a pipe say, in a worker process, until its end."""
    pipe = Connection(descriptor)
    # A process that user code forks, as data loaders do, must not keep the pipe open when this one is killed.
    os.register_at_fork(after_in_child=pipe.close)
    path, terms = pipe.recv()
    sys.path += [entry for entry in path if entry not in sys.path]  # for modules of the user
    os.nice(terms.niceness)
    if not terms.may_finish:
        _end_with_pipe(descriptor)
    host = _Host(terms)
    with suppress(EOFError, OSError):  # the main process is gone
        while not isinstance(answer := host.answer(pipe), _OutOfMemory):
            send(pipe, answer)
        send(pipe, answer)
    if terms.may_finish and host.object is not None:
        host.object.close()


class _Host:
    """The object of a worker process, and the limits of its calls."""

    def __init__(self, terms: Terms) -> None:
        self._terms, self.object = terms, None

    def answer(self, pipe: Connection) -> Any:
        """Receive a call, and return its result, or a Failure."""
        content, count = pipe.recv()
        buffers = [pipe.recv_bytes() for _ in range(count)]
        try:
            # Here, because the message may name modules that are missing.
            method, arguments = pickle.loads(content, buffers=buffers)
            if method == LOAD:
                self.object = arguments[0](*arguments[1:])
                _limit_memory(self._terms.memory)
                return None
            signal.setitimer(signal.ITIMER_PROF, self._terms.seconds)  # SIGPROF ends the process
            return getattr(self.object, method)(*arguments)
        except MemoryError as error:
            return _OutOfMemory() if self._terms.memory else Failure.of(error)
        except (Exception, SystemExit) as error:  # one that exits must not end the worker: others would, too
            return Failure.of(error)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def _limit_memory(size: int) -> None:
    """Limit the address space to so many bytes more than it has, where the system can do that; 0: do not."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415  (not on every system)

        # Libraries reserve address space that they may never use, so the limit is added to it.
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + size
        if size:
            resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _end_with_pipe(descriptor: int) -> None:
    """End this worker process, and those in its process group, as soon as the main process is gone."""
    closed = select.poll()
    closed.register(descriptor, 0)  # only the end of the pipe counts, not messages

    def wait() -> None:
        closed.poll()
        # A thread cannot end the process in order, and the user's code may catch any other signal.
        os.killpg(os.getpid(), signal.SIGKILL)

    Thread(target=wait, daemon=True).start()


class Background:
    """Base of objects that work in a thread of a worker: `report` is called until the work is over."""

    def __init__(self) -> None:
        self._over, self._stopping = Event(), Event()
        self._over.set()
        self._messages: deque[Any] = deque()

    def run(self, function: Callable[[], object]) -> None:
        """Call a function in a thread."""
        self._over.clear()
        self._stopping.clear()

        def call() -> None:
            try:
                function()
            finally:
                # Also after an error: otherwise no report would say that the work is over.
                self._over.set()

        Thread(target=call, daemon=True).start()

    def tell(self, message: object) -> None:
        """Keep a message for the next report."""
        self._messages.append(message)

    def wants_stop(self) -> bool:
        """Return whether the work is asked to end early."""
        return self._stopping.is_set()

    def report(self, seconds: float, stop: bool) -> tuple[list[Any], bool]:
        """Return the messages of the next seconds, and whether the work is over; with ``stop``, end it."""
        if stop:
            self._stopping.set()
        # Read before the messages, so that none is missed.
        over = self._over.wait(seconds)
        return [self._messages.popleft() for _ in range(len(self._messages))], over

    def close(self) -> None:
        """Ask the work to end early, and wait for that."""
        self._stopping.set()
        self._over.wait()
