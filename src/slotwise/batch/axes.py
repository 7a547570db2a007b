"""Axes: options with several values, and the names of points and run folders derived from them."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from slotwise.base.errors import InputError
from slotwise.runs.config import checked_option, list_depth

LONGEST_NAME = 120  # characters; file systems allow 255 bytes, and a temporary name has to fit as well
DIGITS, ALL_DIGITS = 10, 64  # of a sha256


@dataclass(frozen=True)
class Axis:
    """An option that has several values in a batch; None is the value of cases that do not have it."""

    name: str  # with underscores
    values: tuple[Any, ...]

    @property
    def title(self) -> str:
        """The name as files write it: ``group-size``; ``task.rate`` for a parameter of a task."""
        return self.name.replace("_options.", ".").replace("_", "-")

    @property
    def is_numeric(self) -> bool:
        """Return whether a figure can have it as its horizontal axis."""
        return len(self.values) > 1 and all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in self.values
        )

    @cached_property
    def text(self) -> Callable[[Any], str]:
        """Write a value as text, as short as it can be without being taken for another value."""
        return short_text if len({*map(short_text, self.values)}) == len(self.values) else full_text

    def label(self, value: Any) -> str:
        """Return a name and value, such as ``group-size=5``."""
        return f"{self.title}={self.text(value)}"


def split_axes(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    """Return the options with one value and those with several, after checking every value."""
    axes = {name: tuple(value) for name, value in options.items() if _is_axis(name, value)}
    for name, single in options.items():
        values = axes.get(name, (single,))
        if not values:
            raise InputError(name, "[]", "a value, or a list of at least one")
        for number, value in enumerate(values):
            checked_option(name, value)
            if value in values[:number]:
                raise InputError(name, f"{list(values)}", f"different values: {value} is there twice")
    return {name: value for name, value in options.items() if name not in axes}, axes


def _is_axis(name: str, value: Any) -> bool:
    depth = list_depth(name)
    if not isinstance(value, list) or depth == 0:
        return isinstance(value, list)
    if depth > 1:  # as absences: one is a list, so one value of the option is a list of lists
        return any(isinstance(item, list) and all(isinstance(one, list) for one in item) for item in value)
    return bool(value) and all(isinstance(item, list) for item in value)


def short_text(value: Any) -> str:
    """Return a value as text: lists as ``10x20``, files without their folders."""
    if isinstance(value, list | tuple):
        return "x".join(map(short_text, value)) or "none"
    return Path(value).name if isinstance(value, str) and "/" in value else str(value)


def full_text(value: Any) -> str:
    """Return the whole value as text: lists as ``10x20``, lists of lists as ``1x10x20+2x30``."""
    if not isinstance(value, list | tuple):
        return str(value)
    nested = any(isinstance(item, list | tuple) for item in value)
    return ("+" if nested else "x").join(map(full_text, value)) or "none"


def combination_name(case: str, axes: Sequence[Axis], values: Sequence[Any]) -> str:
    """Return a name such as ``fedbuff,group-size=5``; empty without a case name and axes."""
    labels = [axis.label(value) for axis, value in zip(axes, values, strict=True)]
    return ",".join([case, *labels] if case else labels)


def folder_names(names: Sequence[str], identities: Sequence[str]) -> list[str]:
    """Return the names as names of folders: safe characters, limited length, different names stay different.

    Names that are too long, and names that would be the same folder with their other characters replaced, end
    in a part of their sha256. If two names are equal, the identities, which never are, are hashed instead.
    """
    safe = [re.sub(r"[^A-Za-z0-9.,=+_-]", "_", name) for name in names]
    # Lower case, because some file systems take Run and run for one folder.
    written, asked = Counter(name.lower() for name in safe), Counter(names)
    for digits in (DIGITS, ALL_DIGITS):  # of a hundred thousand digests, two may begin with the same digits
        found = []
        for short, name, identity in zip(safe, names, identities, strict=True):
            if len(short) > LONGEST_NAME or written[short.lower()] > 1:
                digest = hashlib.sha256((name if asked[name] == 1 else identity).encode()).hexdigest()
                found.append(f"{short[: LONGEST_NAME - digits - 1]}-{digest[:digits]}")
            else:
                found.append(short)
        if len(set(found)) == len(found):
            break
    return found
