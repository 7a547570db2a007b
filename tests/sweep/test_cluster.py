"""Two nodes of a Ray cluster on this machine, one of which is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from slotwise.runs import RunFolder
from slotwise.sweep.folder import SweepFolder

from .conftest import trained_here

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra slotwise[ray]"),
]

# The second trainer may come up many seconds after the first: there must be something left for it to lose.
LONGER = "deadline = 16_000\nevaluate-every = 8000\nlearning-rate = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06]"
# A process of its own: Ray warns, forks and keeps threads, none of which these tests are about.
CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
second = cluster.add_node(num_cpus=1)
print("cluster", cluster.address, second.all_processes["raylet"][0].process.pid, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


class TwoNodes(NamedTuple):
    address: str
    second: int
    """The process that is the second node."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[TwoNodes]:
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        words = next(line.split() for line in process.stdout or () if line.startswith("cluster "))
        yield TwoNodes(words[1], int(words[2]))
    finally:
        process.communicate(timeout=60)


def command(grid: Path, out: Path, address: str) -> subprocess.Popen[str]:
    arguments = ["sweep", str(grid), "--out", str(out), "--ray", address, "--checkpoint-every", "0.1"]
    return subprocess.Popen(
        [sys.executable, "-c", "from slotwise.cli import main; main()", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def under_way(folder: SweepFolder) -> int:
    """How many points have sent a checkpoint and are not finished."""
    begun = {path.parents[1] for path in folder.runs.glob("*/checkpoints/*.checkpoint")}
    return sum(RunFolder(path).status == "running" for path in begun)


def test_the_numbers_are_those_of_this_machine_and_a_lost_node_costs_nothing_but_time(
    cluster: TwoNodes, outcome, tmp_path: Path
) -> None:
    # One test, because the second node cannot be killed twice.
    (tmp_path / "here").mkdir()
    (grid, expected), away = trained_here(tmp_path / "here/grid.toml", LONGER), SweepFolder(tmp_path / "away")
    running = command(grid, away.path, cluster.address)
    end = time.monotonic() + 300
    while under_way(away) < 2 and running.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert running.poll() is None, "all was over before anything could be lost"
    os.kill(cluster.second, signal.SIGKILL)
    out, err = running.communicate(timeout=300)
    assert running.returncode == 0, err
    assert "its node or its process was lost; it goes on elsewhere from its last checkpoint" in err
    assert outcome(away) == expected
    assert "raylet" not in out + err
