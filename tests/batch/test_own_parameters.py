"""Sweeps over parameters of the user's own task, rule, policy, selection, partition and others."""

import csv
import json
import sys
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.base.errors import UserError
from slotwise.batch import BatchObserver, BatchSpec, Job, SerialExecutor, run_batch
from slotwise.cli import main
from slotwise.data import Dataset, data_source, load_mnist
from slotwise.runs import RunConfig, RunFolder

Options = dict[str, Any]
SpecOf = Callable[[Options, str, list[Any]], BatchSpec]
CODE = """
import numpy as np
from slotwise.schedule import IntentionalDelay

class Quadratic:
    def __init__(self, size, rate, devices):
        self.size, self.rate, self.devices = size, rate, devices
    def initial_model(self):
        return np.ones(self.size, np.float32)
    def local_update(self, model, start):
        return (self.rate * (model - start.device / self.devices)).astype(np.float32)
    def evaluate(self, model):
        return float((model**2).sum()), 0.5
    def named_arrays(self, model):
        return {"w": model}

def task(config, *, size: int = 3, rate: float = 0.5):
    return Quadratic(size, rate, config.channel.devices)

def other(config, *, slope: float = 0.5):
    return Quadratic(2, slope, config.channel.devices)

def rule(model, contributions, *, shrink: float = 1.0):
    total = sum(sent.update.astype(np.float64) for sent in contributions)
    return (model - shrink * total / len(contributions)).astype(np.float32)

def policy(seed, *, delay: int = 0):
    return IntentionalDelay(delay=delay)

def step(weights, gradient, context, *, scale: float = 1.0):
    weights -= scale * context.learning_rate * gradient

def split(dataset, devices, generator, *, first: int = 0):
    return [np.arange(first + 8 * device, first + 8 * device + 8) for device in range(devices)]

def prune(update, draw, *, least: float = 0.0):
    return np.where(abs(update) < least, np.float32(0), update), 32 * len(update)

def norm(model, task, *, order: int = 2):
    return float((abs(model) ** order).sum() ** (1 / order))

def pick(waiting, round_number, last_sender, *, stride: int = 1):
    return max(waiting, key=lambda update: update.device * stride % 7)

class Link:
    planned_broadcast_slots = 1
    def __init__(self, devices, slots):
        self.planned_slots = (slots,) * devices
    def uplink(self, device, slot, attempt):
        return self.planned_slots[device - 1], False
    def broadcast(self, receivers, slot):
        return 1
    def snr_db(self, slot):
        return np.zeros(len(self.planned_slots))

def link(scenario, seed, *, slots: int = 1):
    return Link(scenario.devices, slots)
"""
BASE = {"devices": 6, "group_size": 2, "compute_slots": 3, "deadline": 100, "evaluate_every": 50}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(CODE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    return name


def without_seconds(found: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in found]


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


KINDS = {
    "task": ({}, "task_options.rate", [0.1, 0.5]),
    "rule": ({"aggregation": "OWN:rule"}, "aggregation_options.shrink", [0.5, 1.0]),
    "policy": ({"schedule": "OWN:policy"}, "schedule_options.delay", [0, 1]),
    "selection": ({"schedule": "async", "selection": "OWN:pick"}, "selection_options.stride", [1, 3]),
    "participation": (
        {"schedule": "sync", "participation": "OWN:pick"},
        "participation_options.stride",
        [1, 3],
    ),
    "link": ({"radio_link": "OWN:link"}, "radio_link_options.slots", [1, 3]),
    "metric": ({"own_metric": "OWN:norm"}, "own_metric_options.order", [1, 3]),
    "compressor": ({"compressor": "OWN:prune"}, "compressor_options.least", [0.1, 0.5]),
    "partition": ({"task": None, "partition": "OWN:split"}, "partition_options.first", [0, 9]),
    "step": (
        {"task": None, "samples_per_device": 9, "local_step": "OWN:step"},
        "local_step_options.scale",
        [0.5, 1.0],
    ),
}


def options_of(kind: str, own: str) -> Options:
    """Return the options that name the user's function, and a task of theirs or the fastest network."""
    given = {**BASE, "task": "OWN:task", **KINDS[kind][0]}
    given |= {"network": "logistic"} if given["task"] is None else {}
    return {n: v.replace("OWN", own) if isinstance(v, str) else v for n, v in given.items() if v is not None}


def lines(options: Options) -> str:
    return "".join(f"{name.replace('_', '-')} = {json.dumps(value)}\n" for name, value in options.items())


def toml(options: Options, parameter: str, values: Any, case: str = "") -> str:
    """Return options, and the table with the parameter of the function, as a file has them."""
    table, _, name = parameter.partition(".")
    return f"{lines(options)}[{case}{table.replace('_', '-')}]\n{lines({name: values})}"


def from_file(options: Options, parameter: str, values: list[Any]) -> BatchSpec:
    Path("sweep.toml").write_text(toml(options, parameter, values))
    return BatchSpec.read(Path("sweep.toml"))


def from_table(options: Options, parameter: str, values: list[Any]) -> BatchSpec:
    table, _, name = parameter.partition(".")
    return BatchSpec.of({"mine": {**options, table: {name: values}}})


def from_config(options: Options, parameter: str, values: list[Any]) -> BatchSpec:
    return BatchSpec.of({"mine": RunConfig.from_options(options)}, axes={parameter: values})


class Trained(BatchObserver):
    """Keeps which runs were begun, and asks to stop after a number of questions."""

    def __init__(self, stop_after: float = inf) -> None:
        self.runs: list[str] = []
        self.left = stop_after

    def job_started(self, job: Job) -> None:
        self.runs.append(job.run.name)

    def wants_stop(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.fixture(scope="module")
def few_images() -> Dataset:
    whole = vars(load_mnist())
    return Dataset(**{n: v[:300] if isinstance(v, np.ndarray) else v for n, v in whole.items()})


@pytest.mark.parametrize("spec_of", [from_file, from_table, from_config])
@pytest.mark.parametrize("kind", KINDS)
def test_a_parameter_is_an_axis_and_a_column_and_nothing_is_trained_twice(
    own: str, tmp_path: Path, kind: str, spec_of: SpecOf, few_images: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_source, "load_mnist", lambda: few_images)
    options, (_, parameter, values) = options_of(kind, own), KINDS[kind]
    first, again = Trained(), Trained()
    spec = spec_of(options, parameter, values)
    results = run_batch(spec, tmp_path / "out", executor=SerialExecutor(), observer=first)
    assert sorted(first.runs) == sorted(run.name for run in spec.runs)
    assert results.columns()[parameter] == values
    found = rows(tmp_path / "out")
    assert [row[parameter] for row in found] == [str(value) for value in values]
    assert [row["status"] for row in found] == ["finished"] * 2
    assert len({(row["final_loss"], row.get("final_norm")) for row in found}) == 2
    spec = spec_of(options, parameter, values)
    run_batch(spec, tmp_path / "out", executor=SerialExecutor(), observer=again)
    assert again.runs == []
    assert rows(tmp_path / "out") == found


@pytest.mark.parametrize("kind", [kind for kind, (options, *_) in KINDS.items() if "task" not in options])
def test_a_sweep_that_was_stopped_resumes_and_one_more_value_is_trained_alone(
    own: str, tmp_path: Path, kind: str
) -> None:
    options, (_, parameter, values) = options_of(kind, own), KINDS[kind]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    spec = from_file(options, parameter, values)
    run_batch(spec, whole, executor=SerialExecutor())
    run_batch(spec, stopped, executor=SerialExecutor(), observer=Trained(stop_after=8))
    assert "interrupted" in {row["status"] for row in rows(stopped)}
    run_batch(spec, stopped, executor=SerialExecutor())
    assert without_seconds(rows(stopped)) == without_seconds(rows(whole))
    more, added = from_file(options, parameter, [*values, 2]), Trained()
    run_batch(more, stopped, executor=SerialExecutor(), observer=added)
    assert added.runs == [more.runs[-1].name]
    assert without_seconds(rows(stopped)[:2]) == without_seconds(rows(whole))


def test_the_command_sweeps_over_all_of_them_in_processes(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [kind for kind, (options, *_) in KINDS.items() if "task" not in options]
    cases = [
        f'[[case]]\nname = "{kind}"\n{toml(options_of(kind, own), *KINDS[kind][1:], "case.")}'
        for kind in kinds
    ]
    (tmp_path / "all.toml").write_text("".join(cases))
    monkeypatch.setattr(
        sys, "argv", ["slotwise", "sweep", "all.toml", "--out", "out", "--workers", "2", "--quiet"]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    found = rows(tmp_path / "out")
    assert {row["status"] for row in found} == {"finished"}
    for kind in kinds:
        _, parameter, values = KINDS[kind]
        assert [row[parameter] for row in found if row["case"] == kind] == [str(value) for value in values]
        assert {row[parameter] for row in found if row["case"] != kind} == {""}


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("[case.task-options]\nrate = 0.1\n", {"rate": 0.1, "size": 4}),
        ("[case.task-options]\nsize = 5\n", {"size": 5}),
        ('task = "OWN:task"\n[case.task-options]\nrate = 0.1\n', {"rate": 0.1, "size": 4}),
        ('task = "OWN:other"\n[case.task-options]\nslope = 0.1\n', {"slope": 0.1}),
    ],
)
def test_parameters_of_a_case_join_those_at_the_top_of_the_same_function(
    own: str, tmp_path: Path, case: str, expected: dict[str, Any]
) -> None:
    common = toml({**BASE, "task": f"{own}:task"}, "task_options.size", 4)
    (tmp_path / "cases.toml").write_text(f'{common}[[case]]\nname = "mine"\n{case.replace("OWN", own)}')
    (run,) = BatchSpec.read(tmp_path / "cases.toml").runs
    assert run.config.options()["task_options"] == expected


def test_a_file_has_them_in_a_table_and_run_json_keeps_them(own: str, tmp_path: Path) -> None:
    options = "".join(f"{name.replace('_', '-')} = {value}\n" for name, value in BASE.items())
    text = f'task = "{own}:task"\n{options}[task-options]\nsize = 4\nrate = [0.1, 0.5]\n'
    (tmp_path / "sweep.toml").write_text(text)
    spec = BatchSpec.read(tmp_path / "sweep.toml")
    run_batch(spec, tmp_path / "out", executor=SerialExecutor())
    saved = [RunFolder.open(tmp_path / "out" / "runs" / run.name) for run in spec.runs]
    assert [folder.parameters().options()["task_options"] for folder in saved] == [
        {"rate": 0.1, "size": 4},
        {"rate": 0.5, "size": 4},
    ]
    assert json.loads((saved[0].path / "run.json").read_text())["parameters"]["task_options"]["size"] == 4


@pytest.mark.parametrize(
    ("choice", "function", "signature"),
    [
        ("task", "task", r"task\(config"),
        ("partition", "split", r"split\(dataset, devices, generator"),
        ("local_step", "step", r"step\(weights, gradient, context"),
    ],
)
def test_a_wrong_parameter_is_refused_before_anything_is_trained(
    own: str, choice: str, function: str, signature: str
) -> None:
    wrong = {choice: f"{own}:{function}", f"{choice}_options": {"depth": [1, 2]}}
    with pytest.raises(UserError, match=signature):
        BatchSpec.of({"mine": {**BASE, **wrong}})
