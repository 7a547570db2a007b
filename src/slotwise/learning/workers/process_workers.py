"""ProcessWorkers: local trainings in processes of this machine, for tasks that hold the interpreter lock.

The task is pickled once; its large arrays are put into a file without a name, in memory where the system has
such files, that all processes map. Models and updates go through pipes.
"""

from __future__ import annotations

import mmap
import pickle
import tempfile
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from slotwise.aggregation import Vector
from slotwise.errors import UserError
from slotwise.extras import require
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.task import DeviceState, Evaluation
from slotwise.learning.workers.remote_workers import RemoteWorkers, WorkerLost
from slotwise.learning.workers.task_worker import Failure, TaskWorker, cannot_be_sent, checked
from slotwise.learning.workers.worker_protocol import Job, Trained, Workers
from slotwise.machine import refuse_too_many_processes
from slotwise.scenario import whole
from slotwise.user_code import describe_error
from slotwise.worker_process import WorkerProcess, end_with_pipe, open_pipe

LARGE = 1 << 16  # bytes of an array that is mapped
ALIGNMENT = 64  # bytes, as of the memory that torch and numpy allocate
MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Processes:
    """Compute local trainings in processes of this machine.

    They start in a second or so, and each has its own interpreter lock: for tasks that are written in Python
    rather than in numpy, PyTorch or numba. The task must be one that can be pickled.

    Attributes:
        count: Local trainings at a time.
    """

    count: int

    def __post_init__(self) -> None:
        refuse_too_many_processes("workers", whole("workers", self.count))

    def __call__(self, task: CheckedTask) -> Workers:
        """Start the processes; raise a UserError if the task cannot be sent to them."""
        return ProcessWorkers(task, self.count)


class ProcessWorkers(RemoteWorkers):
    """Processes of this machine."""

    def __init__(self, task: CheckedTask, count: int) -> None:
        refuse_too_many_processes("workers", count)
        # First, because the threads that `RemoteWorkers` starts need it at once.
        self._shared = SharedTask(task)
        super().__init__(task, count)

    def start_worker(self) -> _Process:
        """Start a process, which gets the task when it loads it."""
        return _Process(self._shared)

    def drop(self, rounds: Collection[int]) -> None:
        """Let processes forget these models with the next work that they get."""
        # A copy, because the threads of the workers change the list.
        for worker in tuple(self._workers):
            assert isinstance(worker, _Process)
            worker.drop(rounds)

    def close(self) -> None:
        """End the processes, and free the memory of the task."""
        super().close()
        self._shared.close()


class Work(NamedTuple):
    """A message to a worker process: trainings, or an evaluation of ``model``."""

    starts: Sequence[Any]
    models: Mapping[int, Vector]
    dropped: Sequence[int]
    model: Vector | None = None
    states: Mapping[int, DeviceState] | None = None


