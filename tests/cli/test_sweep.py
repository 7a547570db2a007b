"""`slotwise sweep` from a file to tables and figures, and its mistakes; `slotwise show` of its folder."""

import csv
import json
import shutil
import socket
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from slotwise.learning import Point
from slotwise.runs import RunConfig, RunFolder

ROOT = Path(__file__).parents[2]
Cli = Callable[..., tuple[int, str, str]]
GRID = """
devices = 4
compute-slots = 4
deadline = 60
samples-per-device = 20
local-steps = 1
batch-size = 8
channels = [2]
hidden = []
evaluate-every = 30
group-size = [1, 2]
schedule = ["sync", "async"]
"""


def file(folder: Path, text: str = GRID) -> Path:
    path = folder / "grid.toml"
    path.write_text(text)
    return path


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as text:
        return list(csv.DictReader(text))


@pytest.mark.slow
def test_points_are_trained_tabulated_and_drawn_and_the_second_time_kept(
    slotwise: Cli, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code, said, err = slotwise("sweep", file(tmp_path), "--out", out, "--workers", 2, "--quiet")
    assert (code, err) == (0, "")
    assert [line.split()[:3] for line in said.splitlines() if "1/1" in line] == [
        ["1", "sync", "1/1"],
        ["1", "async", "1/1"],
        ["2", "sync", "1/1"],
        ["2", "async", "1/1"],
    ]
    table = rows(out / "results.csv")
    assert [(row["group_size"], row["schedule"], row["status"]) for row in table][:2] == [
        ("1", "sync", "finished"),
        ("1", "async", "finished"),
    ]
    assert len(rows(out / "curves.csv")) == sum(
        len(RunFolder(path).points()) for path in (out / "runs").iterdir()
    )
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    files = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert slotwise("sweep", tmp_path / "grid.toml", "--out", out, "--quiet")[:2] == (0, said)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == files


@pytest.mark.slow
def test_points_that_diverge_or_fail_are_told_and_stop_no_other(slotwise: Cli, tmp_path: Path) -> None:
    text = GRID.replace("samples-per-device = 20", "samples-per-device = [20, 50_000]")
    grid = file(tmp_path, text.replace("group-size = [1, 2]", "group-size = 2\nlearning-rate = [0.01, 1e30]"))
    for _ in range(2):
        code, said, err = slotwise("sweep", grid, "--out", tmp_path / "out", "--workers", 1, "--quiet")
        assert code == 1
        assert "samples-per-device=20,learning-rate=1e+30,schedule=sync,seed=0: diverged" in err
        assert (
            "samples-per-device=50000,learning-rate=0.01,schedule=sync,seed=0: InputError: samples_per_device"
            in err
        )
        assert len(err.splitlines()) == 6
        assert [line.split()[3] for line in said.splitlines() if "/1" in line] == ["1/1"] * 2 + ["0/1"] * 6


@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra slotwise[ray]")
def test_an_unreachable_cluster_is_one_line_and_leaves_nothing(slotwise: Cli, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    code, said, err = slotwise("sweep", file(tmp_path), "--out", tmp_path / "out", "--ray", address)
    assert (code, said) == (2, "")
    assert err == f"slotwise: no Ray cluster at {address}: Connection refused\n"
    assert not (tmp_path / "out").exists()


@pytest.fixture
def swept(slotwise: Cli, tmp_path: Path) -> Path:
    """A sweep that has only just begun, without the training."""
    out = tmp_path / "out"
    for size in (1, 2):
        for schedule in ("sync", "async"):
            (out / f"runs/group-size={size},schedule={schedule},seed=0").mkdir(parents=True)
    points = [
        ["", [size, schedule], 0, f"group-size={size},schedule={schedule},seed=0"]
        for size in (1, 2)
        for schedule in ("sync", "async")
    ]
    axes = {"group_size": [1, 2], "schedule": ["sync", "async"]}
    document = {"format": 1, "axes": axes, "powers": None, "digest": "", "points": points}
    (out / "batch.json").write_text(json.dumps(document))
    return out


def test_a_sweep_that_has_only_begun_is_shown_by_itself_and_not_drawn(
    slotwise: Cli, swept: Path, tmp_path: Path
) -> None:
    code, out, _ = slotwise("show", swept)
    assert code == 0
    assert next(line.split()[:3] for line in out.splitlines() if "0/1" in line) == ["1", "sync", "0/1"]
    _, out, _ = slotwise("show", swept, "--json")
    first = json.loads(out)[0]
    assert [first[name] for name in ("group_size", "schedule", "seed", "status", "final_loss", "run")] == [
        *(1, "sync", 0, "missing", None),
        "group-size=1,schedule=sync,seed=0",
    ]
    code, out, err = slotwise("show", swept, "--out", tmp_path / "curves.png")
    assert (code, out) == (2, "")
    assert "nothing to draw" in err
    assert not (tmp_path / "curves.png").exists()
    code, out, err = slotwise("show", swept, swept)
    assert (code, out) == (2, "")
    assert "shown by itself" in err
    code, out, err = slotwise("sweep", file(tmp_path), "--out", swept)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--out" in err


def test_a_sweep_is_drawn_as_far_as_it_has_come(slotwise: Cli, swept: Path, tmp_path: Path) -> None:
    parameters = RunConfig.from_options({"devices": 4, "group_size": 2, "schedule": "sync", "deadline": 60})
    run = RunFolder.create(swept / "runs/group-size=2,schedule=sync,seed=0", parameters)
    run.write_points([Point(0, 0, 2.0, 0.1, 0), Point(53, 1, 1.0, 0.5, 1)])
    picture = tmp_path / "curves.png"
    code, out, err = slotwise("show", swept, "--out", picture)
    assert (code, err) == (0, f"wrote {picture}\n")
    assert "2 sync" in " ".join(out.split())
    assert picture.read_bytes().startswith(b"\x89PNG")
    vector = tmp_path / "accuracy.svg"
    code, out, _ = slotwise("show", swept, "--metric", "accuracy", "--out", vector, "--json")
    assert code == 0
    assert isinstance(json.loads(out), list)
    assert "test accuracy" in vector.read_text(encoding="utf-8")
    code, out, err = slotwise("show", swept, "--metric", "f1", "--out", tmp_path / "f1.svg")
    assert (code, out) == (2, "")
    assert err == "slotwise: --metric f1: must be a metric of the results: loss, accuracy\n"
    assert slotwise("show", swept, "--metric", "accuracy")[0] == 2  # nothing would be drawn


@pytest.mark.slow
def test_a_task_of_one_s_own_is_trained_in_every_process(
    slotwise: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(ROOT)
    text = "devices = 6\ngroup-size = [1, 2]\ncompute-slots = 4\ndeadline = 60\n"
    grid = file(tmp_path, text + 'task = "examples.own_task.logistic:make_task"\n')
    code, _, err = slotwise("sweep", grid, "--out", tmp_path / "out", "--workers", 2, "--quiet")
    assert (code, err) == (0, "")
    assert [row["status"] for row in rows(tmp_path / "out/results.csv")] == ["finished"] * 2


CASES = """
seeds = [0, 1]
uplink-loss = 0.2

[powers]
computing = 2.0
sending = 1
receiving = 0.5
slot-seconds = 0.01

[[case]]
name = "plain"

[[case]]
name = "unequal"
compute-distribution = "uniform:2:6"
aggregation = "fedbuff"
"""


@pytest.mark.slow
def test_cases_have_joules_and_a_broken_run_is_resumed(slotwise: Cli, tmp_path: Path) -> None:
    text = GRID.replace("group-size = [1, 2]", "group-size = 2").replace('schedule = ["sync", "async"]', "")
    grid, out = file(tmp_path, text + CASES), tmp_path / "out"
    code, said, err = slotwise("sweep", grid, "--out", out, "--workers", 2, "--quiet")
    assert (code, err) == (0, "")
    assert [line.split()[:2] for line in said.splitlines() if "2/2" in line] == [
        ["plain", "2/2"],
        ["unequal", "2/2"],
    ]
    names = ["plain,seed=0", "plain,seed=1", "unequal,seed=0", "unequal,seed=1"]
    assert sorted(path.name for path in (out / "runs").iterdir()) == names
    results, curves = rows(out / "results.csv"), rows(out / "curves.csv")
    for row in results:
        own = [point for point in curves if (point["case"], point["seed"]) == (row["case"], row["seed"])]
        assert (own[0]["updates"], float(own[0]["joules"])) == ("0", 0.0)
        assert [own[-1][name] for name in ("loss", "accuracy", "updates", "joules")] == [
            row[name] for name in ("last_loss", "last_accuracy", "updates", "joules")
        ]
    run = RunFolder.open(out / "runs/unequal,seed=0")
    finished = run.description()["model_sha256"]
    run.write_description(run.parameters(), "running")
    shutil.rmtree(out / "runs/plain,seed=0")
    assert slotwise("sweep", grid, "--out", out, "--workers", 2, "--quiet")[0] == 0
    assert run.description()["model_sha256"] == finished
    grid.write_text(grid.read_text().replace("uplink-loss = 0.2", "uplink-loss = 0.3"))
    code, said, err = slotwise("sweep", grid, "--out", out, "--quiet")
    assert (code, said, err.count("\n")) == (2, "", 1)
