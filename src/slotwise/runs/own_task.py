"""A user's own task, named module:function: the function takes the RunParameters and gives a Task."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np

from slotwise.errors import InputError, UserError
from slotwise.learning.task import Task
from slotwise.runs.parameters import RunParameters

METHODS = ("initial_model", "local_update", "evaluate", "named_arrays")

Maker = Callable[[RunParameters], Any]


def own_task(name: str, parameters: RunParameters) -> Task:
    """What the function called ``name`` makes of the parameters.

    Raises:
        UserError: there is no such function, it fails, or what it gives is no Task.
    """
    maker = find_maker(name)
    try:
        return _checked(name, maker(parameters))
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"task {name} failed: {_in_a_line(error)}") from error


def find_maker(name: str) -> Maker:
    """The function; its module is looked for in the current directory first, as ``python -m`` does."""
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise InputError("task", name, "module:function")
    module = _imported(name, module_name)
    maker = getattr(module, function_name, None)
    if maker is None:
        raise InputError("task", name, f"module:function, and {module_name} has no {function_name}")
    if not callable(maker):
        raise InputError("task", name, f"module:function, and {function_name} cannot be called")
    return cast(Maker, maker)


def _imported(name: str, module_name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise UserError(f"task {name}: importing it failed: {_in_a_line(error)}") from error
        allowed = f"module:function, and there is no module {module_name} in {here} or installed"
        raise InputError("task", name, allowed) from None
    except (Exception, SystemExit) as error:
        raise UserError(f"task {name}: importing it failed: {_in_a_line(error)}") from error


def _checked(name: str, task: Any) -> Task:
    """``task``, if it has what is called of it and its arrays are the whole of a flat float32 vector."""
    missing = [method for method in METHODS if not callable(getattr(task, method, None))]
    if missing:
        raise UserError(
            f"task {name}: it must return a slotwise.learning.Task; {_kind(task)} has no {', '.join(missing)}"
        )
    model = task.initial_model()
    if not isinstance(model, np.ndarray) or model.dtype != np.float32 or model.ndim != 1 or not model.size:
        found = f"{model.dtype}{list(model.shape)}" if isinstance(model, np.ndarray) else _kind(model)
        raise UserError(f"task {name}: initial_model must give a flat float32 array; it gave {found}")
    named = sum(array.size for array in task.named_arrays(model).values())
    if named != model.size:
        raise UserError(
            f"task {name}: its named_arrays hold {named} of the {model.size} numbers of its model"
        )
    return cast(Task, task)


def _kind(thing: object) -> str:
    return "None" if thing is None else f"a {type(thing).__name__}"


def _in_a_line(error: BaseException) -> str:
    """What went wrong in the user's code, and in which line of it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message} ({Path(last.filename).name}, line {last.lineno})"
