"""ProcessWorker: an object in a process that ends with its pipe, and nothing of it stays behind."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.base.errors import UserError
from slotwise.workers import Background, ProcessWorker, Terms, WorkerLost, process
from slotwise.workers.process import receive, send, work

SECONDS = 60

MODULE = """
import os, signal, sys, time


class Doing:
    def __init__(self, *arguments):
        self.arguments = arguments
        if arguments and isinstance(arguments[0], BaseException):
            raise arguments[0]

    def hello(self):
        return os.getpid(), self.arguments

    def fail(self):
        raise ZeroDivisionError("no samples")

    def exit(self, code):
        print("some text\\n\\nthe last line\\n", flush=True)
        os._exit(code)

    def leave(self):
        sys.exit(3)

    def kill(self, number):
        os.kill(os.getpid(), number)

    def hide(self, descriptor):
        os.close(descriptor)
        time.sleep(1000)

    def child(self):  # one that does not end, as those of a data loader
        child = os.fork()
        if child == 0:
            time.sleep(1000)
        return child

    def compute(self):
        while True:
            pass

    def need(self, size):
        return len(bytearray(size))

    def close(self):
        with open(self.arguments[0], "w") as file:
            file.write("closed")
"""


@pytest.fixture
def doing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type]:
    """The class of the objects, which only the search path of this process leads to."""
    (tmp_path / "doing.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("doing").Doing
    del sys.modules["doing"]


Start = Callable[..., ProcessWorker]


@pytest.fixture
def started(doing: type) -> Iterator[Start]:
    """Starts and loads a worker."""
    workers: list[ProcessWorker] = []

    def start(*arguments: object, terms: Terms = Terms()) -> ProcessWorker:  # noqa: B008
        workers.append(ProcessWorker(doing, *arguments, shown="some work", terms=terms))
        workers[-1].load()
        return workers[-1]

    yield start
    for worker in workers:
        worker.close()


def await_end(pid: int) -> None:
    """Wait for the end of a process that is not a child of this one."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert wait([descriptor], SECONDS)
    finally:
        os.close(descriptor)


def open_files() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


def test_methods_of_the_object_are_called_in_the_process(started: Start) -> None:
    worker = started("one", 2)
    pid, arguments = worker.call("hello")
    assert pid != os.getpid()
    assert arguments == ("one", 2)
    assert "some work" in Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    # A terminal signals the process group in its foreground; Linux shares the processor between sessions.
    assert os.getpgid(pid) == pid != os.getpgid(0)
    assert os.getsid(pid) == os.getsid(0)


def test_an_error_of_a_method_is_one_line_with_its_trace_and_ends_no_process(started: Start) -> None:
    worker = started()
    for method, message in (("fail", "ZeroDivisionError: no samples"), ("leave", "SystemExit: 3")):
        with pytest.raises(UserError, match=message) as raised:
            worker.call(method)
        assert "\n" not in str(raised.value)
        assert "doing.py" in raised.value.__notes__[0]
    assert worker.call("hello")


@pytest.mark.parametrize("error", [ModuleNotFoundError("gpu_layers"), SystemExit("no GPU")])
def test_an_object_that_cannot_be_made_is_an_error(started: Start, error: BaseException) -> None:
    with pytest.raises(UserError, match=str(error)):
        started(error)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (("exit", 0), "its process ended: the last line"),
        (("exit", 3), "its process ended: the last line"),
        (("kill", int(signal.SIGKILL)), "its process was ended by SIGKILL"),
        (("kill", 40), "its process was ended by signal 40"),  # one without a name
    ],
)
def test_the_end_of_a_process_is_described(started: Start, call: tuple[Any, ...], reason: str) -> None:
    worker = started()
    for _ in range(2):  # it stays as it is
        with pytest.raises(WorkerLost, match=reason if _ == 0 else "ended") as lost:
            worker.call(*call)
        assert lost.value.limit is None
    worker.close()  # once more does nothing


def test_a_process_that_only_closes_its_pipe_is_ended(started: Start, monkeypatch) -> None:
    monkeypatch.setattr(process, "ENDING_TIMEOUT", 0.01)
    worker = started(terms=Terms(may_finish=True))
    descriptor = worker._process.args[4]  # type: ignore[index]
    with pytest.raises(WorkerLost, match="closed the pipe"):
        worker.call("hide", int(descriptor))
    assert worker._process.returncode == -signal.SIGKILL


