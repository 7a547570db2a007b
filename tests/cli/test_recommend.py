"""`slotwise recommend` from start to end: real MNIST, a tiny network, files, signals, refusals."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise.data import Dataset, data_source, load_mnist
from slotwise.runs import RunFolder

ROOT = Path(__file__).parents[2]
CONFIG = """
samples-per-device = 20
local-steps = 1
batch-size = 8
channels = [2]
hidden = []
evaluate-every = 5
"""
POWERS = "[powers]\ncomputing = 2.0\nsending = 1\nreceiving = 0.5\n"
SHAPE = ["--devices", 4, "--compute-slots", 4, "--quiet"]
CASE = [*SHAPE, "--deadline", 320]
TIMEOUT = 300.0  # seconds, on a machine under load
Outcome = tuple[int, str, str]
Call = Callable[..., Outcome]


@pytest.fixture(scope="module")
def mnist() -> Dataset:
    """The data set with fewer images to be tested on: evaluations are most of the work here."""
    whole = vars(load_mnist())
    return Dataset(**whole | {name: whole[name][:200] for name in ("test_inputs", "test_targets")})


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(CONFIG + POWERS)
    return path


@pytest.fixture
def recommend(monkeypatch: pytest.MonkeyPatch, slotwise: Call, mnist: Dataset) -> Call:
    monkeypatch.setattr(data_source, "load_mnist", lambda: mnist)
    return lambda *arguments, command="recommend": slotwise(command, *arguments)


def test_it_says_what_to_use_and_what_it_has_cost(recommend: Call, config: Path, tmp_path: Path) -> None:
    call = [*CASE, "--group-sizes", "2,4", "--config", config, "--seeds", 2, "--out", tmp_path / "out"]
    code, out, err = recommend(*call)
    document = json.loads((tmp_path / "out" / "recommendation.json").read_text())
    answer, cost = document["answer"], document["cost"]
    assert (code, err) == (0, "")
    assert f"use {answer['schedule']} with a group size of {answer['group_size']}" in out
    assert ("cannot tell" in out) == (not document["decided"]) == (len(document["choices"]) > 1)
    assert f"cost: {cost['search_steps']:,} SGD steps, 100.0% of the whole grid" in out  # a small one
    assert "idfl S=4: the same run as sync S=4" in out
    assert (tmp_path / "out" / "recommendation.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out" / "recommendation.pdf").read_bytes().startswith(b"%PDF")


def test_asked_again_it_only_prints_again(recommend: Call, config: Path, tmp_path: Path) -> None:
    search = ["--budget", 250, "--group-sizes", "2,4"]  # less than the grid
    call = [*CASE, "--config", config, "--seeds", "3,", *search, "--out", tmp_path / "out"]
    first = recommend(*call)
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "pilots").rglob("*")}
    assert recommend(*call) == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "pilots").rglob("*")} == stamps
    assert all(path.name.endswith("-seed3") for path in (tmp_path / "out" / "pilots").iterdir())


def test_the_recommended_run_can_be_trained_or_its_pilot_finished_to_the_same_bits(
    recommend: Call, config: Path, tmp_path: Path
) -> None:
    search = ["--budget", 250, "--group-sizes", "2,4", "--seeds", 1]  # ends before the deadline
    code, out, _ = recommend(*CASE, "--config", config, *search, "--out", tmp_path / "out", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["train"] == f"slotwise train --config {tmp_path / 'out' / 'recommended.toml'} --out RUN"
    pilot = document["resume"].split()[-1]
    recommend("--resume", pilot, "--quiet", command="train")
    chosen = ["--config", tmp_path / "out" / "recommended.toml", "--out", tmp_path / "run", "--quiet"]
    assert recommend(*chosen, command="train")[0] == 0
    finished, anew = RunFolder(Path(pilot)).description(), RunFolder(tmp_path / "run").description()
    assert finished["status"] == "finished"
    assert finished["model_sha256"] == anew["model_sha256"]


def test_joules_to_a_target_are_a_metric(recommend: Call, config: Path, tmp_path: Path) -> None:
    metric = ["--metric", "joules-to-target", "--target", "accuracy=0.15"]
    search = ["--config", config, "--seeds", 1, "--group-sizes", "2,4", *metric]
    code, out, _ = recommend(*CASE, *search, "--out", tmp_path / "out")
    assert code == 0
    assert " J" in out
    assert "joules: until accuracy=0.15" in out


def test_an_own_task_is_searched_for(
    recommend: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(ROOT)
    case = ["--devices", 6, "--compute-slots", 4, "--deadline", 640, "--seeds", 1, "--quiet"]
    task = ["--task", "examples.own_task.logistic:make_task"]
    code, out, _ = recommend(*case, *task, "--out", tmp_path / "out")
    assert code == 0
    assert "use " in out


def test_a_fleet_from_the_file_is_searched_for(recommend: Call, config: Path, tmp_path: Path) -> None:
    config.write_text(CONFIG + 'compute-distribution = "two-classes:2:12:0.5"\nuplink-loss = 0.1\n')
    case = ["--devices", 4, "--deadline", 320, "--quiet", "--config", config]
    code, out, _ = recommend(*case, "--seeds", 1, "--group-sizes", "1,2", "--out", tmp_path / "out")
    assert code == 0
    assert "just in time" in out


def test_a_bad_deadline_names_the_file_or_the_flag_that_has_it(recommend: Call, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("deadline = 2\n")
    case = ["--devices", 4, "--compute-slots", 4, "--config", path, "--out", tmp_path / "out"]
    assert f"{path}: deadline = 2" in recommend(*case)[2]
    code, out, err = recommend(*case, "--deadline", 3)
    assert (code, out, err.count("\n"), (tmp_path / "out").exists()) == (2, "", 1, False)
    assert err.startswith("slotwise: --deadline 3")


def test_flags_override_a_file_that_is_not_valid_by_itself(
    recommend: Call, config: Path, tmp_path: Path
) -> None:
    # Four devices are four of the flag, not of a hundred of the paper's case.
    config.write_text(CONFIG + "device-compute-slots = [4, 5, 6, 7]\n")
    case = ["--devices", 4, "--deadline", 320, "--quiet", "--config", config]
    code, _, err = recommend(*case, "--seeds", 1, "--group-sizes", "1,2", "--out", tmp_path / "out")
    assert (code, err) == (0, "")


def test_a_folder_of_something_else_is_left_alone(recommend: Call, config: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    code, _, err = recommend(*CASE, "--config", config, "--out", tmp_path / "out")
    assert code == 2
    assert f"--out {tmp_path / 'out'}" in err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def command(out: Path) -> list[str]:
    """Return a command that searches for some seconds."""
    program = [sys.executable, "-c", "from slotwise.cli import main; main()", "recommend", "--quiet"]
    # The budget is below the grid, so that it is searched.
    case = ["--devices", "6", "--compute-slots", "4", "--deadline", "4000", "--seeds", "2", "--group-sizes"]
    case += ["1,3", "--budget", "70000"]
    return [*program, *case, "--task", "examples.own_task.logistic:make_task", "--out", str(out)]


def pilots(out: Path) -> int:
    return len(list(out.glob("pilots/*/run.json")))


def started(out: Path, more: int) -> subprocess.Popen[str]:
    """Start the command and return its process when it has begun so many more pilots."""
    wanted, end = pilots(out) + more, time.monotonic() + TIMEOUT
    process = subprocess.Popen(
        command(out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    while process.poll() is None and pilots(out) < wanted:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert process.poll() is None, "it was over before it could be disturbed"
    return process


@pytest.mark.slow
def test_after_a_kill_or_an_interrupt_the_same_command_resumes(tmp_path: Path) -> None:
    killed = started(tmp_path / "out", 3)
    killed.kill()
    killed.communicate(timeout=TIMEOUT)
    assert killed.returncode == -signal.SIGKILL
    interrupted = started(tmp_path / "out", 1)
    interrupted.send_signal(signal.SIGINT)
    _, err = interrupted.communicate(timeout=TIMEOUT)
    assert (interrupted.returncode, err.count("\n")) == (130, 1)
    for folder in ("out", "undisturbed"):
        subprocess.run(command(tmp_path / folder), check=True, capture_output=True, cwd=ROOT, timeout=TIMEOUT)
    one, other = (
        json.loads((tmp_path / folder / "recommendation.json").read_text())
        for folder in ("out", "undisturbed")
    )
    assert {**one, "train": "", "resume": ""} == {**other, "train": "", "resume": ""}


def test_a_task_that_fails_at_its_first_call_leaves_no_folder(
    recommend: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_failing.py").write_text(
        "import numpy\n"
        "class Task:\n"
        "    def initial_model(self): return numpy.zeros(3, 'f4')\n"
        "    def local_update(self, model, start): return 'nonsense'\n"
        "    def evaluate(self, model): return 1.0, 0.5\n"
        "    def named_arrays(self, model): return {'w': model}\n"
        "def make_task(config): return Task()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    code, _, err = recommend(*CASE, "--task", "own_failing:make_task", "--out", tmp_path / "out")
    assert code == 2
    assert "local_update" in err
    assert not (tmp_path / "out").exists()


def test_a_rule_is_searched_with_as_many_updates_as_it_needs(recommend: Call, config: Path) -> None:
    config.write_text('aggregation = "krum"\nbyzantine = 1\n' + config.read_text())
    shape = ["--devices", 6, "--compute-slots", 4, "--quiet", "--deadline", 320, "--seeds", 1]
    code, out, _ = recommend("--config", config, *shape, "--json", "--out", config.parent / "answer")
    assert code == 0
    assert json.loads(out)["question"]["group_sizes"] == [6]
    config.write_text(config.read_text().replace("byzantine = 1", "byzantine = 2"))
    code, _, errors = recommend("--config", config, *CASE, "--out", config.parent / "answer")
    assert (code, errors.count("\n")) == (2, 1)
    assert "at least 7" in errors
