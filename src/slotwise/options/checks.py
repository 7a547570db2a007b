"""Checks of option values against their declarations: types, ranges, alternatives.

Values come from Python, TOML, JSON or flags, so they are checked against type hints.
"""

from __future__ import annotations

from dataclasses import fields
from numbers import Integral
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from slotwise.base.errors import InputError
from slotwise.base.user_code import check_type
from slotwise.options.declarations import Declaration, Range, declarations, mark_of
from slotwise.options.tables import resolved

LARGEST = 10**9  # the product of two such numbers still fits the 64-bit columns of a timeline
LARGEST_SEED = 2**64 - 1
LARGEST_NUMBER = 1e30  # of factors and rates: fits a float32, and products of a few of them fit a float64
_HINTS: dict[Any, dict[str, Any]] = {}  # type hints by class: slow to get, and asked for thousands of times


def whole(name: str, value: object, smallest: int = 1, largest: int = LARGEST) -> int:
    """Return ``value`` as an int, or raise an InputError if it is no whole number in this range."""
    if type(value) is int and smallest <= value <= largest:  # thousands of absences are checked
        return value
    number, quoted = whole_number(value), in_quotes(value)
    if largest != LARGEST and (number is None or not smallest <= number <= largest):
        raise InputError(name, quoted, f"a whole number from {smallest} to {largest}")
    if number is None or number < smallest:
        raise InputError(name, quoted, f"a whole number of at least {smallest}")
    if number > largest:
        raise InputError(name, value, f"a whole number of at most {largest:,}")
    return number


def whole_number(value: object) -> int | None:
    """Return ``value`` if it is a whole number, also numpy's; True and 2.0 are not."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None


def in_quotes(value: object) -> object:
    """Return a value for a message, text in quotes: "3" should not look like the number 3."""
    return repr(value) if isinstance(value, str) else value


def field_types(owner: Any) -> dict[str, Any]:
    """Return the type hint of every field of a dataclass."""
    if owner not in _HINTS:
        _HINTS[owner] = get_type_hints(owner)
    return _HINTS[owner]


def option_names(owner: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass."""
    return tuple(field.name for field in fields(owner))


class Value:
    """Base class of frozen dataclasses whose fields are checked and converted when one is made."""

    def __post_init__(self) -> None:
        check_fields(self)


def check_fields(instance: Any) -> None:
    """Convert every field of a frozen dataclass to its declared type, or raise an InputError."""
    for declaration in declarations(type(instance)):
        name, value = declaration.name, getattr(instance, declaration.name)
        if declaration.choice is not None:
            value = resolved(declaration.choice, value)
        elif declaration.part is not None or declaration.either is not None:
            kinds = declaration.either.classes if declaration.either else (declaration.hint,)
            check_type(name, value, *kinds)
        else:
            _check_range(name, value, declaration)
            value = checked(name, value, declaration.hint)
        object.__setattr__(instance, name, value)


def _check_range(name: str, value: Any, declaration: Declaration) -> None:
    """Refuse a number outside its range, written as it was given; other mistakes are found by its type."""
    allowed = mark_of(declaration.marks, Range)
    if value is None or allowed is None:
        return
    whole_numbers = int in (declaration.hint, *get_args(declaration.hint))
    is_list = isinstance(value, list | tuple)
    for place, number in enumerate(value if is_list else (value,), start=1):
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if is_number and not allowed.allows(number) and not (whole_numbers and isinstance(number, float)):
            shown = f"{number} (number {place} of the list)" if is_list else number
            raise InputError(name, shown, allowed.describe(whole=whole_numbers))


def checked(name: str, value: Any, hint: Any) -> Any:
    """Return ``value`` converted to the type ``hint``, or raise an InputError that says what is allowed."""
    if NoneType in get_args(hint):
        if value is None:
            return None
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    origin, number, quoted = get_origin(hint), whole_number(value), in_quotes(value)
    if origin is Literal:
        if value not in get_args(hint):
            *others, last = get_args(hint)
            raise InputError(name, value, f"{', '.join(others)} or {last}")
    elif origin in (Union, UnionType):  # int | Literal[...], or float | Literal[...]
        names = tuple(text for kind in get_args(hint) for text in get_args(kind))
        allows_floats = float in get_args(hint)
        if number is None and value not in names and not (allows_floats and isinstance(value, float)):
            kind = "a number" if allows_floats else "a whole number"
            raise InputError(name, value, f"{', '.join(names)} or {kind}")
        return value if number is None else number
    elif origin is tuple:
        return _checked_list(name, value, get_args(hint)[0])
    elif hint is float:
        return _float(name, value, quoted)
    elif hint is int:
        if number is None:
            raise InputError(name, quoted, "a whole number")
        return number
    elif hint is str and not isinstance(value, str):
        raise InputError(name, value, "text")
    return value


def _checked_list(name: str, value: Any, item_type: Any) -> tuple[Any, ...]:
    """Return a list as a tuple; its items are checked if they are whole numbers, and else by their class."""
    numbers = {float: "numbers", int: "whole numbers", str: "texts"}.get(item_type, "pairs of numbers")
    if not isinstance(value, list | tuple):
        raise InputError(name, in_quotes(value), f"a list of {numbers}")
    for item in value if item_type is int else ():
        if whole_number(item) is None:
            raise InputError(name, in_quotes(item), f"a list of {numbers}")
    return tuple(int(item) if whole_number(item) is not None else item for item in value)


def _float(name: str, value: Any, quoted: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(name, quoted, "a number")
    try:
        return float(value)
    except OverflowError:
        raise InputError(name, value, "a number of moderate size") from None
