"""Options that belong together: written once as a dataclass, taken by a command as one argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

Command = Callable[..., None]


def with_option_groups(command: Command) -> Command:
    """The command as typer has to see it: in place of each dataclass, an option for each of its fields."""
    written = signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: p.annotation for name, p in written.parameters.items() if is_dataclass(p.annotation)
    }

    @wraps(command)
    def call(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    parameters = [
        option.replace(kind=Parameter.KEYWORD_ONLY)
        for parameter in written.parameters.values()
        for option in (_options(groups[parameter.name]) if parameter.name in groups else [parameter])
    ]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return call


def _options(group: Any) -> list[Parameter]:
    """One for each field, with its annotation and its default."""
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(group)
    ]
