"""Sweeps over parameters of the user's own task, rule, policy, selection, partition and others."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from slotwise.batch import BatchSpec, SerialExecutor, run_batch
from slotwise.errors import UserError
from slotwise.runs import RunConfig, RunFolder

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

def rule(model, contributions, *, shrink: float = 1.0):
    total = sum(sent.update.astype(np.float64) for sent in contributions)
    return (model - shrink * total / len(contributions)).astype(np.float32)

def policy(seed, *, delay: int = 0):
    return IntentionalDelay(delay=delay)

def step(weights, gradient, context, *, scale: float = 1.0):
    weights -= scale * context.learning_rate * gradient

def split(dataset, devices, generator, *, first: int = 0):
    return [np.arange(first + 8 * device, first + 8 * device + 8) for device in range(devices)]

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


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("options", "parameter", "values"),
    [
        ({}, "task_options.rate", [0.1, 0.5]),
        ({"aggregation": "OWN:rule"}, "aggregation_options.shrink", [0.5, 1.0]),
        ({"schedule": "OWN:policy"}, "schedule_options.delay", [0, 1]),
        ({"schedule": "async", "selection": "OWN:pick"}, "selection_options.stride", [1, 3]),
        ({"schedule": "sync", "participation": "OWN:pick"}, "participation_options.stride", [1, 3]),
        ({"radio_link": "OWN:link"}, "radio_link_options.slots", [1, 3]),
        ({"task": None, "local_step": "OWN:step"}, "local_step_options.scale", [0.5, 1.0]),
        ({"task": None, "partition": "OWN:split"}, "partition_options.first", [0, 9]),
    ],
)
def test_a_parameter_is_an_axis_and_a_column(
    own: str, tmp_path: Path, options: dict[str, Any], parameter: str, values: list[Any]
) -> None:
    given = {**BASE, "task": "OWN:task", **options}
    given |= {"network": "logistic"} if given["task"] is None else {}
    named = {n: v.replace("OWN", own) if isinstance(v, str) else v for n, v in given.items() if v is not None}
    spec = BatchSpec.of({"mine": named}, axes={parameter: values})
    run_batch(spec, tmp_path / "out", executor=SerialExecutor())
    found = rows(tmp_path / "out")
    assert [row[parameter] for row in found] == [str(value) for value in values]
    assert len({row["final_loss"] for row in found}) == 2


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


def test_the_table_of_options_restores_them(own: str) -> None:
    config = RunConfig.from_options({**BASE, "task": f"{own}:task", "task_options": {"size": 5}})
    assert RunConfig.from_saved(json.loads(json.dumps(config.options()))) == config
    assert config.with_options(devices=8).options()["task_options"] == {"size": 5}
