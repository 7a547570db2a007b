"""kill -9 at every single moment at which a run touches the disk.

A process of its own makes a child for every run; the child kills itself with the signal nobody can catch at a
given call of a function that changes the disk, either before or after the call has done its work.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PRELUDE = """
import json, os, signal, sys, traceback
from pathlib import Path
sys.path.insert(0, {tests!r})
from conftest import Toy, train_in
from slotwise.runs import RunFolder, RunConfig

PARAMETERS = RunConfig().with_options(devices=6, group_size=2, compute_slots=2, deadline=8, evaluate_every=1)
if len(sys.argv) > 3:
    PARAMETERS = RunConfig().with_options(
        devices=6, deadline=40, evaluate_every=1, compute_distribution="two-classes:2:7:0.5",
        jitter=0.3, uplink_loss=0.3, mean_present=15, mean_away=4, seed=1, **json.loads(sys.argv[3]))
CHANGES = [(os, "fsync"), (Path, "replace"), (Path, "mkdir"), (Path, "unlink")]

def in_child(action, path, deadly_call=0, after=False):
    '''Do it in a child that dies at a call; how the child ended, and how many calls it made.'''
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    calls = 0
    def deadly(function):
        def call(*arguments, **options):
            nonlocal calls
            calls += 1
            mine = calls
            if mine == deadly_call and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return function(*arguments, **options)
            finally:
                if mine == deadly_call:
                    os.kill(os.getpid(), signal.SIGKILL)
        return call
    for place, name in CHANGES:
        setattr(place, name, deadly(getattr(place, name)))
    try:
        action(path)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)

def go_on(path):
    '''As `slotwise train --out` does at first and `slotwise train --resume` later.'''
    folder = RunFolder(path)
    if not folder.is_run:
        RunFolder.create(path, PARAMETERS)
    assert not folder.checkpoints.load()[1]
    train_in(folder, folder.parameters(), task=Toy(), checkpoint_every=0)

def result(path):
    document = RunFolder(path).description()
    files = [(path / name).read_bytes().hex() for name in ("history.csv", "model.npz")]
    return [document["status"], document["model_sha256"], document["rounds"], *files]

here, after = Path(sys.argv[1]), sys.argv[2] == "after"
"""

ONE_KILL = """
report = []
for call in range(1, 1000):
    path = here / str(call)
    if in_child(go_on, path, call, after) != signal.SIGKILL:
        break
    left = sorted(found.name for found in path.rglob("*.tmp"))
    report.append({"ended": in_child(go_on, path), "result": result(path), "rubbish": len(left)})
print(json.dumps({"kills": report, "undisturbed": result(path)}))
"""

MANY_KILLS = """
kills = 0
path = here / "killed"
while in_child(go_on, path, 2 * kills + 2, after) == signal.SIGKILL:
    kills += 1
in_child(go_on, here / "undisturbed")
print(json.dumps({"kills": kills, "result": result(path), "undisturbed": result(here / "undisturbed")}))
"""

OVERWRITING = """
NEW = RunConfig().with_options(seed=5)
report = []
for call in range(1, 1000):
    path = here / str(call)
    in_child(go_on, path)
    ended = in_child(lambda path: RunFolder.create(path, NEW, overwrite=True), path, call, after)
    folder = RunFolder(path)
    history, damaged = folder.checkpoints.load()
    report.append({"new": folder.parameters() == NEW, "status": folder.status,
                   "checkpoint": history is not None, "points": len(folder.points())})
    if ended != signal.SIGKILL:
        break
print(json.dumps(report))
"""


def play(program: str, path: Path, when: str, *more: str) -> Any:
    arguments = ["-W", "ignore", "-c", PRELUDE.format(tests=str(Path(__file__).parent)) + program]
    done = subprocess.run(
        [sys.executable, *arguments, str(path), when, *more],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_one_kill_at_any_change_of_the_disk_is_survived(tmp_path: Path, when: str) -> None:
    report = play(ONE_KILL, tmp_path, when)
    assert len(report["kills"]) > 20
    assert all(kill["ended"] == 0 for kill in report["kills"])
    assert all(kill["result"] == report["undisturbed"] for kill in report["kills"])
    assert any(kill["rubbish"] for kill in report["kills"])  # some fell into the writing of a file


@pytest.mark.parametrize("when", ["before", "after"])
def test_kill_after_kill_the_run_still_gets_to_its_end(tmp_path: Path, when: str) -> None:
    report = play(MANY_KILLS, tmp_path, when)
    assert report["kills"] >= 4
    assert report["result"] == report["undisturbed"]


BASELINES: dict[str, dict[str, Any]] = {
    "federated averaging": {"schedule": "sync", "participation": "random", "group_size": 2},
    "async": {"schedule": "async", "group_size": 2},
    "just in time, at once": {"schedule": "idfl", "group_size": 2, "retransmission": "at-once"},
    "staleness-weighted": {"aggregation": "staleness-weighted", "discount": "hinge", "group_size": 2},
    "fedasync": {"aggregation": "fedasync", "schedule": "async", "group_size": 1},
    "fedbuff": {"aggregation": "fedbuff", "schedule": "async", "group_size": 3},
    "fedavgm": {"aggregation": "fedavgm", "schedule": "async", "group_size": 2},
    "decided by update norms": {"schedule": "sync", "participation": "update-norm", "group_size": 2},
    "fedadam": {"aggregation": "fedadam", "schedule": "idfl", "group_size": 2},
}


@pytest.mark.parametrize("options", BASELINES.values(), ids=BASELINES)
def test_kills_do_not_change_any_baseline_on_a_lossy_unequal_fleet(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    report = play(MANY_KILLS, tmp_path, "after", json.dumps(options))
    assert report["kills"] >= 4
    assert report["result"] == report["undisturbed"]


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_killed_while_it_is_overwritten_is_the_old_one_or_the_new(tmp_path: Path, when: str) -> None:
    report = play(OVERWRITING, tmp_path, when)
    assert len(report) > 5
    for found in report[:-1]:
        if found["new"]:  # never with a checkpoint of the old one
            assert (found["status"], found["checkpoint"]) == ("running", False)
        else:
            assert found["points"] > 0
    assert report[-1] == {"new": True, "status": "running", "checkpoint": False, "points": 0}
