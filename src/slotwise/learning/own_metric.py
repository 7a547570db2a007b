"""A metric of your own: numbers that every evaluation of a run has beside the loss and the accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.base.frozen import read_only
from slotwise.base.user_code import describe_value, user_errors
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.task import DeviceState, Evaluation, Task, TaskWrapper, bare_task
from slotwise.options import Choice, Either, loaded
from slotwise.options.checks import Value

METRIC = Choice("own_metric", {}, own=(2,))


@dataclass(frozen=True)
class NoMetric:
    """The usual case: evaluations have the metrics of the task."""

    def check(self) -> None:
        """Accept it: there is nothing to import."""

    def measured(self, task: Task) -> Task:
        """Return the task as it is."""
        return task


@dataclass(frozen=True, kw_only=True)
class OwnMetric(Value):
    """A metric of your own, computed from the model and the task.

    Attributes:
        own_metric: Your own metric, a column of histories and tables: module:function.
    """

    own_metric: Annotated[Any, METRIC]

    def check(self) -> None:
        """Import the function, or refuse it."""
        loaded(self.own_metric)

    def measured(self, task: Task) -> Task:
        """Return the task with the metric in its evaluations."""
        return Measured(task, self.own_metric)


MetricChoice = Annotated[NoMetric | OwnMetric, Either((NoMetric, OwnMetric))]


class Measured(TaskWrapper):
    """A task whose evaluations have a metric of the user's, called with the model and the task.

    The function returns a number, whose column has the name of the function, or a dict of numbers by name.
    """

    def __init__(self, task: Task, metric: Any) -> None:
        super().__init__(CheckedTask.of(task))
        self._metric, self._name = metric, METRIC.name_of(metric) or describe_value(metric)
        self._measure(self.initial_model())  # a function that does not work is refused before a training

    def evaluate_devices(self, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:
        """Return the evaluation of the task, with the metric."""
        found, measured = self.task.evaluate_devices(model, states), self._measure(model)
        if twice := [name for name in measured if name in found.metrics]:
            raise UserError(f"own_metric {self._name}: the task has a metric {twice[0]} already")
        return found._replace(metrics={**found.metrics, **measured})

    def _measure(self, model: Vector) -> dict[str, float]:
        metric = loaded(self._metric)  # here, and not before: a worker imports it by its name
        with user_errors(f"own_metric {self._name}"):
            value = metric(read_only(model), bare_task(self.task))
        numbers = value if isinstance(value, Mapping) else {self._name.rpartition(":")[2]: value}
        try:
            return {name: float(number) for name, number in numbers.items()}
        except (TypeError, ValueError):
            wanted = f"a number, or a dict of numbers by name; it returned {describe_value(value)}"
            raise UserError(f"own_metric {self._name}: must return {wanted}") from None
