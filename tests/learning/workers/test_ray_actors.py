"""Workers on two nodes of a Ray cluster: the bits of threads, whatever is killed meanwhile."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from slotwise.base.errors import InputError
from slotwise.learning.workers import RayActors
from slotwise.runs import RunFolder

from ...ray_nodes import TwoNodes, two_nodes

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra slotwise[ray]")
HERE = Path(__file__).parent
RUN = ["--devices", "4", "--group-size", "2", "--compute-slots", "4", "--samples-per-device", "20"]
RUN += ["--local-steps", "1", "--batch-size", "8", "--channels", "2", "--evaluate-every", "6000"]
RUN += ["--hidden", ""]
# Ray forks, warns and keeps threads: it has a process of its own.
TRAIN = """
import hashlib, json, sys
from pathlib import Path
from worker_tasks import Counting, Killing, Locked, Raising
from only_here import OnlyHere
import slotwise as sw
address, mark = sys.argv[1], Path(sys.argv[2])
timeline = sw.simulate(sw.Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=24)
found = {}
def train(name, task, workers):
    try:
        history = sw.train(timeline, task, workers=workers, evaluate_every=20, aggregation="fedavg")
        losses = [(point.loss, point.metrics["main"]) for point in history.points]
        found[name] = [hashlib.sha256(history.model.tobytes()).hexdigest(), losses]
    except sw.UserError as error:
        found[name] = str(error)
train("threads", Counting(), 2)
for count in (1, 2, 4):
    train(f"ray {count}", Counting(), sw.learning.RayActors(address, count))
train("killed", Killing(mark), sw.learning.RayActors(address, 2))
train("killing", Killing(mark, always=True), sw.learning.RayActors(address, 2))
train("raising", Raising(), sw.learning.RayActors(address, 2))
train("locked", Locked(), sw.learning.RayActors(address, 2))
train("not there", OnlyHere(), sw.learning.RayActors(address, 2))
train("large", Counting(50_000_000), sw.learning.RayActors(address, 1))
train("five", Counting(), sw.learning.RayActors(address, 5))
train("gpu", Counting(), sw.learning.RayActors(address, 1, gpus_per_worker=0.5))
print(json.dumps(found))
"""


@pytest.fixture
def cluster() -> Iterator[TwoNodes]:
    with two_nodes(cores=2, memory=90_000_000) as nodes:
        yield nodes


@needs_ray
@pytest.mark.slow
def test_results_are_those_of_threads_and_errors_are_one_line(cluster: TwoNodes, tmp_path: Path) -> None:
    (tmp_path / "only_here.py").write_text("from worker_tasks import Counting\nclass OnlyHere(Counting): ...")
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, cluster.address, str(tmp_path / "mark")],
        cwd=HERE,  # which Ray makes known to the nodes
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        check=True,
        text=True,
        timeout=600,
    )
    found = json.loads(done.stdout)
    model, losses = found["threads"]
    for name in ("ray 1", "ray 2", "ray 4", "killed"):
        assert found[name][0] == model, name
        assert found[name][1] == [[loss, 0.0] for loss, _ in losses]  # evaluated on the cluster
    assert (tmp_path / "mark").exists()
    expected = {
        "killing": "device 3 on model 0 has lost its worker 3 times",
        "raising": "task Raising failed: ZeroDivisionError: no samples",
        "locked": "task Locked: cannot be sent to another process",
        "not there": "cannot load what it needs: ModuleNotFoundError: No module named 'only_here'",
        "large": "object store of a node of the Ray cluster is too small: it has 90 MB",
        "five": "workers = 5: must be from 1 to 4: the cluster has 4 cores",
        "gpu": "0 GPUs",
    }
    for name, part in expected.items():
        assert part in found[name], found[name]
        assert "\n" not in found[name]


def command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from slotwise.cli import main; main()", "train", *arguments, "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def await_progress(running: subprocess.Popen[str], run: RunFolder) -> None:
    """Wait for two more checkpoints."""
    end, seen = time.monotonic() + 300, {run.checkpoints.newest_name() if run.is_run else None}
    while len(seen) < 3:
        if running.poll() is not None:
            pytest.fail(f"over before anything was lost: {running.communicate()}")
        assert time.monotonic() < end
        time.sleep(0.05)
        if run.is_run:
            seen.add(run.checkpoints.newest_name())


@needs_ray
@pytest.mark.slow
def test_losing_a_node_the_driver_and_the_head_costs_nothing_but_time(
    cluster: TwoNodes, tmp_path: Path
) -> None:
    run, options = RunFolder(tmp_path / "away"), [*RUN, "--deadline", "60000"]
    away = ["--ray", cluster.address, "--workers", "4", "--checkpoint-every", "0.1"]
    running = command(*options, "--out", str(run.path), *away)
    await_progress(running, run)
    os.kill(cluster.second, signal.SIGKILL)
    await_progress(running, run)
    running.kill()
    running.communicate()
    running = command("--resume", str(run.path), "--ray", cluster.address, "--checkpoint-every", "0.1")
    await_progress(running, run)
    for process in cluster.head:
        os.kill(process, signal.SIGKILL)
    _, err = running.communicate(timeout=300)
    assert running.returncode == 2, err
    assert f"lost the Ray cluster at {cluster.address}" in err.splitlines()[-1]
    assert run.status == "interrupted"
    for arguments in (["--resume", str(run.path)], [*options, "--out", str(tmp_path / "here")]):
        finished = command(*arguments)
        _, err = finished.communicate(timeout=300)
        assert finished.returncode == 0, err
    results = [folder.description()["model_sha256"] for folder in (run, RunFolder(tmp_path / "here"))]
    curves = [(folder / "history.csv").read_bytes() for folder in (run.path, tmp_path / "here")]
    assert results[0] == results[1]
    assert curves[0] == curves[1]


def test_nonsense_is_refused() -> None:
    for wrong in (-0.5, float("nan"), 17):
        with pytest.raises(InputError, match="gpus_per_worker"):
            RayActors(gpus_per_worker=wrong)
    with pytest.raises(InputError, match="workers"):
        RayActors(count=0)