class _Process:
    """The end of the pipe to one process, in the main process."""

    def __init__(self, task: SharedTask) -> None:
        self._task = task
        self._process = WorkerProcess(__name__, task.name, files=[task.file.fileno()])
        self._pipe = self._process.pipe
        self._sent: set[int] = set()
        self._dropped: deque[int] = deque()  # filled by another thread

    def load(self) -> None:
        problem = self._ask(self._task.file.fileno(), self._task.pickled, self._task.sizes)
        if isinstance(problem, Failure):
            raise problem.error()

    def train(self, jobs: Sequence[Job]) -> Trained:
        # As many as there are now: the thread of the engine may append more meanwhile.
        dropped = [self._dropped.popleft() for _ in range(len(self._dropped))]
        self._sent.difference_update(dropped)
        new = {job.start.round: job.model for job in jobs if job.start.round not in self._sent}
        self._sent.update(new)
        answer = checked(self._ask(Work([job.start for job in jobs], new, dropped)))
        assert isinstance(answer, Trained)
        return answer

    def evaluate(self, round_number: int, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:
        del round_number
        answer = checked(self._ask(Work((), {}, (), model, states)))
        assert isinstance(answer, Evaluation)
        return answer

    def drop(self, rounds: Collection[int]) -> None:
        self._dropped.extend(number for number in rounds if number in self._sent)

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.close()

    def _ask(self, *message: Any) -> Any:
        try:
            send(self._pipe, message)
            return receive(self._pipe)
        except (EOFError, OSError):
            _, reason = self._process.death()
            raise WorkerLost(reason) from None


class SharedTask:
    """A pickled task: its large arrays in an open file, and the rest as bytes."""

    def __init__(self, task: CheckedTask) -> None:
        require("cloudpickle")
        self.name, large = task.name, list[pickle.PickleBuffer]()

        def is_small(buffer: pickle.PickleBuffer) -> bool:
            # Pickle leaves a buffer in its bytes if this returns true.
            if buffer.raw().nbytes < LARGE:
                return True
            large.append(buffer)
            return False

        try:
            # Classes and functions of a notebook or a script are pickled by value.
            self.pickled: bytes = import_module("cloudpickle").dumps(task, buffer_callback=is_small)
        except Exception as error:
            raise cannot_be_sent(task, error) from error
        self.sizes = [buffer.raw().nbytes for buffer in large]
        # The memory for such files may be small, as in a container.
        for place in (MEMORY, None) if MEMORY.is_dir() else (None,):
            self.file = tempfile.TemporaryFile(dir=place)  # noqa: SIM115
            try:
                self._write(large)
                return
            except OSError as error:
                self.file.close()
                problem = error
        raise UserError(f"task {task.name}: no room for its arrays: {problem.strerror}") from problem

    def _write(self, buffers: Sequence[pickle.PickleBuffer]) -> None:
        for buffer, (start, _) in zip(buffers, _places(self.sizes), strict=True):
            self.file.seek(start)
            self.file.write(buffer.raw())
        self.file.flush()

    def close(self) -> None:
        """Give the memory back once the processes have ended."""
        self.file.close()


def _places(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Return where in a file arrays of these sizes begin and end."""
    end = 0
    for size in sizes:
        start = -(-end // ALIGNMENT) * ALIGNMENT
        end = start + size
        yield start, end


def _load_task(descriptor: int, pickled: bytes, sizes: Sequence[int]) -> CheckedTask:
    """Return the task of a `SharedTask` in a worker process; its large arrays are read-only."""
    buffers: list[memoryview] = []
    # An empty file cannot be mapped.
    if sizes:
        mapped = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
        buffers = [mapped[start:end] for start, end in _places(sizes)]
    task: CheckedTask = pickle.loads(pickled, buffers=buffers)
    return task


def send(pipe: Connection, message: object) -> None:
    """Send a message; arrays are not copied into the pickled bytes."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    pipe.send((pickled, len(buffers)))
    for buffer in buffers:
        pipe.send_bytes(buffer.raw())


def receive(pipe: Connection) -> Any:
    """Return a message that `send` has sent."""
    pickled, count = pipe.recv()
    # Arrays use the received bytes without a copy, so they are read-only.
    return pickle.loads(pickled, buffers=[pipe.recv_bytes() for _ in range(count)])


def work(descriptor: int) -> None:
    """Train and evaluate as messages from a pipe say, in a worker process, until it is closed."""
    pipe = open_pipe(descriptor)
    end_with_pipe(descriptor)
    try:
        worker = TaskWorker(_load_task(*receive(pipe)))
    except (Exception, SystemExit) as error:  # a module of the user's may call sys.exit
        send(pipe, Failure(f"a worker process cannot load the task: {describe_error(error)}"))
        return
    send(pipe, None)
    models: dict[int, Vector] = {}
    while True:
        try:
            (message,) = receive(pipe)
        except EOFError:
            return
        # Drop before adding, as `_Process.train` does: a model that is sent again has to stay.
        for number in message.dropped:
            models.pop(number, None)
        models.update(message.models)
        if message.model is None:
            send(pipe, worker.train(message.starts, models))
        else:
            send(pipe, worker.evaluate(message.model, message.states))
