"""A user's own task, named module:function: the function takes the RunConfig and gives a Task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.errors import UserError
from slotwise.learning.task import Evaluation, Task
from slotwise.runs.config import RunConfig
from slotwise.user_code import describe_error, load_function

METHODS = ("initial_model", "local_update", "evaluate", "named_arrays")


@dataclass(frozen=True)
class OwnTask:
    """The task of a user, held to what a Task gives: who gets it wrong is told so in a line.

    Attributes:
        name: module:function.
        task: what the function gave.
        size: of its models.
    """

    name: str
    task: Task
    size: int

    def initial_model(self) -> Vector:
        """The task's."""
        return self.task.initial_model()

    def local_update(self, model: Vector, device: int, training: int) -> Vector:
        """The task's, in float32."""
        update: Any = self.task.local_update(model, device, training)
        real = isinstance(update, np.ndarray) and np.issubdtype(update.dtype, np.floating)
        if not real or update.shape != (self.size,):
            raise self._wrong("local_update", f"a float32 array as long as its model, {self.size}", update)
        return np.asarray(update, dtype=np.float32)

    def evaluate(self, model: Vector) -> Evaluation:
        """The task's; a pair of numbers of any kind will do."""
        found: Any = self.task.evaluate(model)
        try:
            loss, accuracy = found
            return Evaluation(float(loss), float(accuracy))
        except (TypeError, ValueError):
            raise self._wrong("evaluate", "a slotwise.learning.Evaluation", found) from None

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        """The task's."""
        return self.task.named_arrays(model)

    def _wrong(self, method: str, wanted: str, found: object) -> UserError:
        return UserError(f"task {self.name}: {method} must give {wanted}; it gave {_described(found)}")


def own_task(name: str, parameters: RunConfig) -> Task:
    """What the function called ``name`` makes of the parameters.

    Raises:
        UserError: there is no such function, it fails, or what it gives is no Task.
    """
    maker = load_function("task", name)
    try:
        task = _checked(name, maker(parameters))
        return OwnTask(name, task, task.initial_model().size)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"task {name} failed: {describe_error(error)}") from error


def _checked(name: str, task: Any) -> Task:
    """``task``, if it has what is called of it and its arrays are the whole of a flat float32 vector."""
    missing = [method for method in METHODS if not callable(getattr(task, method, None))]
    if missing:
        raise UserError(
            f"task {name}: it must return a slotwise.learning.Task; {_kind(task)} has no {', '.join(missing)}"
        )
    model = task.initial_model()
    if not isinstance(model, np.ndarray) or model.dtype != np.float32 or model.ndim != 1 or not model.size:
        found = _described(model)
        raise UserError(f"task {name}: initial_model must give a flat float32 array; it gave {found}")
    if not np.isfinite(model).all():
        raise UserError(f"task {name}: initial_model must give finite numbers")
    named = sum(array.size for array in task.named_arrays(model).values())
    if named != model.size:
        raise UserError(
            f"task {name}: its named_arrays hold {named} of the {model.size} numbers of its model"
        )
    return cast(Task, task)


def _described(thing: object) -> str:
    return f"{thing.dtype}{list(thing.shape)}" if isinstance(thing, np.ndarray) else _kind(thing)


def _kind(thing: object) -> str:
    return "None" if thing is None else f"a {type(thing).__name__}"
