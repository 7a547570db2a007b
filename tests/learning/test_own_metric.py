from typing import Any

import numpy as np
import pytest

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.learning import Evaluation, OwnMetric, Task, TrainingStart


class Still(Task):
    """A task that does not train; its evaluation has one metric."""

    def initial_model(self) -> Vector:
        return np.ones(4, np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        return np.zeros_like(model)

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(1.0, 0.5, {"f1": 0.25})


def total(model: Vector, task: Task) -> float:
    assert type(task) is Still
    return float(model.sum())


def sizes(model: Vector, task: Task) -> dict[str, float]:
    return {"least": model.min(), "most": model.max()}


@pytest.mark.parametrize(
    ("metric", "expected"), [(total, {"total": 4.0}), (sizes, {"least": 1.0, "most": 1.0})]
)
def test_evaluations_have_metrics_of_both(metric: Any, expected: dict[str, float]) -> None:
    found = OwnMetric(own_metric=metric).measured(Still()).evaluate(np.ones(4, np.float32))
    assert found == (1.0, 0.5, {"f1": 0.25, **expected})


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (lambda model, task: "good", "must return a number, or a dict of numbers by name; it returned a str"),
        (lambda model, task: model[0] / 0 if task is None else 1 // 0, "ZeroDivisionError"),
    ],
)
def test_a_metric_that_does_not_work_is_refused_before_a_training(metric: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        OwnMetric(own_metric=metric).measured(Still())


def test_a_metric_needs_a_name_that_the_task_has_not() -> None:
    measured = OwnMetric(own_metric=lambda model, task: {"f1": 1.0}).measured(Still())
    with pytest.raises(UserError, match="the task has a metric f1 already"):
        measured.evaluate(np.ones(4, np.float32))
