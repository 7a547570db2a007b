"""Loading the user's own functions by name, ``module:function``, wherever a short name is accepted."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from slotwise.base.errors import InputError, UserError

_SLOTWISE = str(Path(__file__).parents[1])
# The arguments of functions that may be named, for messages.
_ARGUMENTS = {
    "task": "config",
    "schedule": "seed",
    "selection": "waiting, round_number, last_sender",
    "group_rule": "decision, learning",
    "allocation": "group; or decision, learning",
    "aggregation": "model, contributions, state",
    "local_step": "weights, gradient, context",
    "partition": "dataset, devices, generator",
    "radio_link": "scenario, seed",
    "own_metric": "model, task",
    "compressor": "update, draw",
}
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def is_function_name(name: str) -> bool:
    """Return whether ``name`` has the form ``module:function``."""
    module, separator, function = name.partition(":")
    return bool(separator) and all(part.isidentifier() for part in (*module.split("."), function))


def load_function(parameter: str, name: str, *arguments: int) -> Callable[..., Any]:
    """Import ``module:function``; the current directory is searched first, as ``python -m`` does.

    The function must accept this number of positional arguments, or one of several numbers, if any is given.

    Raises:
        InputError: the name is malformed, there is no such function, or it takes other arguments.
        UserError: importing the module fails.
    """
    if not is_function_name(name):
        raise InputError(parameter, name, "module:function, as in my_module:make_it")
    module_name, _, function_name = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None or not f"{module_name}.".startswith(f"{missing}."):
            raise UserError(f"{parameter} {name}: import failed: {describe_error(error)}") from error
        allowed = f"importable: there is no module {module_name} in {here} or installed"
        raise InputError(parameter, name, allowed) from None
    function = getattr(module, function_name, None)
    if function is None:
        raise InputError(parameter, name, f"importable: {module_name} has no {function_name}")
    if not callable(function):
        raise InputError(parameter, name, f"a function, and {function_name} is not callable")
    if arguments:
        check_arguments(parameter, function, *arguments, name=name)
    return function  # type: ignore[no-any-return]


def check_arguments(parameter: str, function: object, *arguments: int, name: str | None = None) -> None:
    """Refuse what is no function, or cannot be called with one of these numbers of positional arguments."""
    if not callable(function):
        raise InputError(parameter, name or describe_value(function), "a function")
    if not any(accepts(function, count) for count in arguments):
        counts, shown = " or ".join(map(str, arguments)), name or getattr(function, "__name__", "this object")
        wanted = f"{counts} argument{'s' if arguments[-1] > 1 else ''}"
        which = f" ({_ARGUMENTS[parameter]})" if parameter in _ARGUMENTS else ""
        own = len(inspect.signature(function).parameters)
        raise InputError(parameter, shown, f"a function of {wanted}{which}, and it has {own}")


def accepts(function: Callable[..., Any], arguments: int) -> bool:
    """Return whether a function can be called with so many positional arguments."""
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError:
        return False
    except ValueError:
        pass  # some functions written in C have no signature
    return True


@contextmanager
def user_errors(what: str, *, anywhere: bool = True) -> Iterator[None]:
    """Turn an error of the user's code into a UserError: ``what``, its type, its message and its place.

    Unless it may come from ``anywhere``, an error of slotwise or of a library called by it stays as it is.
    """
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        if not anywhere and user_traceback(error) is None:
            raise
        raise UserError(f"{what}: {describe_error(error)}") from error


def describe_error(error: BaseException) -> str:
    """Return one line with the error's type and message, and file and line of the user's code."""
    message = " ".join(str(error).split())
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame)]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    if isinstance(error, SyntaxError) and error.filename:
        place = ""  # its message has the place
    return f"{type(error).__name__}: {message}{place}"


def _is_users(frame: traceback.FrameSummary) -> bool:
    return not frame.filename.startswith((_SLOTWISE, *_LIBRARIES, "<frozen "))


def user_traceback(error: BaseException) -> str | None:
    """Return the part of a traceback that starts in the user's code; None if slotwise or a library failed."""
    frames = traceback.extract_tb(error.__traceback__)
    called = list(takewhile(lambda frame: not frame.filename.startswith(_SLOTWISE), reversed(frames)))[::-1]
    if len(called) == len(frames) or not any(map(_is_users, called)):
        return None
    first = next(i for i, frame in enumerate(called) if _is_users(frame))
    return "".join([*traceback.format_list(called[first:]), *traceback.format_exception_only(error)])


def described_function(option: str, function: Callable[..., Any]) -> str:
    """Return an option with the name of the user's function that it has, for a message."""
    own = function.func if isinstance(function, partial) else function
    name = getattr(own, "__qualname__", type(own).__qualname__)
    return f"{option} {getattr(own, '__module__', None) or 'builtins'}:{name}"


def describe_value(value: object) -> str:
    """Return the type of a value, and the shape of an array, for a message."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return "None" if value is None else with_article(type(value).__name__)


def check_type(parameter: str, value: object, *types: type) -> None:
    """Raise an InputError if a value is of none of these types."""
    if not isinstance(value, types):
        allowed = " or ".join(with_article(one.__name__) for one in types)
        raise InputError(parameter, describe_value(value), allowed)


def with_article(name: str) -> str:
    """Return a name after "a" or "an", as it is spoken: an int, a list, an MLP (letter by letter)."""
    spelled = name[:2].isupper()
    takes_an = re.match("[AEFHILMNORSX]" if spelled else "(?i:[aeio]|u(?!s|ni))", name)
    return f"{'an' if takes_an else 'a'} {name}"
