"""WorkerProcess: a Python process that runs a function of slotwise, and a pipe to it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from signal import SIGKILL, Signals
from threading import Thread
from typing import IO

# One thread per local training is what slotwise decides; libraries must not add their own.
LIBRARY_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# The name of the module stays visible in the list of processes.
WORKER = "import sys; from {0} import work; work(int(sys.argv[1]))"
ENDING_TIMEOUT = 10.0  # seconds that a process may take to end after its pipe
SHOWN_BYTES = 1 << 14  # of its output, at most


class WorkerProcess:
    """A process that calls ``work(descriptor)`` of a module, and the pipe whose other end that is.

    The pipe is closed when this process is gone, however that ended; the function should return then. The
    first message that it receives is the search path of this process, see `open_pipe`.
    """

    def __init__(self, module: str, *shown: str, files: Sequence[int] = ()) -> None:
        """Start the process, with ``shown`` in its command line and with these open files."""
        # A file and not a pipe: nobody reads while the process runs, and a full pipe would block it.
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self.pipe, theirs = Pipe()
        try:
            # The copy of this process is closed, so that the pipe ends when the worker does.
            with theirs:
                self._process = subprocess.Popen(
                    # -P keeps the current folder off the search path, which `open_pipe` extends instead.
                    [sys.executable, "-P", "-c", WORKER.format(module), str(theirs.fileno()), *shown],
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
        with suppress(OSError):  # it has died; who receives finds out
            self.pipe.send(sys.path)

    def death(self) -> tuple[bool, str]:
        """Close a process whose pipe has ended; return whether it failed by itself, and how it ended."""
        try:
            code = self._process.wait(ENDING_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.close()
            return False, "its process has closed the pipe to this one"
        self._errors.seek(max(0, os.fstat(self._errors.fileno()).st_size - SHOWN_BYTES))
        lines = self._errors.read().decode(errors="replace").split("\n")
        error = next((line.strip() for line in reversed(lines) if line.strip()), "no message")
        self.close()
        if code < 0:
            known = -code in set(Signals)
            return False, f"its process was ended by {Signals(-code).name if known else f'signal {-code}'}"
        return code > 0, f"its process ended: {error}"

    def kill(self) -> None:
        """End the process now, if it runs, and those in its process group; the pipe stays open.

        It leads a group of its own, which has the processes that it has started, except those that have left
        it, as with setsid. Those that outlive the process are not ended here.
        """
        # Not after its end: its number may belong to another process by then.
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, SIGKILL)

    def close(self) -> None:
        """End the process now and close the pipe."""
        self.kill()
        self._process.wait()
        self._free()

    def _free(self) -> None:
        self.pipe.close()
        self._errors.close()


def open_pipe(descriptor: int) -> Connection:
    """Return the pipe to the main process, in a worker process; its modules can be imported then."""
    pipe = Connection(descriptor)
    # A process that a task forks, as data loaders do, must not keep the pipe open when this one is killed.
    os.register_at_fork(after_in_child=pipe.close)
    sys.path += [entry for entry in pipe.recv() if entry not in sys.path]  # for modules of the user
    return pipe


def end_with_pipe(descriptor: int) -> None:
    """End this worker process, and those in its process group, as soon as the main process is gone."""
    closed = select.poll()
    closed.register(descriptor, 0)  # only the end of the pipe counts, not messages

    def wait() -> None:
        closed.poll()
        # A thread cannot end the process in order, and the user's code may catch any other signal.
        os.killpg(os.getpid(), SIGKILL)

    Thread(target=wait, daemon=True).start()
