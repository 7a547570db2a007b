"""The local pool with real processes: what they come to, and what happens if one is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise.batch.crew import Progress, SweepWatcher, conduct
from slotwise.batch.folder import SweepFolder
from slotwise.batch.grid import Sweep, read_sweep
from slotwise.batch.job import Run
from slotwise.batch.point import Order
from slotwise.batch.pool import LocalCrew
from slotwise.batch.training import Job, unfinished
from slotwise.errors import UserError
from slotwise.runs import RunConfig, RunFolder

Read = Callable[[str], Sweep]
LongPoints = tuple[Path, dict[str, tuple[str, bytes]]]
PATIENCE = 120.0  # seconds, on a machine that others use too


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    return SweepFolder(tmp_path / "out")


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def workers(folder: SweepFolder) -> list[int]:
    """The processes at work in a folder, whoever their parent is; one that has ended has no command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if "slotwise.batch.worker" in words and str(folder.path) in words:
            found.append(int(process.name))
    return found


def saved(folder: SweepFolder) -> set[str]:
    """The points that have a checkpoint to go on from."""
    return {path.parents[1].name for path in folder.runs.glob("*/checkpoints/*.checkpoint")}


class Beginnings(SweepWatcher):
    """With how many rounds done each point began, the last time it did."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}
        self.active: set[str] = set()

    def started(self, job: Job) -> None:
        self.active.add(job.run.name)
        self.done.pop(job.run.name, None)

    def progressed(self, progress: Progress) -> None:
        self.done.setdefault(progress.job.run.name, progress.done)

    def ended(self, job: Job, reason: str | None) -> None:
        self.active.remove(job.run.name)


class KillsOnce(Beginnings):
    """Kills one process of the pool as soon as there are two and each has saved something of its point."""

    def __init__(self, folder: SweepFolder) -> None:
        super().__init__()
        self.folder, self.killed = folder, False
        self.losses: list[tuple[str, str]] = []

    def lost(self, job: Job, reason: str) -> None:
        self.active.remove(job.run.name)
        self.losses.append((job.run.name, reason))

    def wants_stop(self) -> bool:
        if not self.killed and len(self.active) >= 2 and self.active <= saved(self.folder):
            self.killed = True
            os.kill(workers(self.folder)[0], signal.SIGKILL)
        return False


@pytest.mark.slow
def test_a_process_that_is_killed_costs_nothing_but_time(
    long_points: LongPoints, folder: SweepFolder, outcome
) -> None:
    grid, expected = long_points
    watcher = KillsOnce(folder)
    jobs = unfinished(folder, read_sweep(grid).runs)
    assert conduct(jobs, LocalCrew(folder.path, 2, 0.1), watcher) == ()
    ((name, reason),) = watcher.losses
    assert reason == "its process was ended by SIGKILL"
    assert watcher.done[name] > 0
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
    long_points: LongPoints, folder: SweepFolder, outcome
) -> None:
    grid, expected = long_points
    killed = command(grid, folder.path)
    until(lambda: len(saved(folder)) >= 2)
    assert workers(folder)
    killed.kill()
    killed.communicate(timeout=PATIENCE)
    until(lambda: not workers(folder))
    jobs, beginnings = unfinished(folder, read_sweep(grid).runs), Beginnings()
    begun = {job.run.name for job in jobs} & saved(folder)
    assert begun
    assert conduct(jobs, LocalCrew(folder.path, 2, 0.1), beginnings) == ()
    assert all(beginnings.done[name] > 0 for name in begun)
    again = command(grid, folder.path)
    _, err = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, err
    assert outcome(folder) == expected


@pytest.mark.slow
def test_ctrl_c_ends_with_checkpoints_and_a_hint(read: Read, folder: SweepFolder, tmp_path: Path) -> None:
    sweep = read("deadline = 100_000\nevaluate-every = 50_000\nlearning-rate = [0.01, 0.02]")
    running = command(tmp_path / "grid.toml", folder.path)
    until(lambda: len(saved(folder)) == 2)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130
    assert "interrupted; the same command goes on from here" in err
    assert "Traceback" not in err
    assert [RunFolder.open(folder.run(run.name).path).status for run in sweep.runs] == ["interrupted"] * 2
    assert workers(folder) == []


def jobs(count: int) -> list[Job]:
    return [Job(Run(f"seed={seed}", RunConfig().with_options(seed=seed)), 1.0) for seed in range(count)]


class Recording:
    """Stands for a process; what it is given is noted."""

    job: Job | None = None
    threads = 0

    def begin(self, job: Job, order: Order) -> None:
        self.job, self.threads = job, order.threads

    def end(self) -> None:
        pass


@pytest.mark.parametrize(
    ("cores", "points", "threads"),
    [(2, 8, [1, 1]), (4, 2, [2, 2]), (3, 2, [2, 1]), (8, 3, [3, 3, 2]), (4, 1, [4]), (1, 5, [1])],
)
def test_points_share_the_cores_and_never_have_more_threads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cores: int, points: int, threads: list[int]
) -> None:
    given: list[Recording] = []

    def hire(self) -> Recording:
        given.append(Recording())
        self._members.append(given[-1])
        return given[-1]

    monkeypatch.setattr(LocalCrew, "_hire", hire)
    crew, waiting = LocalCrew(tmp_path, cores, 1.0), jobs(points)
    while waiting and crew.give(waiting[0], len(waiting)):
        waiting.pop(0)
    assert [member.threads for member in given] == threads
    crew.close()


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Puts a shell script in the place of the processes' Python."""

    def write(text: str) -> None:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return write


def test_a_pool_that_cannot_start_says_why(program: Callable[[str], None], tmp_path: Path) -> None:
    program("echo 'no module named numpy' >&2\nexit 1")
    with pytest.raises(UserError, match="a process of the sweep cannot start: no module named numpy"):
        conduct(jobs(2), LocalCrew(tmp_path, 2, 1.0), SweepWatcher())


def test_libraries_have_one_thread_in_each_process(program: Callable[[str], None], tmp_path: Path) -> None:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    program(f"echo {' '.join(f'${name}' for name in names)} >&2\nexit 1")
    with pytest.raises(UserError, match=r"cannot start: 1 1 1 1$"):
        conduct(jobs(1), LocalCrew(tmp_path, 2, 1.0), SweepWatcher())
