"""A task in a worker: results that can be sent, and mistakes that become messages. No process is started."""

import pickle
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from worker_tasks import Counting, Raising

from slotwise.aggregation import Vector
from slotwise.errors import UserError
from slotwise.learning import Evaluation, TrainingResult, TrainingStart
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.workers.task_worker import Failure, TaskWorker, checked
from slotwise.learning.workers.worker_protocol import Trained

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
    models = {0: MODEL, 1: 2 * MODEL}
    answer = worker(task).train(starts, models)
    assert isinstance(answer, Trained)
    for start, result in zip(starts, pickle.loads(pickle.dumps(answer)).updates, strict=True):
        expected = Counting().local_update(models[start.round], start)
        assert np.array_equal(result.update, expected.update)
        assert (result.samples, result.metrics, result.state) == expected[1:]


def test_an_update_alone_is_sent_as_it_is() -> None:
    answer = worker(Plain()).train([TrainingStart(2, 0)], {0: MODEL})
    assert isinstance(answer, Trained)
    (update,) = answer.updates
    assert isinstance(update, np.ndarray)


def test_an_evaluation_can_be_sent() -> None:
    answer = worker(Counting()).evaluate(MODEL, {})
    assert pickle.loads(pickle.dumps(answer)) == Evaluation(1.0, 0.5, {"main": 1.0})


def test_an_error_of_a_task_becomes_a_message_with_its_traceback() -> None:
    failure = worker(Raising()).train([TrainingStart(1, 3)], {0: MODEL})
    assert isinstance(failure, Failure)
    error = failure.error()
    assert "task Raising failed" in str(error)
    assert "no samples" in str(error)
    assert "worker_tasks.py" in error.__notes__[0]


def test_a_task_that_exits_does_not_end_the_worker() -> None:
    failure = worker(Plain()).evaluate(MODEL, {})
    assert isinstance(failure, Failure)
    assert "no test data" in failure.message


def test_a_task_cannot_change_a_model_that_others_start_from() -> None:
    failure = worker(Writing()).train([TrainingStart(1, 0)], {0: MODEL})
    assert isinstance(failure, Failure)
    assert "read-only" in failure.message


def test_a_wrong_result_is_one_line_without_traceback() -> None:
    failure = worker(Short()).train([TrainingStart(1, 0)], {0: MODEL})
    assert isinstance(failure, Failure)
    assert failure.trace == ""
    with pytest.raises(UserError, match="length 1000") as raised:
        checked(failure)
    assert not hasattr(raised.value, "__notes__")
