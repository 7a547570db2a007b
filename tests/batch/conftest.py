"""Batches of runs that train in a moment."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise.batch import BatchFolder, BatchSpec
from slotwise.runs import RunFolder
from slotwise.runs import run as train_run

TINY = """
devices = 4
group-size = 2
compute-slots = 4
deadline = 60
samples-per-device = 20
local-steps = 1
batch-size = 8
channels = [2]
hidden = []
evaluate-every = 30
"""

# Runs of about a second that cost next to nothing: long enough to be killed in.
LONG = "deadline = 4000\nevaluate-every = 2000\nlearning-rate = [0.01, 0.02, 0.03, 0.04]"

Read = Callable[[str], BatchSpec]
Outcomes = dict[str, tuple[str, bytes]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a specification of tiny runs; options of ``text`` have precedence."""

    def read_text(text: str) -> BatchSpec:
        path = tmp_path / "grid.toml"
        path.write_text(with_tiny(text))
        return BatchSpec.read(path)

    return read_text


def with_tiny(text: str) -> str:
    """Add the options of tiny runs that ``text`` does not give before its first table."""
    named = {line.split("=")[0].strip() for line in re.split("^\\[", text, flags=re.M)[0].splitlines()}
    if named & {"fleet-file", "compute-distribution", "device-compute-slots"}:
        named.add("compute-slots")
    rest = [line for line in TINY.splitlines() if line.split("=")[0].strip() not in named]
    return "\n".join([*rest, text]) + "\n"


@pytest.fixture
def train_all() -> Callable[[BatchFolder, BatchSpec], None]:
    """Trains one run after another with `run`: every executor must come to the same."""

    def train(folder: BatchFolder, spec: BatchSpec) -> None:
        for run in spec.runs:
            train_run(run.config, folder.run(run.name).path)

    return train


@pytest.fixture(scope="session")
def long_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcomes]:
    """A file of runs that are long enough to be killed in, and their results without that."""
    return trained_here(tmp_path_factory.mktemp("long") / "grid.toml", LONG)


def trained_here(path: Path, text: str) -> tuple[Path, Outcomes]:
    """Write a file, and train its runs in this process."""
    path.write_text(with_tiny(text))
    runs = BatchSpec.read(path).runs
    for run in runs:
        train_run(run.config, path.parent / run.name)
    return path, {run.name: _finished(RunFolder(path.parent / run.name)) for run in runs}


@pytest.fixture
def outcome() -> Callable[[BatchFolder], Outcomes]:
    """Returns the model and the curve of every run, all of which must be finished."""
    return lambda folder: {path.name: _finished(RunFolder.open(path)) for path in folder.runs.iterdir()}


def _finished(run: RunFolder) -> tuple[str, bytes]:
    assert run.status == "finished"
    return run.description()["model_sha256"], (run.path / "history.csv").read_bytes()


@pytest.fixture
def own_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Options of tiny runs with a task of the user's, which kills its process at a learning rate of 0.2."""
    (tmp_path / "deadly_task.py").write_text(DEADLY)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])  # as where a script of the user is
    options = {"devices": 4, "group_size": 2, "compute_slots": 4, "deadline": 60}
    return {**options, "task": "deadly_task:make_task"}


DEADLY = """
import os, signal
import numpy as np

class Deadly:
    def __init__(self, rate):
        self.rate = rate
    def initial_model(self):
        return np.ones(3, dtype=np.float32)
    def local_update(self, model, start):
        if self.rate == 0.2:
            os.kill(os.getpid(), signal.SIGKILL)
        return model / 2
    def evaluate(self, model):
        return 1.0, 0.5
    def named_arrays(self, model):
        return {"model": model}

def make_task(config):
    return Deadly(config.training.learning_rate)
"""
