"""A task that trains in no time, and questions about it."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.learning import Evaluation, Task, TrainingStart
from slotwise.recommendation import elimination
from slotwise.recommendation.elimination import Question
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


def make_question(
    sizes: tuple[int, ...] = (1, 2, 3, 6),
    seeds: tuple[int, ...] = (0, 1),
    metric: Metric | None = None,
    budget: int | None = None,
    **options: object,
) -> Question:
    """Return a question about a case of milliseconds."""
    base = RunConfig.from_options({**OPTIONS, **options})
    return Question(base, sizes, seeds, metric or Metric(), budget)


@pytest.fixture
def question() -> Callable[..., Question]:
    """A question about a case of milliseconds."""
    return make_question


@pytest.fixture
def no_grid_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search also in cases of milliseconds, which would be trained as a whole."""
    monkeypatch.setattr(elimination, "SMALL_GRID", 0)
