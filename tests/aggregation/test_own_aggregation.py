"""Rules of the user's own, as docs/own-aggregation.md shows them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from slotwise.aggregation import RULE, Contribution, next_model
from slotwise.base.errors import UserError
from slotwise.options import loaded, resolved
from slotwise.runs import Observer, RunConfig, RunFolder, resume, run

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    name: f"examples.own_aggregation.{name}:{name}"
    for name in ("geometric_median", "device_memory", "by_channel")
}
OPTIONS = {
    **{"task": "examples.own_task.logistic:make_task", "devices": 10, "group_size": 5},
    **{"compute_slots": 2, "deadline": 200, "samples_per_device": 20},
}


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(ROOT)


def test_the_page_shows_the_files() -> None:
    page = (ROOT / "docs/own-aggregation.md").read_text(encoding="utf-8")
    shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    sources = [
        (ROOT / f"examples/own_aggregation/{name}.py").read_text(encoding="utf-8") for name in EXAMPLES
    ]
    assert shown[: len(sources)] == sources  # the blocks after them show how to add a built-in rule
    assert all(source.count("\n") <= 20 for source in sources)


def test_the_geometric_median_is_not_moved_by_a_wild_update() -> None:
    updates = np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [1e6, 1e6]], dtype=np.float32)
    model = np.zeros(2, dtype=np.float32)
    sent = [Contribution(update, 0, model) for update in updates]
    found, _ = next_model(loaded(resolved(RULE, EXAMPLES["geometric_median"])), model, sent)
    assert np.abs(found).max() < 2


def test_the_memory_averages_the_latest_update_of_every_device() -> None:
    rule, model = loaded(resolved(RULE, EXAMPLES["device_memory"])), np.zeros(1, np.float32)

    def sent(device: int, value: float) -> Contribution:
        return Contribution(np.array([value], dtype=np.float32), 0, model, device)

    model, state = next_model(rule, model, [sent(1, 2.0), sent(2, 4.0)])
    assert model.tolist() == [-3.0]
    model, state = next_model(rule, model, [sent(1, 8.0)], state)
    assert model.tolist() == [-9.0]
    assert {name: array.tolist() for name, array in state.items()} == {"device1": [8.0], "device2": [4.0]}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_run_uses_the_rule_it_names(tmp_path: Path, name: str) -> None:
    radio = {"radio_link": "rate-adaptive", "radio_bits": 9000, "radio_broadcast_bits": 900}
    channel = radio if name == "by_channel" else {}
    config = RunConfig.from_options({**OPTIONS, **channel, "aggregation": EXAMPLES[name]})
    own = run(config, tmp_path / "own")
    plain = run(config.with_options(aggregation="mean"), tmp_path / "mean")
    assert own.history.loss[-1] < own.history.loss[0]
    assert not np.array_equal(own.history.model, plain.history.model)


def test_the_command_line_accepts_it_by_name(tmp_path: Path) -> None:
    name = EXAMPLES["device_memory"]
    arguments = ["train", "--aggregation", name, "--task", "examples.own_task.logistic:make_task"]
    more = ["--devices", "4", "--group-size", "2", "--deadline", "60", "--compute-slots", "2", "--quiet"]
    command = [sys.executable, "-c", "from slotwise.cli import main; main()", *arguments, *more]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "run")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run/run.json").read_text())["parameters"]["aggregation"] == name


class StopAfter(Observer):
    def __init__(self, rounds: int) -> None:
        self._left = rounds

    def round_done(self, round_number: int) -> None:
        self._left -= 1

    def wants_stop(self) -> bool:
        return self._left <= 0


@pytest.mark.parametrize(
    "rule", [EXAMPLES["device_memory"], "fedavgm", "fedadam", "fedyogi", "delay-adaptive"]
)
def test_an_interrupted_run_is_resumed_with_the_state_of_its_rule(tmp_path: Path, rule: str) -> None:
    config = RunConfig.from_options({**OPTIONS, "aggregation": rule, "schedule": "async"})
    straight = run(config, tmp_path / "straight")
    stopped = run(config, tmp_path / "stopped", observer=StopAfter(7))
    assert (stopped.status, stopped.history.rounds) == ("interrupted", 7)
    assert stopped.history.rule_state
    resumed = resume(tmp_path / "stopped", observer=StopAfter(5))
    assert resumed.history.rounds == 12
    resumed = resume(tmp_path / "stopped")
    names = [
        RunFolder.open(tmp_path / name).description()["model_sha256"] for name in ("straight", "stopped")
    ]
    assert names[0] == names[1]
    for name, array in straight.history.rule_state.items():
        assert np.array_equal(resumed.history.rule_state[name], array)


FAILING = """
import numpy as np
def rule(model, contributions, state):
    count = int(state.get("count", 0)) + 1
    if count == 5 and not WORKS:
        FAILURE
    total = sum(sent.update for sent in contributions)
    return model - total / np.float32(len(contributions)) / np.float32(count), {"count": count}
"""
FAILURES = {
    "error": ("raise RuntimeError('no more')", RuntimeError),
    "no pair": ("return model", UserError),
    "no model": ("return None, state", UserError),
    "no state": ("return model, 3", UserError),
    "text in the state": ("return model, {'name': 'x'}", UserError),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_rule_that_fails_leaves_a_run_that_is_resumed_when_it_is_corrected(
    tmp_path: Path, failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, kind = FAILURES[failure]
    module = f"failing_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text("WORKS = False\n" + FAILING.replace("FAILURE", line))
    monkeypatch.syspath_prepend(tmp_path)
    config = RunConfig.from_options({**OPTIONS, "aggregation": f"{module}:rule"})
    with pytest.raises(kind) as caught:
        run(config, tmp_path / "run")
    assert "\n" not in str(caught.value)
    description = RunFolder.open(tmp_path / "run").description()
    assert (description["status"], description["rounds"]) == ("interrupted", 4)
    assert type(caught.value).__name__ in description["error"]
    monkeypatch.setattr(sys.modules[module], "WORKS", True)
    resume(tmp_path / "run")
    run(config, tmp_path / "straight")
    ends = [RunFolder.open(tmp_path / name).description() for name in ("run", "straight")]
    assert ends[0]["model_sha256"] == ends[1]["model_sha256"]
    assert ends[0]["status"] == "finished"
    assert "error" not in ends[0]
