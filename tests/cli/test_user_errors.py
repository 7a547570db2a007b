"""Errors in a task of the user's own."""

import sys
from pathlib import Path

import pytest

from slotwise.base.errors import UserError
from slotwise.base.user_code import user_traceback
from slotwise.runs import RunFolder

TASK = """
import numpy as np
from slotwise.learning import Evaluation

class Failing:
    def initial_model(self):
        return np.zeros(3, dtype=np.float32)

    def local_update(self, model, start):
        return self.deeper(model)

    def deeper(self, model):
        return np.concatenate([model, "three"])

    def evaluate(self, model):
        return Evaluation(0.0, 0.0)

    def named_arrays(self, model):
        return {"model": model}

def make(parameters):
    return Failing()
"""


@pytest.fixture
def task(tmp_path, monkeypatch):
    (tmp_path / "failing_task.py").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "failing_task:make"
    sys.modules.pop("failing_task", None)


def test_they_are_shown_from_where_that_code_begins(slotwise, task, tmp_path):
    code, _, errors = slotwise(
        "train", "--task", task, "--deadline", 200, "--out", tmp_path / "run", "--quiet"
    )
    assert code == 1
    shown = [line.split(", in ")[1] for line in errors.splitlines() if ", in " in line]
    assert shown == ["local_update", "deeper"]
    assert errors.splitlines()[-1] == "slotwise: the error is in your code, not in slotwise"


CORRECTED = "when this is corrected, continue it with"
CHOOSING = """
from pathlib import Path

def choose(decision, learning):
    if decision.round == 3 and Path("fail").exists():
        raise ValueError("boom")
    return decision.allowed[: decision.count]
"""


def test_one_that_fails_in_the_middle_says_how_to_go_on(slotwise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "choosing.py").write_text(CHOOSING)
    (tmp_path / "fail").touch()
    options = "--schedule sync --devices 4 --group-size 2 --compute-slots 3 --deadline 60 --network logistic"
    options += " --samples-per-device 8 --participation choosing:choose --quiet"
    code, _, err = slotwise("train", *options.split(), "--out", "a run")
    resuming = "slotwise train --resume 'a run'"
    assert (code, err.count("\n")) == (2, 1)
    assert err.endswith(f"boom (choosing.py, line 6); the run is saved; {CORRECTED}: {resuming}\n")
    (tmp_path / "fail").unlink()
    code, out, _ = slotwise("train", "--resume", "a run", "--quiet")
    assert (code, out.split()[0]) == (0, "finished")


def test_errors_of_slotwise_itself_are_not_taken_for_the_users():
    with pytest.raises(UserError) as caught:
        RunFolder.open(Path("nowhere"))
    assert user_traceback(caught.value) is None


@pytest.mark.parametrize(
    ("flag", "function"),
    [
        ("--selection", "def given(waiting, round_number, last_sender): return waiting[99]"),
        ("--radio-link", "def given(scenario, seed): return seed / 0"),
        ("--schedule", "def given(seed): return seed / 0"),
    ],
)
def test_one_that_fails_in_the_schedule_is_named_with_its_place(
    slotwise, tmp_path, monkeypatch, flag, function
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"failing_{abs(hash((flag, function)))}"
    (tmp_path / f"{name}.py").write_text(function + "\n")
    code, out, err = slotwise("timeline", flag, f"{name}:given", "--deadline", "100")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"({name}.py, line 1)" in err


@pytest.mark.parametrize(
    ("flag", "function"),
    [
        ("--aggregation", "def given(model): return model"),
        ("--selection", "def given(): return None"),
        ("--schedule", "def given(seed, more): return None"),
        ("--schedule", "import sys\ngiven = sys.exit"),
        ("--task", "def given(): return None"),
        ("--task", "given = 3"),
    ],
)
def test_a_function_that_does_not_fit_is_refused_before_anything_is_written(
    slotwise, tmp_path, monkeypatch, flag, function
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"given_{abs(hash((flag, function)))}"
    (tmp_path / f"{name}.py").write_text(function + "\n")
    code, out, err = slotwise("train", flag, f"{name}:given", "--deadline", "100", "--out", "run", "--quiet")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert name in err
    assert not (tmp_path / "run").exists()
