"""A run that leaves the finite numbers ends at once and keeps what there was."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from slotwise.aggregation import Vector
from slotwise.learning import Diverged, Evaluation, History, Task, TaskWrapper, TrainingStart, train
from slotwise.learning.task import DeviceState
from slotwise.scenario import Scenario
from slotwise.schedule import simulate

TIMELINE = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=12)


class Poisoned(TaskWrapper):
    """Device 1 adds ``poison`` to its second update (round 3); the loss may turn infinite."""

    def __init__(self, task: Task, poison: float = 0.0, bad_loss_from: int | None = None) -> None:
        super().__init__(task)
        self._poison, self._bad_loss_from, self._evaluations = np.float32(poison), bad_loss_from, 0

    def sent(self, update: Vector, start: TrainingStart) -> Vector:
        return update + self._poison if (start.device, start.training) == (1, 1) else update

    def evaluate_devices(self, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:
        self._evaluations += 1
        evaluation = super().evaluate_devices(model, states)
        is_bad = self._bad_loss_from is not None and self._evaluations > self._bad_loss_from
        return evaluation._replace(loss=float("inf")) if is_bad else evaluation


@pytest.fixture
def task(least_squares: Callable[[int, int], Task]) -> Task:
    return least_squares(6, 0)


def diverged(task: Task, **options: object) -> Diverged:
    with pytest.raises(Diverged) as caught:
        train(TIMELINE, task, **options)  # type: ignore[arg-type]
    return caught.value


def finite(history: History) -> bool:
    return all(np.isfinite(model).all() for model in history.models.values())


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_round_is_named_and_the_message_says_what_to_try(task: Task, poison: float, workers: int) -> None:
    error = diverged(Poisoned(task, poison), workers=workers)
    assert error.round == 3
    assert all(name in str(error) for name in ("round 3", "model", "learning_rate", "local_steps"))


def test_models_before_are_kept_and_large_numbers_or_losses_end_the_run(task: Task) -> None:
    error = diverged(Poisoned(task, float("nan")), evaluate_every=1)
    undisturbed = train(TIMELINE, task, evaluate_every=1)
    assert error.history.rounds == 3
    assert error.history.points == undisturbed.points[:4]
    assert finite(error.history)
    error = diverged(Poisoned(task, 3e38), aggregation=lambda model, updates: model - updates[0].update * 2)
    assert error.round == 3
    error = diverged(Poisoned(task, bad_loss_from=4), evaluate_every=1)
    assert error.round == 4
    assert "the loss is not finite" in str(error)
    assert [point.round for point in error.history.points] == [0, 1, 2, 3]
    assert finite(error.history)
