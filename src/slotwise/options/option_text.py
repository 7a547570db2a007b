"""Text of options: descriptions in class docstrings, and values written as text in flags and addresses."""

from __future__ import annotations

import inspect
import re
from contextlib import suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from slotwise.base.errors import InputError


def field_help(owner: Any, section: str = "Attributes") -> dict[str, str]:
    """Return the descriptions in one section of the docstring of a class or function."""
    text = (inspect.getdoc(owner) or "").partition(f"{section}:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", text, re.MULTILINE)
    return {name: " ".join(text.split()).replace("``", '"') for name, text in entries}


def read_whole_number(text: str) -> int:
    """Return the whole number that ASCII digits write; a ValueError for all else that `int` accepts."""
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(text)
    return int(text)  # refuses thousands of digits


def read_number(text: str) -> float:
    """Return the number that ASCII characters write; a ValueError for spaces and underscores."""
    if not re.fullmatch(r"[!-^`-~]+", text):
        raise ValueError(text)
    return float(text)


def from_text(name: str, text: str, hint: Any) -> Any:
    """Convert text to a type, or raise an InputError that says what is allowed."""
    is_union = get_origin(hint) in (Union, UnionType)
    kinds = [kind for kind in get_args(hint) if kind is not NoneType] if is_union else [hint]
    words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    if text in words:
        return text
    for kind, read in ((int, read_whole_number), (float, read_number)):
        if kind in kinds:
            with suppress(ValueError):
                return read(text)
    for kind in kinds:
        if kind is dict:
            return table_from_text(name, text)
        if get_origin(kind) is tuple and get_args(kind)[0] is str:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if get_origin(kind) is tuple:
            is_float = get_args(kind)[0] is float
            read_part, allowed = (
                (read_number, "numbers") if is_float else (read_whole_number, "whole numbers")
            )
            try:
                return tuple(read_part(part.strip()) for part in text.split(",") if part.strip())
            except ValueError:
                raise InputError(name, text, f"{allowed} separated by commas") from None
        if kind in (str, Path):
            return kind(text)
    numbers = {float: "a number", int: "a whole number"}
    choices: list[str] = [*words, *[numbers[kind] for kind in numbers if kind in kinds][:1]]
    *first, last = choices
    raise InputError(name, text, f"{', '.join(first)} or {last}" if first else last)


def table_from_text(name: str, text: str) -> dict[str, Any]:
    """Return the values of a text such as "rate=0.5 layers=3 fast=true", each of its plain type."""
    table: dict[str, Any] = {}
    for word in text.split():
        key, separator, value = word.partition("=")
        if not separator or not key.isidentifier() or key in table:
            raise InputError(name, text, "parameters by name, as in rate=0.5 layers=3, each once")
        table[key] = _plain_value(value)
    return table


def _plain_value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
