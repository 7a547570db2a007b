"""TaskWorker: a task in another process, where its mistakes become messages that can be sent back."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from slotwise.aggregation import Vector
from slotwise.errors import UserError
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.task import DeviceState, Evaluation, TrainingStart
from slotwise.learning.workers.worker_protocol import Job, Trained, train_all
from slotwise.user_code import describe_error


class Failure(NamedTuple):
    """Error of a task in another process: one line, and where it was raised."""

    message: str
    trace: str = ""

    def error(self) -> UserError:
        """Return the error to raise."""
        error = UserError(self.message)
        if self.trace:
            error.add_note(f"In the worker:\n{self.trace}")
        return error


class TaskWorker:
    """Computes trainings and evaluations of a task, in the process of a worker."""

    def __init__(self, task: CheckedTask) -> None:
        self._task = task

    def train(self, starts: Sequence[TrainingStart], models: Mapping[int, Vector]) -> Trained | Failure:
        """Return the updates of local trainings; ``models`` has those that they start from."""
        jobs = [Job(models[start.round], start) for start in starts]
        try:
            return train_all(self._task, jobs)
        except (Exception, SystemExit) as error:
            # A task that calls sys.exit must not end the worker: another would repeat the work and end too.
            return self._failure(error)

    def evaluate(self, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation | Failure:
        """Return the evaluation of a model."""
        try:
            return self._task.evaluate(model, states)
        except (Exception, SystemExit) as error:
            return self._failure(error)

    def _failure(self, error: BaseException) -> Failure:
        if isinstance(error, UserError):
            return Failure(str(error))
        trace = "".join(traceback.format_exception(error))
        return Failure(f"task {self._task.name} failed: {describe_error(error)}", trace)


def cannot_be_sent(task: CheckedTask, error: Exception) -> UserError:
    """Return the error for a task that cannot be pickled."""
    cannot = "cannot be sent to another process"
    return UserError(f"task {task.name}: {cannot}: {describe_error(error)}; use threads")


def checked(answer: Trained | Evaluation | Failure) -> Trained | Evaluation:
    """Return the answer of a worker; raise the error if it is one."""
    if isinstance(answer, Failure):
        raise answer.error()
    return answer
