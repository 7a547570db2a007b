"""A value in the type that a field declares, or what is allowed instead."""

from __future__ import annotations

from numbers import Integral
from types import NoneType
from typing import Any, Literal, Union, get_args, get_origin

from slotwise.errors import InputError


def checked(name: str, value: Any, hint: Any) -> Any:
    """``value`` in the type ``hint``, or an InputError that says what is allowed."""
    if NoneType in get_args(hint):
        if value is None:
            return None
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise InputError(name, value, _either(get_args(hint)))
    elif get_origin(hint) is Union:
        return _number_or_word(name, value, hint)
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


def _number_or_word(name: str, value: Any, hint: Any) -> Any:
    """For ``int | Literal[...]``."""
    words = tuple(word for kind in get_args(hint) for word in get_args(kind))
    if _is_whole(value):
        return int(value)
    if value not in words:
        raise InputError(name, value, f"{', '.join(words)} or a whole number")
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
    """Text in quotes: without them "3" looks like the number it is not."""
    return repr(value) if isinstance(value, str) else value


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
