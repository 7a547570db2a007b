"""A rule of the user's own, as docs/own-aggregation.md shows it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from slotwise.aggregation import AggregationConfig, Contribution
from slotwise.runs import RunConfig, run

ROOT = Path(__file__).parents[2]
NAME = "examples.own_aggregation.trimmed_mean:trimmed_mean"


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(ROOT)


def test_the_page_shows_the_file() -> None:
    page = (ROOT / "docs/own-aggregation.md").read_text(encoding="utf-8")
    shown = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    source = (ROOT / "examples/own_aggregation/trimmed_mean.py").read_text(encoding="utf-8")
    assert shown is not None
    assert shown[1] == source
    assert source.count("\n") <= 20


def test_the_example_drops_the_extremes_of_every_coordinate() -> None:
    updates = np.array([[1, 5], [2, 4], [3, 3], [4, 2], [1000, -1000]], dtype=np.float32)
    model = np.zeros(2, dtype=np.float32)
    sent = [Contribution(update, 0, model) for update in updates]
    assert AggregationConfig(aggregation=NAME).rule()(model, sent).tolist() == [-3.0, -3.0]


def test_a_run_uses_the_rule_it_names(tmp_path: Path) -> None:
    options = {"task": "examples.own_task.logistic:make_task", "devices": 10, "group_size": 5}
    config = RunConfig.from_options(
        {**options, "compute_slots": 2, "deadline": 200, "samples_per_device": 20, "aggregation": NAME}
    )
    trimmed = run(config, tmp_path / "trimmed")
    plain = run(config.with_options(aggregation="mean"), tmp_path / "mean")
    assert trimmed.history.loss[-1] < trimmed.history.loss[0]
    assert not np.array_equal(trimmed.history.model, plain.history.model)


def test_the_command_line_accepts_it_by_name(tmp_path: Path) -> None:
    arguments = ["train", "--aggregation", NAME, "--task", "examples.own_task.logistic:make_task"]
    more = ["--devices", "4", "--group-size", "2", "--deadline", "60", "--compute-slots", "2", "--quiet"]
    command = [sys.executable, "-c", "from slotwise.cli import main; main()", *arguments, *more]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "run")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run/run.json").read_text())["parameters"]["aggregation"] == NAME
