"""The axes of a grid: which options of a file are lists of values, and what a point is called."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from slotwise.errors import InputError
from slotwise.runs.config import SHORTHANDS, checked_option, is_list

LONGEST_NAME = 120  # characters; file systems allow 255 bytes, and a temporary name has to fit as well
DIGITS, ALL_DIGITS = 10, 64  # of a sha256


@dataclass(frozen=True)
class Axis:
    """A parameter that has several values.

    Attributes:
        name: of the parameter, with underscores.
        values: as the file has them.
    """

    name: str
    values: tuple[Any, ...]

    @property
    def title(self) -> str:
        """As a person writes it: ``group-size``."""
        return self.name.replace("_", "-")

    @property
    def numeric(self) -> bool:
        """Whether a figure can have it as its horizontal axis."""
        return len(self.values) > 1 and all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in self.values
        )

    def text(self, value: Any) -> str:
        """A value as short as it can be said without meaning another one of the axis."""
        return short_text(value) if self._short else full_text(value)

    def label(self, value: Any) -> str:
        """``group-size=5``."""
        return f"{self.title}={self.text(value)}"

    @cached_property
    def _short(self) -> bool:
        return len(set(map(short_text, self.values))) == len(self.values)


def split_axes(options: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Axis, ...]]:
    """What all points have in common, and the axes; every value has the type of its parameter.

    Raises:
        InputError: a value of another type, an empty axis, or one with the same value twice.
    """
    common: dict[str, Any] = {}
    axes = []
    for name, value in options.items():
        if _is_axis(name, value):
            axes.append(Axis(name, tuple(value)))
        else:
            common[name] = value
    for name, value in _single_values(common, axes):
        if name not in SHORTHANDS:
            checked_option(name, value)
    for axis in axes:
        _check(axis)
    return common, tuple(axes)


def _is_axis(name: str, value: Any) -> bool:
    if not isinstance(value, list):
        return False
    if not is_list(name):
        return True
    if name == "absences":  # a list of lists itself
        return any(isinstance(item, list) and all(isinstance(one, list) for one in item) for item in value)
    return bool(value) and all(isinstance(item, list) for item in value)


def _single_values(common: Mapping[str, Any], axes: Iterable[Axis]) -> list[tuple[str, Any]]:
    return [*common.items(), *((axis.name, value) for axis in axes for value in axis.values)]


def _check(axis: Axis) -> None:
    if not axis.values:
        raise InputError(axis.name, "[]", "a value, or a list of at least one")
    for number, value in enumerate(axis.values):
        if value in axis.values[:number]:
            raise InputError(axis.name, f"{list(axis.values)}", f"different values: {value} is there twice")


def beside(path: Path, name: str, value: Any) -> Any:
    """A value as a run takes it: files are looked for beside the file of the grid."""
    return str(path.parent / value) if name == "fleet_file" and isinstance(value, str) else value


def short_text(value: Any) -> str:
    """Lists as ``10x20``, files without their folders."""
    if isinstance(value, list | tuple):
        return "x".join(map(short_text, value)) or "none"
    return Path(value).name if isinstance(value, str) and "/" in value else str(value)


def full_text(value: Any) -> str:
    """The whole value: lists as ``10x20``, lists of lists as ``1x10x20+2x30``."""
    if not isinstance(value, list | tuple):
        return str(value)
    nested = any(isinstance(item, list | tuple) for item in value)
    return ("+" if nested else "x").join(map(full_text, value)) or "none"


def combination_name(axes: Sequence[Axis], values: Sequence[Any]) -> str:
    """``schedule=idfl,group-size=5``; empty without axes."""
    return ",".join(axis.label(value) for axis, value in zip(axes, values, strict=True))


def folder_names(names: Sequence[str], identities: Sequence[str]) -> list[str]:
    """The same names safe as names of folders: different ones stay different, long ones are cut short.

    The ones that had to give something up end in a part of their sha256. Should two names be the same, their
    identities, which never are, take their place in it.
    """
    safe = [re.sub(r"[^A-Za-z0-9.,=+_-]", "_", name) for name in names]
    written, asked = Counter(name.lower() for name in safe), Counter(names)

    def named(digits: int) -> list[str]:
        return [
            short
            if len(short) <= LONGEST_NAME and written[short.lower()] == 1
            else _cut(short, name if asked[name] == 1 else identity, digits)
            for short, name, identity in zip(safe, names, identities, strict=True)
        ]

    few = named(DIGITS)  # of a hundred thousand, two may begin with the same
    return few if len(set(few)) == len(few) else named(ALL_DIGITS)


def _cut(short: str, told_apart_by: str, digits: int) -> str:
    digest = hashlib.sha256(told_apart_by.encode()).hexdigest()[:digits]
    return f"{short[: LONGEST_NAME - digits - 1]}-{digest}"
