"""Runs that take milliseconds: the schedule of real ones, with a task that only adds and multiplies."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.learning import Evaluation, Task, TrainingStart
from slotwise.learning.randomness import Purpose, generator
from slotwise.runs import RunConfig, RunFolder, RunResult, RunSession

sys.path.insert(0, str(Path(__file__).parent))  # option_contexts.py


class Toy:
    """Every device pulls the model towards a place of its own, with a little noise of its training."""

    def initial_model(self) -> Vector:
        return np.zeros(7, dtype=np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        noise = generator(0, Purpose.BATCHES, start.device, start.training).normal(size=7).astype(np.float32)
        update: Vector = np.float32(0.1) * (model - np.float32(start.device) + noise)
        return update

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(float(np.square(model - 3).mean()), float((model > 1).mean()))

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        return {"weight": model[:6].reshape(2, 3), "bias": model[6:]}


def train_in(folder: RunFolder, config: RunConfig, **how: Any) -> RunResult:
    """Train the run that a folder was created for, from its newest checkpoint on."""
    with RunSession(folder, config, resume=True, **how) as session:
        return session.train()


@pytest.fixture
def toy() -> Task:
    return Toy()


@pytest.fixture
def parameters() -> RunConfig:
    """40 rounds, evaluated every 10 slots."""
    return RunConfig().with_options(devices=6, group_size=2, compute_slots=2, deadline=122, evaluate_every=10)


@pytest.fixture
def folder(tmp_path: Path, parameters: RunConfig) -> RunFolder:
    return RunFolder.create(tmp_path / "run", parameters)
