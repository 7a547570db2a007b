"""Real worker processes: their results, and what happens if one is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from slotwise.batch import (
    BatchFolder,
    BatchSpec,
    Job,
    JobProgress,
    ProcessExecutor,
    Run,
    processes,
    run_jobs,
    unfinished,
)
from slotwise.batch.job import BatchObserver
from slotwise.errors import UserError
from slotwise.runs import RunConfig, RunFolder

Read = Callable[[str], BatchSpec]
LongRuns = tuple[Path, dict[str, tuple[str, bytes]]]
TIMEOUT = 120.0  # seconds, on a machine that others use too


@pytest.fixture
def folder(tmp_path: Path) -> BatchFolder:
    return BatchFolder(tmp_path / "out")


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def workers(folder: BatchFolder) -> list[int]:
    """The processes at work in a folder, whoever their parent is; one that has ended has no command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if any("slotwise.batch.processes" in word for word in words) and str(folder.path) in words:
            found.append(int(process.name))
    return found


def saved(folder: BatchFolder) -> set[str]:
    """The points that have a checkpoint to go on from."""
    return {path.parents[1].name for path in folder.runs.glob("*/checkpoints/*.checkpoint")}


class Beginnings(BatchObserver):
    """With how many rounds done each point began, the last time it did."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}
        self.active: set[str] = set()

    def job_started(self, job: Job) -> None:
        self.active.add(job.run.name)
        self.done.pop(job.run.name, None)

    def job_progress(self, job: Job, progress: JobProgress) -> None:
        self.done.setdefault(job.run.name, progress.done)

    def job_ended(self, job: Job, reason: str | None) -> None:
        self.active.remove(job.run.name)


class KillsOnce(Beginnings):
    """Kills one process of the pool as soon as there are two and each has saved something of its point."""

    def __init__(self, folder: BatchFolder) -> None:
        super().__init__()
        self.folder, self.killed = folder, False
        self.losses: list[tuple[str, str]] = []

    def job_retried(self, job: Job, reason: str) -> None:
        self.active.remove(job.run.name)
        self.losses.append((job.run.name, reason))

    def wants_stop(self) -> bool:
        if not self.killed and len(self.active) >= 2 and self.active <= saved(self.folder):
            self.killed = True
            os.kill(workers(self.folder)[0], signal.SIGKILL)
        return False


@pytest.mark.slow
def test_a_process_that_is_killed_costs_nothing_but_time(
    long_runs: LongRuns, folder: BatchFolder, outcome
) -> None:
    grid, expected = long_runs
    observer = KillsOnce(folder)
    jobs = unfinished(folder, BatchSpec.read(grid).runs)
    assert run_jobs(folder, jobs, ProcessExecutor(2), observer, checkpoint_every=0.1) == ()
    ((name, reason),) = observer.losses
    assert reason == "its process was ended by SIGKILL"
    assert observer.done[name] > 0
    assert outcome(folder) == expected
    assert workers(folder) == []


def command(grid: Path, out: Path) -> subprocess.Popen[str]:
    arguments = ["sweep", str(grid), "--out", str(out), "--workers", "2", "--checkpoint-every", "0.1"]
    return subprocess.Popen(
        [sys.executable, "-c", "from slotwise.cli import main; main()", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_sweep_that_is_killed_leaves_nobody_at_work_and_goes_on(
    long_runs: LongRuns, folder: BatchFolder, outcome
) -> None:
    grid, expected = long_runs
    killed = command(grid, folder.path)
    until(lambda: len(saved(folder)) >= 2)
    assert workers(folder)
    killed.kill()
    killed.communicate(timeout=TIMEOUT)
    until(lambda: not workers(folder))
    jobs, beginnings = unfinished(folder, BatchSpec.read(grid).runs), Beginnings()
    begun = {job.run.name for job in jobs} & saved(folder)
    assert begun
    assert run_jobs(folder, jobs, ProcessExecutor(2), beginnings, checkpoint_every=0.1) == ()
    assert all(beginnings.done[name] > 0 for name in begun)
    again = command(grid, folder.path)
    _, err = again.communicate(timeout=TIMEOUT)
    assert again.returncode == 0, err
    assert outcome(folder) == expected


@pytest.mark.slow
def test_ctrl_c_ends_with_checkpoints_and_a_hint(read: Read, folder: BatchFolder, tmp_path: Path) -> None:
    spec = read("deadline = 100_000\nevaluate-every = 50_000\nlearning-rate = [0.01, 0.02]")
    running = command(tmp_path / "grid.toml", folder.path)
    until(lambda: len(saved(folder)) == 2)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=TIMEOUT)
    assert running.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert [RunFolder.open(folder.run(run.name).path).status for run in spec.runs] == ["interrupted"] * 2
    assert workers(folder) == []


def jobs(count: int) -> list[Job]:
    return [Job(Run(f"seed={seed}", RunConfig().with_options(seed=seed)), 1.0) for seed in range(count)]


@pytest.mark.parametrize(
    ("cores", "count", "threads"),
    [(2, 8, [1, 1]), (4, 2, [2, 2]), (3, 2, [2, 1]), (8, 3, [3, 3, 2]), (4, 1, [4]), (1, 5, [1])],
)
def test_jobs_share_the_cores_and_never_have_more_threads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cores: int, count: int, threads: list[int]
) -> None:
    given: list[Recording] = []

    def start_worker(folder: BatchFolder, checkpoint_every: float) -> Recording:
        given.append(Recording())
        return given[-1]

    monkeypatch.setattr(processes, "_Worker", start_worker)
    executor, waiting = ProcessExecutor(cores), jobs(count)
    executor.open(BatchFolder(tmp_path), count, 1.0, BatchObserver())
    while waiting and executor.submit(waiting[0], len(waiting)):
        waiting.pop(0)
    assert [worker.threads for worker in given] == threads
    executor.close()


class Recording:
    """Stands for a worker, and records what it is given."""

    job: Job | None = None
    threads = 0

    def send(self, message: object) -> None:
        assert message == (self.job, self.threads)

    def kill(self) -> None:
        pass


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Puts a shell script in the place of the workers' Python."""

    def write(text: str) -> None:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return write


