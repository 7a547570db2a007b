"""UserFunction: a function of the user's, named as module:function, with values for parameters of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from slotwise.base.errors import InputError
from slotwise.base.user_code import check_arguments, is_function_name, load_function

OWN_OPTIONS = "_options"  # follows the name of a choice: the parameters of the user's own function


@dataclass(frozen=True)
class UserFunction:
    """A function by its name; it is imported by `load`, so that a run can be described without it.

    Attributes:
        choice: The option that names it, for messages.
        name: ``module:function``.
        options: Values of keyword parameters, as pairs sorted by name.
        arguments: Numbers of positional arguments, one of which it must take.
    """

    choice: str
    name: str
    options: tuple[tuple[str, Any], ...] = ()
    arguments: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        if not is_function_name(self.name):
            raise InputError(self.choice, self.name, "module:function, as in my_module:make_it")
        object.__setattr__(self, "options", pairs(self.choice, dict(self.options)))

    def load(self) -> Callable[..., Any]:
        """Import the function and give it its options.

        Raises:
            InputError: there is no such function, or it has other parameters.
            UserError: importing the module fails.
        """
        function = load_function(self.choice, self.name)
        check_options(self.choice, self.name, function, dict(self.options))
        given = partial(function, **dict(self.options)) if self.options else function
        check_arguments(self.choice, given, *self.arguments, name=self.name)
        return given


def loaded(value: Any) -> Any:
    """Return a chosen value, ready to be called: a user's function is imported."""
    return value.load() if isinstance(value, UserFunction) else value


def pairs(choice: str, options: Any) -> tuple[tuple[str, Any], ...]:
    """Return the options of a user's function in a form that can be compared and hashed."""
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise InputError(choice + OWN_OPTIONS, options, "a table of parameters by name")
    return tuple((name, _frozen(options[name])) for name in sorted(options))


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def check_options(choice: str, name: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse options that the function has no keyword parameter for, or of another type than it declares."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except (ValueError, NameError):  # some functions written in C have none; a hint may not be importable
        return
    parameters = signature.parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    shown = f"{name.partition(':')[2]}{signature}"
    for option, value in options.items():
        parameter = parameters.get(option)
        if parameter is None or parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            if not takes_any:
                raise InputError(choice + OWN_OPTIONS, option, f"a parameter of {shown}")
        elif not _fits(value, parameter.annotation):
            raise InputError(choice + OWN_OPTIONS, f"{option}={value!r}", f"as in {shown}")


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value can be of a plain type; other hints are the user's business."""
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) if hint in (str, bool) else True
