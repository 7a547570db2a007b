"""The local pool with real processes: what they come to, and what happens if one is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise.errors import UserError
from slotwise.experiments.run import Run
from slotwise.experiments.training import Job, unfinished
from slotwise.runs import RunFolder, RunParameters
from slotwise.sweep.crew import SweepWatcher, conduct
from slotwise.sweep.folder import SweepFolder
from slotwise.sweep.grid import Sweep, read_sweep
from slotwise.sweep.point import Order
from slotwise.sweep.pool import LocalCrew

Read = Callable[[str], Sweep]
LongPoints = tuple[Path, dict[str, tuple[str, bytes]]]


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    return SweepFolder(tmp_path / "out")


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def children(parent: int) -> list[int]:
    """The processes of a pool, by their parent."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            found.append(int(status.parent.name))
    return found


def checkpoints(folder: SweepFolder) -> list[Path]:
    return list(folder.runs.glob("*/checkpoints/*.checkpoint"))


class KillsOnce(SweepWatcher):
    """Kills one process of the pool as soon as every point has a checkpoint."""

    def __init__(self, folder: SweepFolder) -> None:
        self.folder, self.reasons = folder, []
        self.killed = False

    def lost(self, job: Job, reason: str) -> None:
        self.reasons.append(reason)

    def wants_stop(self) -> bool:
        if not self.killed and len({path.parent for path in checkpoints(self.folder)}) == 2:
            self.killed = True
            os.kill(children(os.getpid())[0], signal.SIGKILL)
        return False


@pytest.mark.slow
def test_a_process_that_is_killed_costs_nothing_but_time(
    long_points: LongPoints, folder: SweepFolder, outcome
) -> None:
    grid, expected = long_points
    watcher = KillsOnce(folder)
    jobs = unfinished(folder, read_sweep(grid).runs)
    assert conduct(jobs, LocalCrew(folder.path, 2, 0.1), watcher) == ()
    assert watcher.reasons == ["its process was ended by SIGKILL"]
    assert outcome(folder) == expected
    assert children(os.getpid()) == []


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
    until(lambda: len(checkpoints(folder)) >= 2)
    at_work = children(killed.pid)
    assert at_work
    killed.kill()
    killed.communicate()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in at_work), 10)
    again = command(grid, folder.path)
    _, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert outcome(folder) == expected


@pytest.mark.slow
def test_ctrl_c_ends_with_checkpoints_and_a_hint(read: Read, folder: SweepFolder, tmp_path: Path) -> None:
    sweep = read("deadline = 100_000\nevaluate-every = 50_000\nlearning-rate = [0.01, 0.02]")
    running = command(tmp_path / "grid.toml", folder.path)
    until(lambda: len(checkpoints(folder)) >= 2)
    at_work = children(running.pid)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=20)
    assert running.returncode == 130
    assert "interrupted; the same command goes on from here" in err
    assert "Traceback" not in err
    assert [RunFolder.open(folder.run(run.name).path).status for run in sweep.runs] == ["interrupted"] * 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in at_work)


def jobs(count: int) -> list[Job]:
    return [Job(Run(f"seed={seed}", RunParameters(seed=seed)), 1.0) for seed in range(count)]


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


def test_a_pool_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'no module named numpy' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(UserError, match="a process of the sweep cannot start: no module named numpy"):
        conduct(jobs(2), LocalCrew(tmp_path, 2, 1.0), SweepWatcher())
