"""Checking option values against the type hints of a dataclass, for values read from TOML, JSON or flags."""

from __future__ import annotations

from dataclasses import fields
from numbers import Integral
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from slotwise.errors import InputError

_HINTS: dict[Any, dict[str, Any]] = {}  # working them out is slow, and a batch asks thousands of times


def field_types(owner: Any) -> dict[str, Any]:
    """Return the type hint of every field of a dataclass."""
    if owner not in _HINTS:
        _HINTS[owner] = get_type_hints(owner)
    return _HINTS[owner]


def check_fields(instance: Any) -> None:
    """Convert every field of a frozen dataclass to its declared type, or raise an InputError."""
    for name, hint in field_types(type(instance)).items():
        object.__setattr__(instance, name, checked(name, getattr(instance, name), hint))


def option_names(owner: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass."""
    return tuple(field.name for field in fields(owner))


def checked(name: str, value: Any, hint: Any) -> Any:
    """Return ``value`` converted to the type ``hint``, or raise an InputError that says what is allowed."""
    if NoneType in get_args(hint):
        if value is None:
            return None
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise InputError(name, value, _either(get_args(hint)))
    elif get_origin(hint) in (Union, UnionType):
        return _number_or_name(name, value, hint)
    elif hint is float:
        return _number(name, value)
    elif get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise InputError(name, _quoted(value), "a list of whole numbers")
        return tuple(int(item) if _is_whole(item) else item for item in value)
    elif hint is str and not isinstance(value, str):
        raise InputError(name, value, "text")
    elif hint is int:
        if not _is_whole(value):
            raise InputError(name, _quoted(value), "a whole number")
        return int(value)
    return value


def _number_or_name(name: str, value: Any, hint: Any) -> Any:
    """Check a value of type ``int | Literal[...]``."""
    allowed = tuple(text for kind in get_args(hint) for text in get_args(kind))
    if _is_whole(value):
        return int(value)
    if value not in allowed:
        raise InputError(name, value, f"{', '.join(allowed)} or a whole number")
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(name, _quoted(value), "a number")
    try:
        return float(value)
    except OverflowError:
        raise InputError(name, value, "a number of moderate size") from None


def _quoted(value: Any) -> Any:
    """Quote text, so that "3" is not mistaken for the number 3."""
    return repr(value) if isinstance(value, str) else value


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
