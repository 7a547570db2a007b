"""Two nodes of a Ray cluster on this machine, of which one or the other is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from slotwise.batch import BatchFolder
from slotwise.runs import RunFolder

from ..ray_nodes import TwoNodes, two_nodes
from .conftest import trained_here, with_tiny

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra slotwise[ray]"),
]

# The second trainer may come up many seconds after the first: there must be something left for it to lose.
LONGER = "deadline = 32_000\nevaluate-every = 16000\nlearning-rate = [0.01, 0.02, 0.03, 0.04]"


@pytest.fixture
def cluster() -> Iterator[TwoNodes]:
    with two_nodes(cores=1) as nodes:
        yield nodes


def command(grid: Path, out: Path, address: str) -> subprocess.Popen[str]:
    arguments = ["sweep", str(grid), "--out", str(out), "--ray", address, "--checkpoint-every", "0.1"]
    return subprocess.Popen(
        [sys.executable, "-c", "from slotwise.cli import main; main()", *arguments],
        env={**os.environ, "RAY_CLIENT_RECONNECT_GRACE_PERIOD": "2"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def under_way(folder: BatchFolder) -> int:
    """How many points have sent a checkpoint and are not finished."""
    begun = {path.parents[1] for path in folder.runs.glob("*/checkpoints/*.checkpoint")}
    return sum(RunFolder(path).status == "running" for path in begun)


def await_points(running: subprocess.Popen[str], folder: BatchFolder, count: int) -> None:
    end = time.monotonic() + 300
    while under_way(folder) < count and running.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    if running.poll() is not None:
        pytest.fail(f"all was over before anything could be lost: {running.communicate()}")


def test_the_numbers_are_those_of_this_machine_and_a_lost_node_costs_nothing_but_time(
    cluster: TwoNodes, outcome, tmp_path: Path
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "here").mkdir()
    # One run on two nodes: its local trainings are spread.
    (grid, expected), away = trained_here(tmp_path / "one/grid.toml", ""), BatchFolder(tmp_path / "spread")
    running = command(grid, away.path, cluster.address)
    _, err = running.communicate(timeout=300)
    assert running.returncode == 0, err
    assert outcome(away) == expected
    # Several: each is on one node, and one of the nodes is lost.
    (grid, expected), away = trained_here(tmp_path / "here/grid.toml", LONGER), BatchFolder(tmp_path / "away")
    running = command(grid, away.path, cluster.address)
    await_points(running, away, 2)
    os.kill(cluster.second, signal.SIGKILL)
    out, err = running.communicate(timeout=300)
    assert running.returncode == 0, err
    assert "its node or its process was lost; it is resumed elsewhere" in err
    assert outcome(away) == expected
    assert "raylet" not in out + err


def test_a_client_whose_head_is_lost_says_so_and_what_has_come_back_is_kept(
    cluster: TwoNodes, tmp_path: Path
) -> None:
    grid, away = tmp_path / "grid.toml", BatchFolder(tmp_path / "away")
    # As many runs as nodes: each is trained on one.
    grid.write_text(with_tiny("deadline = 1_000_000\nevaluate-every = 500_000\nseeds = [0, 1]"))
    running = command(grid, away.path, cluster.client)
    await_points(running, away, 1)
    for process in cluster.head:
        os.kill(process, signal.SIGKILL)
    _, err = running.communicate(timeout=300)
    assert running.returncode == 2, err
    assert f"lost the Ray cluster at {cluster.client}" in err.splitlines()[-1]
    assert under_way(away) >= 1
