"""WorkerProcess: a Python process that runs a function of slotwise, and a pipe to it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from signal import Signals
from typing import IO

# One thread per local training is what slotwise decides; libraries must not add their own.
LIBRARY_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# The name of the module stays visible in the list of processes.
WORKER = "import sys; from {0} import work; work(int(sys.argv[1]))"


class WorkerProcess:
    """A process that calls ``work(descriptor)`` of a module, and the pipe whose other end that is.

    The pipe is closed when this process is gone, however that ended; the function should return then. The
    first message that it receives is the search path of this process, see `open_pipe`.
    """

    def __init__(self, module: str, *shown: str, files: Sequence[int] = ()) -> None:
        """Start the process, with ``shown`` in its command line and with these open files."""
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self.pipe, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", WORKER.format(module), str(theirs.fileno()), *shown],
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                pass_fds=[theirs.fileno(), *files],
                env={**os.environ, **dict.fromkeys(LIBRARY_THREADS, "1")},
                start_new_session=True,  # Ctrl-C in a terminal is for the main process only
            )
        with suppress(OSError):  # it has died; who receives finds out
            self.pipe.send(sys.path)

    def death(self) -> tuple[bool, str]:
        """Wait for the end of the process; return whether it failed by itself, and how it ended."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        error = next((line.strip() for line in reversed(lines) if line.strip()), "no message")
        self.kill()
        if code < 0:
            return False, f"its process was ended by {Signals(-code).name}"
        return code > 0, f"its process ended: {error}"

    def kill(self) -> None:
        """End the process now."""
        self._process.kill()
        self._process.wait()
        self.pipe.close()
        self._errors.close()


def open_pipe(descriptor: int) -> Connection:
    """Return the pipe to the main process, in a worker process; its modules can be imported then."""
    pipe = Connection(descriptor)
    sys.path += [entry for entry in pipe.recv() if entry not in sys.path]  # for modules of the user
    return pipe
