"""AppProcess: calls of a ClientApp in a process of their own.

Global random generators, and Python itself, serve one call at a time in a process. With a process for every
worker the calls run side by side and give the same bits.
"""

from __future__ import annotations

import subprocess
import sys
import weakref
from multiprocessing.connection import Connection, Pipe
from typing import Any

from slotwise.aggregation import Vector
from slotwise.errors import UserError
from slotwise.learning.flower.app_call import AppCall, AppDescription, DeviceMetrics
from slotwise.learning.task import DeviceState, TrainingResult, TrainingStart

# The name of the module stays visible in the list of processes.
WORKER = "import sys; from slotwise.learning.flower.app_process import work; work(int(sys.argv[1]))"


class AppProcess:
    """An `AppCall` in another process, which ends with this object or with this process."""

    def __init__(self, description: AppDescription) -> None:
        """Start the process; it loads the app meanwhile."""
        self._label = description.label
        self._pipe, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", WORKER, str(theirs.fileno()), description.label],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C in a terminal is for the main process only
            )
        self._close = weakref.finalize(self, _end, self._pipe, self._process)
        self._pipe.send((sys.path, description))

    def train(self, model: Vector, start: TrainingStart) -> TrainingResult:
        """Train on one device."""
        # A mapping proxy cannot be sent to another process.
        result: TrainingResult = self._ask("train", model, start._replace(state=dict(start.state)))
        return result

    def evaluate(self, model: Vector, device: int, state: DeviceState) -> DeviceMetrics:
        """Evaluate on one device."""
        result: DeviceMetrics = self._ask("evaluate", model, device, dict(state))
        return result

    def close(self) -> None:
        """End the process now; otherwise it ends with this object."""
        self._close()

    def _ask(self, method: str, *arguments: object) -> Any:
        try:
            self._pipe.send((method, arguments))
            problem, result = self._pipe.recv()
        except (EOFError, OSError):
            code = self._process.wait()
            raise UserError(f"{self._label}: its worker process ended with code {code}") from None
        if problem is not None:
            raise UserError(problem)
        return result


def work(descriptor: int) -> None:
    """Answer calls that come through a pipe, in a worker process, until it is closed."""
    pipe = Connection(descriptor)
    path, description = pipe.recv()
    sys.path += [entry for entry in path if entry not in sys.path]  # for modules of the user
    call: AppCall | None = None
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            return
        problem, result = None, None
        try:
            call = call or AppCall(description)
            result = getattr(call, method)(*arguments)
            if isinstance(result, TrainingResult):
                result = result._replace(metrics=dict(result.metrics), state=dict(result.state))
        except UserError as error:
            problem = str(error)
        pipe.send((problem, result))


def _end(pipe: Connection, process: subprocess.Popen[bytes]) -> None:
    pipe.close()
    process.kill()
    process.wait()
