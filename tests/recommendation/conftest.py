"""A task that trains in no time, and questions about it."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.learning import Evaluation, Task, TrainingStart
from slotwise.recommendation.answer import Question
from slotwise.recommendation.candidates import Field
from slotwise.recommendation.halving import Extent, most_steps
from slotwise.recommendation.metric import Metric
from slotwise.runs import RunConfig

OPTIONS = {"devices": 6, "group_size": 1, "compute_slots": 4, "deadline": 320, "local_steps": 1}


class Pulling:
    """Each device pulls the model towards a place of its own; stale pulls overshoot."""

    def __init__(self, config: RunConfig) -> None:
        self._seed = config.seed
        self.trainings: list[tuple[int, int]] = []

    def initial_model(self) -> Vector:
        return np.full(5, 8.0, dtype=np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        self.trainings.append((start.device, start.training))
        place = np.float32(0.2 * start.device + 0.05 * self._seed)
        update: Vector = np.float32(0.3) * (model - place)
        return update

    def evaluate(self, model: Vector) -> Evaluation:
        loss = float(np.square(model - 0.7).mean())
        return Evaluation(loss, 1 / (1 + loss))

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        return {"model": model}


def most_steps_of(field: Field, extent: Extent, local_steps: int) -> int:
    """Return the most steps a search can take with all its seeds."""
    updates = [[prospect.updates for prospect in c.prospects[: extent.seeds]] for c in field.running]
    steps = [[local_steps * sum(numbers) for numbers in zip(*of, strict=True)] for of in updates]
    return most_steps(extent.rungs, steps)


class Tasks(list[Pulling]):
    """Builds tasks and remembers them."""

    def make(self, config: RunConfig) -> Task:
        self.append(Pulling(config))
        return self[-1]

    @property
    def trainings(self) -> int:
        """Local trainings of all tasks."""
        return sum(len(task.trainings) for task in self)


@pytest.fixture
def tasks() -> Tasks:
    return Tasks()


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