def test_the_pipe_ends_with_the_process_although_a_child_of_it_lives(started: Start) -> None:
    worker = started()
    child = worker.call("child")
    with pytest.raises(WorkerLost, match="SIGKILL"):
        worker.call("kill", int(signal.SIGKILL))
    os.kill(child, signal.SIGKILL)


def test_children_of_a_process_are_killed_with_it(started: Start) -> None:
    worker = started()
    child = worker.call("child")
    worker.close()
    await_end(child)


def test_a_call_ends_when_the_worker_is_killed(started: Start) -> None:
    worker = started()
    timer = threading.Timer(0.1, worker.kill)
    timer.start()
    with pytest.raises(WorkerLost, match="SIGKILL"):
        worker.call("compute")
    timer.join()


def test_a_call_that_takes_too_long_or_too_much_memory_ends_the_process(started: Start) -> None:
    worker = started(terms=Terms(seconds=0.2))
    assert worker.call("hello")
    with pytest.raises(WorkerLost) as lost:
        worker.call("compute")
    assert lost.value.limit == "seconds"
    worker = started(terms=Terms(memory=64 << 20))
    assert worker.call("need", 1 << 20) == 1 << 20
    with pytest.raises(WorkerLost) as lost:
        worker.call("need", 1 << 30)
    assert lost.value.limit == "memory"
    assert worker._process.wait(SECONDS) == 0


@pytest.mark.parametrize("may_finish", [False, True])
def test_a_process_ends_when_the_main_process_is_killed(
    tmp_path: Path, doing: type, may_finish: bool
) -> None:
    main = f"""
        import sys
        sys.path.append({str(tmp_path)!r})
        from doing import Doing
        from slotwise.workers import ProcessWorker, Terms
        worker = ProcessWorker(Doing, {str(tmp_path / "mark")!r}, terms=Terms(may_finish={may_finish}))
        worker.load()
        print(worker.call("hello")[0], flush=True)
        worker.call("{"hello" if may_finish else "compute"}")
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(main)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        running.kill()
    await_end(pid)
    assert (tmp_path / "mark").exists() == may_finish


def test_no_file_stays_open_after_the_end_or_without_a_start(started: Start, monkeypatch) -> None:
    before = open_files()
    started().close()
    assert open_files() == before

    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(process.subprocess, "Popen", refuse)
    with pytest.raises(BlockingIOError):
        started()
    assert open_files() == before


def test_messages_of_any_size_arrive_with_their_arrays() -> None:
    ours, theirs = Pipe()
    message = ({"a": np.arange(5, dtype=np.float32)}, np.zeros((0, 3)), "text", os.getpid())
    send(ours, message)
    found = receive(theirs)
    assert found[0]["a"].tolist() == [0, 1, 2, 3, 4]
    assert (found[1].shape, *found[2:]) == ((0, 3), "text", os.getpid())


class Counted(Background):
    """Counts to a number in the background, or until it is stopped."""

    def begin(self, end: float) -> None:
        self.run(lambda: self._count(end))

    def _count(self, end: float) -> None:
        number = 0
        while number < end and not self.wants_stop():
            self.tell(number)
            number += 1
            self._stopping.wait(0.001)


def test_the_loop_of_a_process_serves_calls_in_order_until_the_pipe_ends(monkeypatch) -> None:
    monkeypatch.setattr(os, "register_at_fork", lambda **_: None)
    ours, theirs = Pipe()
    thread = threading.Thread(target=work, args=[os.dup(theirs.fileno())])
    theirs.close()
    thread.start()
    with ours:
        ours.send((sys.path, Terms(may_finish=True)))
        for call, answer in ((("", (Counted,)), None), (("begin", (3,)), None)):
            send(ours, call)
            assert receive(ours) == answer
        send(ours, ("report", (SECONDS, False)))
        assert receive(ours) == ([0, 1, 2], True)
        send(ours, ("begin", (float("inf"),)))  # `close` ends it with the pipe
        assert receive(ours) is None
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_work_in_the_background_is_stopped_by_a_report() -> None:
    worker = Counted()
    worker.begin(float("inf"))
    numbers, over = worker.report(0.05, False)
    assert not over
    more, over = worker.report(SECONDS, True)
    assert over
    assert [*numbers, *more] == list(range(len(numbers) + len(more)))
