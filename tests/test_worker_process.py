"""WorkerProcess: a process that ends with its pipe, and nothing of it stays behind."""

import os
import signal
import subprocess
import sys
import textwrap
from multiprocessing.connection import Connection, wait
from pathlib import Path

import pytest

from slotwise import worker_process
from slotwise.worker_process import WorkerProcess

SECONDS = 60

MODULE = """
import os, signal, subprocess, sys, time
from slotwise.worker_process import end_with_pipe, open_pipe


def work(descriptor):
    pipe = open_pipe(descriptor)
    command, *arguments = pipe.recv()
    if command == "end with pipe":
        end_with_pipe(descriptor)
        command = "hang"
    if command == "exit":
        print("some text\\n\\nthe last line\\n")
        sys.exit(int(arguments[0]))
    if command == "kill":
        os.kill(os.getpid(), int(arguments[0]))
    if command == "hide":
        os.close(descriptor)
        time.sleep(1000)
    if command == "child":  # one that does not end, as those of a data loader
        child = os.fork()
        if child == 0:
            time.sleep(1000)
        pipe.send(child)
        os.kill(os.getpid(), signal.SIGKILL) if arguments else time.sleep(1000)
    if command == "hang":
        pipe.send(os.getpid())
        while True:
            pass
    pipe.send(command)
"""


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Starts a process that does one thing."""
    (tmp_path / "doing.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    processes: list[WorkerProcess] = []

    def start(*command: str) -> WorkerProcess:
        process = WorkerProcess("doing", "shown")
        processes.append(process)
        process.pipe.send(command)
        return process

    yield start
    for process in processes:
        process.close()


def received(pipe: Connection) -> object:
    assert pipe.poll(SECONDS)
    return pipe.recv()


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


def test_messages_go_both_ways(started) -> None:
    assert received(started("hello").pipe) == "hello"


def test_ctrl_c_does_not_reach_a_process_and_the_niceness_of_its_session_does(started) -> None:
    pid = received(started("hang").pipe)
    assert isinstance(pid, int)
    assert os.getpgid(pid) == pid != os.getpgid(0)  # a terminal signals the process group in its foreground
    assert os.getsid(pid) == os.getsid(0)  # Linux shares the processor between sessions


@pytest.mark.parametrize(
    ("command", "failed", "reason"),
    [
        (("exit", "0"), False, "its process ended: the last line"),
        (("exit", "3"), True, "its process ended: the last line"),
        (("kill", str(int(signal.SIGKILL))), False, "its process was ended by SIGKILL"),
        (("kill", "40"), False, "its process was ended by signal 40"),  # one without a name
    ],
)
def test_the_end_of_a_process_is_described(started, command, failed: bool, reason: str) -> None:
    process = started(*command)
    with pytest.raises((EOFError, OSError)):
        received(process.pipe)
    assert process.death() == (failed, reason)
    process.close()  # once more does nothing


def test_a_process_that_only_closes_its_pipe_is_ended(started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "ENDING_TIMEOUT", 0.01)
    process = started("hide")
    with pytest.raises((EOFError, OSError)):
        received(process.pipe)
    failed, reason = process.death()
    assert not failed
    assert "closed the pipe" in reason
    assert process._process.returncode == -signal.SIGKILL


def test_the_pipe_ends_with_the_process_although_a_child_of_it_lives(started) -> None:
    process = started("child", "and die")
    child = received(process.pipe)
    with pytest.raises((EOFError, OSError)):
        received(process.pipe)
    os.kill(child, signal.SIGKILL)


def test_children_of_a_process_are_killed_with_it(started) -> None:
    process = started("child")
    child = received(process.pipe)
    process.close()
    await_end(child)


def test_a_process_that_computes_ends_when_the_main_process_is_killed(tmp_path: Path) -> None:
    (tmp_path / "doing.py").write_text(MODULE)
    main = """
        import sys
        from slotwise.worker_process import WorkerProcess
        process = WorkerProcess("doing")
        process.pipe.send(["end with pipe"])
        print(process.pipe.recv(), flush=True)
        sys.stdin.read()
    """
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(main)],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        worker = int(running.stdout.readline())
        running.kill()
    await_end(worker)


def test_a_process_that_cannot_be_started_leaves_no_file_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    before = set(Path("/proc/self/fd").iterdir())
    monkeypatch.setattr(worker_process.subprocess, "Popen", refuse)
    with pytest.raises(BlockingIOError):
        WorkerProcess("doing")
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_no_file_stays_open_after_the_end(started) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    process = started("hello")
    received(process.pipe)
    process.close()
    assert set(Path("/proc/self/fd").iterdir()) == before
