"""A task that trains in no time, and questions about it."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.learning import Evaluation, Task
from slotwise.recommendation.candidates import Field
from slotwise.recommendation.halving import Extent, most_steps
from slotwise.recommendation.metric import Metric
from slotwise.recommendation.pilots import PilotTasks
from slotwise.recommendation.question import Question
from slotwise.runs import RunConfig

OPTIONS = {"devices": 6, "group_size": 1, "compute_slots": 4, "deadline": 320, "local_steps": 1}


class Pulling:
    """Each device pulls the model towards a place of its own; stale pulls overshoot."""

    def __init__(self, parameters: RunConfig) -> None:
        self._seed = parameters.seed
        self.trainings: list[tuple[int, int]] = []

    def initial_model(self) -> Vector:
        return np.full(5, 8.0, dtype=np.float32)

    def local_update(self, model: Vector, device: int, training: int) -> Vector:
        self.trainings.append((device, training))
        place = np.float32(0.2 * device + 0.05 * self._seed)
        update: Vector = np.float32(0.3) * (model - place)
        return update

    def evaluate(self, model: Vector) -> Evaluation:
        loss = float(np.square(model - 0.7).mean())
        return Evaluation(loss, 1 / (1 + loss))

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        return {"model": model}


def most_steps_of(field: Field, extent: Extent, local_steps: int) -> int:
    """What a search costs at most with all its seeds, whoever is better."""
    updates = [[prospect.updates for prospect in c.prospects[: extent.seeds]] for c in field.running]
    steps = [[local_steps * sum(numbers) for numbers in zip(*of, strict=True)] for of in updates]
    return most_steps(extent.rungs, steps)


@pytest.fixture
def made() -> list[Pulling]:
    """Every task that was made, one for each seed in turn."""
    return []


@pytest.fixture
def tasks(made: list[Pulling]) -> PilotTasks:
    def make(parameters: RunConfig) -> Task:
        made.append(Pulling(parameters))
        return made[-1]

    return PilotTasks(make)


@pytest.fixture
def question() -> Callable[..., Question]:
    """A question about a case of milliseconds."""

    def make(
        sizes: tuple[int, ...] = (1, 2, 3, 6),
        seeds: tuple[int, ...] = (0, 1),
        metric: Metric | None = None,
        budget: int | None = None,
        **options: object,
    ) -> Question:
        base = RunConfig.from_options({**OPTIONS, **options})
        return Question(base, sizes, seeds, metric or Metric(), budget)

    return make