def test_workers_that_cannot_start_say_why(program: Callable[[str], None], folder: BatchFolder) -> None:
    program("echo 'no module named numpy' >&2\nexit 1")
    with pytest.raises(UserError, match="no module named numpy"):
        run_jobs(folder, jobs(2), ProcessExecutor(2))


def test_libraries_have_one_thread_in_each_worker(
    program: Callable[[str], None], folder: BatchFolder
) -> None:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    program(f"echo {' '.join(f'${name}' for name in names)} >&2\nexit 1")
    with pytest.raises(UserError, match=r"1 1 1 1$"):
        run_jobs(folder, jobs(1), ProcessExecutor(2))


def test_a_job_whose_workers_die_twice_fails_and_the_others_finish(
    read: Read, folder: BatchFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deadly_task.py").write_text(DEADLY)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])  # as where a script of the user is
    text = "devices = 4\ngroup_size = 2\ncompute-slots = 4\ndeadline = 60\ntask = 'deadly_task:make_task'\n"
    (tmp_path / "own.toml").write_text(f"{text}learning-rate = [0.1, 0.2, 0.3]\n")
    runs = BatchSpec.read(tmp_path / "own.toml").runs
    (failure,) = run_jobs(folder, unfinished(folder, runs), ProcessExecutor(2))
    assert failure.run.name == "learning-rate=0.2,seed=0"
    assert failure.reason == "its process was ended by SIGKILL, 2 times"
    others = [run for run in runs if run != failure.run]
    assert [folder.run(run.name).status for run in others] == ["finished", "finished"]
    assert not folder.run(failure.run.name).path.exists()


DEADLY = """
import os, signal
import numpy as np

class Deadly:
    def __init__(self, rate):
        self.rate = rate
    def initial_model(self):
        return np.ones(3, dtype=np.float32)
    def local_update(self, model, start):
        if self.rate == 0.2:
            os.kill(os.getpid(), signal.SIGKILL)
        return model / 2
    def evaluate(self, model):
        return 1.0, 0.5
    def named_arrays(self, model):
        return {"model": model}

def make_task(config):
    return Deadly(config.training.learning_rate)
"""


@pytest.fixture
def worker(folder: BatchFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Connection, Thread]]:
    """The pipe to a worker, and the thread that it is here; it has the folder and has started."""
    monkeypatch.setattr(os, "register_at_fork", lambda **_: None)
    ours, theirs = Pipe()
    thread = Thread(target=processes.work, args=[os.dup(theirs.fileno())])
    theirs.close()
    thread.start()
    with ours:
        for message in (sys.path, (folder, 1000.0)):
            ours.send(message)
        assert ours.recv() is None
        yield ours, thread
    thread.join(TIMEOUT)
    assert not thread.is_alive()


def reported(pipe: Connection) -> tuple[list[JobProgress], str | None]:
    """The progress of the job that a worker trains, and the reason if it fails."""
    progress = []
    while isinstance(message := pipe.recv(), JobProgress):
        progress.append(message)
    (reason,) = message
    return progress, reason


def test_a_worker_trains_jobs_until_it_is_told_to_stop(
    worker: tuple[Connection, Thread], folder: BatchFolder, read: Read, outcome
) -> None:
    pipe, thread = worker
    first, second = unfinished(folder, read("learning-rate = [0.01, 0.02]").runs)
    for job in (first, second):
        pipe.send((job, 1))
        progress, reason = reported(pipe)
        assert reason is None
        assert progress[-1].done == progress[-1].rounds
    assert set(outcome(folder)) == {first.run.name, second.run.name}
    pipe.send(None)
    thread.join(TIMEOUT)
    assert not thread.is_alive()


def test_a_worker_waits_for_a_predecessor_that_still_saves_the_run(
    worker: tuple[Connection, Thread],
    folder: BatchFolder,
    read: Read,
    outcome,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipe, _ = worker
    (job,) = unfinished(folder, read("learning-rate = [0.01]").runs)
    run = RunFolder.create(folder.run(job.run.name).path, job.run.config)
    predecessor = run.held()
    predecessor.__enter__()
    waited = []

    def end_predecessor(seconds: float) -> None:
        waited.append(seconds)
        predecessor.__exit__(None, None, None)

    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=time.monotonic, sleep=end_predecessor))
    pipe.send((job, 1))
    assert reported(pipe)[1] is None
    assert len(waited) == 1
    assert set(outcome(folder)) == {job.run.name}


def test_a_late_message_about_a_job_that_has_ended_is_ignored(
    folder: BatchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = Pipe()
    monkeypatch.setattr(processes, "WorkerProcess", lambda *_: SimpleNamespace(pipe=here, close=here.close))
    executor, observer = ProcessExecutor(1), Beginnings()
    executor.open(folder, 1, 1.0, observer)
    job = Job(Run("one", RunConfig()))
    assert executor.submit(job, 1)
    there.send((None,))
    assert [end.job for end in executor.wait(TIMEOUT)] == [job]
    for late in (JobProgress(3, 5), ("failed",)):
        there.send(late)
        assert executor.wait(TIMEOUT) == []
    assert observer.done == {}
    assert executor.submit(job, 1)
    executor.close()
    there.close()
