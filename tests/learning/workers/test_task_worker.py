"""A task in a worker: results that can be sent, and mistakes that become messages. No process is started."""

import pickle
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from worker_tasks import Counting, Raising

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.learning import Evaluation, TrainingResult, TrainingStart
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.workers.processes import TaskWorker

MODEL = np.ones(1000, dtype=np.float32)


class Proxies(Counting):
    """Its results have read-only tables, which cannot be pickled."""

    def local_update(self, model: Vector, start: TrainingStart) -> TrainingResult:
        found = super().local_update(model, start)
        return found._replace(metrics=MappingProxyType(found.metrics), state=MappingProxyType(found.state))


class Plain(Counting):
    """Returns updates without anything else, and evaluates nothing."""

    def local_update(self, model: Vector, start: TrainingStart) -> Any:
        return super().local_update(model, start).update

    def evaluate(self, model: Vector) -> Evaluation:
        raise SystemExit("no test data")


class Writing(Counting):
    """Changes the model that it is given."""

    def local_update(self, model: Vector, start: TrainingStart) -> TrainingResult:
        model += 1
        return super().local_update(model, start)


class Short(Counting):
    """Returns updates of a wrong length."""

    def local_update(self, model: Vector, start: TrainingStart) -> TrainingResult:
        return TrainingResult(model[:-1])


def worker(task: Counting) -> TaskWorker:
    return TaskWorker(CheckedTask.of(task))


@pytest.mark.parametrize("task", [Counting(), Proxies()], ids=["dicts", "proxies"])
def test_results_can_be_sent_and_are_those_of_the_task(task: Counting) -> None:
    starts = [TrainingStart(device, training=0, round=device % 2) for device in (1, 3, 2)]
    models = [MODEL, 2 * MODEL]
    answer = worker(task).train(starts, [0, 1], *models)
    for start, result in zip(starts, pickle.loads(pickle.dumps(answer)).updates, strict=True):
        expected = Counting().local_update(models[start.round], start)
        assert np.array_equal(result.update, expected.update)
        assert (result.samples, result.metrics, result.state) == expected[1:]


def test_updates_and_evaluations_are_sent_and_an_exit_ends_no_worker() -> None:
    (update,) = worker(Plain()).train([TrainingStart(2, 0)], [0], MODEL).updates
    assert isinstance(update, np.ndarray)
    answer = worker(Counting()).evaluate(MODEL, {})
    assert pickle.loads(pickle.dumps(answer)) == Evaluation(1.0, 0.5, {"main": 1.0})
    with pytest.raises(UserError, match="no test data"):
        worker(Plain()).evaluate(MODEL, {})


@pytest.mark.parametrize(
    ("task", "message", "has_trace"),
    [
        (Raising(), "task Raising failed: .*no samples", True),
        (Writing(), "read-only", True),  # others start from the model, too
        (Short(), "length 1000", False),  # found by slotwise: no line of the task is to blame
    ],
)
def test_an_error_of_a_task_is_one_line_and_a_trace_if_its_code_raised_it(
    task: Counting, message: str, has_trace: bool
) -> None:
    with pytest.raises(UserError, match=message) as raised:
        worker(task).train([TrainingStart(1, 3)], [0], MODEL)
    assert any("line" in note for note in getattr(raised.value, "__notes__", [])) == has_trace
