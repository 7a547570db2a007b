"""Jobs in real worker processes: their results, and what happens if one is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slotwise.base.errors import UserError
from slotwise.batch import (
    BatchFolder,
    BatchSpec,
    Job,
    JobProgress,
    ProcessExecutor,
    Run,
    run_jobs,
    unfinished,
)
from slotwise.batch.job import BatchObserver
from slotwise.batch.job_worker import Assignment
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
        if any("slotwise.workers" in word for word in words) and str(folder.path) in words:
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
    """Kills one process as soon as two are at work and each has saved something of its point."""

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
    [(2, 4, [1] * 4), (4, 2, [2, 2]), (3, 2, [2, 1]), (8, 3, [3, 3, 2]), (4, 1, [4]), (1, 3, [1] * 3)],
)
def test_jobs_share_the_cores_and_never_have_more_threads(cores: int, count: int, threads: list[int]) -> None:
    assert ProcessExecutor(cores).divide(count) == (cores, threads)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Puts a shell script in the place of the workers' Python."""

    def write(text: str) -> None:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return write


def test_workers_that_cannot_start_say_why_and_libraries_have_one_thread(
    program: Callable[[str], None], folder: BatchFolder
) -> None:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    program(f"echo no module named {' '.join(f'${name}' for name in names)} >&2\nexit 1")
    with pytest.raises(UserError, match=r"no module named 1 1 1 1$"):
        run_jobs(folder, jobs(2), ProcessExecutor(2))


def test_a_job_whose_workers_die_twice_fails_and_the_others_finish(
    own_task: dict[str, Any], folder: BatchFolder
) -> None:
    runs = BatchSpec.of({"own": own_task}, axes={"learning_rate": [0.1, 0.2, 0.3]}).runs
    (failure,) = run_jobs(folder, unfinished(folder, runs), ProcessExecutor(2))
    assert failure.run.name == "own,learning-rate=0.2,seed=0"
    assert failure.reason == "its process was ended by SIGKILL, 2 times"
    others = [run for run in runs if run != failure.run]
    assert [folder.run(run.name).status for run in others] == ["finished", "finished"]
    assert not folder.run(failure.run.name).path.exists()


class KillsIdle(BatchObserver):
    """Kills the worker after its first job, when nothing is computed."""

    def __init__(self, folder: BatchFolder) -> None:
        self._folder, self._killed = folder, False

    def job_ended(self, job: Job, reason: str | None) -> None:
        if not self._killed:
            self._killed = True
            for pid in workers(self._folder):
                os.kill(pid, signal.SIGKILL)


def test_a_worker_that_dies_between_two_jobs_costs_no_attempt(
    read: Read, folder: BatchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, assigned = KillsIdle(folder), ProcessExecutor.assigned

    def assign_after_kill(executor: ProcessExecutor, assignment: Assignment) -> object:
        if assignment.job.run != spec.runs[0]:
            until(lambda: watch._killed)
        return assigned(executor, assignment)

    spec = read("learning-rate = [0.01, 0.02, 0.03]")
    monkeypatch.setattr(ProcessExecutor, "assigned", assign_after_kill)
    monkeypatch.setattr(ProcessExecutor, "retries", 0)
    assert run_jobs(folder, unfinished(folder, spec.runs), ProcessExecutor(1), watch) == ()
    assert [folder.run(run.name).status for run in spec.runs] == ["finished"] * 3
