"""Values that cannot be changed: read-only arrays, mappings, and classes that keep them so when pickled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Key = TypeVar("Key")
Value_co = TypeVar("Value_co", covariant=True)


class FrozenMapping(Mapping[Key, Value_co]):
    """A mapping that cannot be changed; unlike a MappingProxyType it can be pickled and copied."""

    def __init__(self, items: Mapping[Key, Value_co] | None = None) -> None:
        self._items = dict(items or {})

    def __getitem__(self, key: Key) -> Value_co:
        return self._items[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(self._items)


class FrozenArrays:
    """Base of frozen dataclasses with read-only arrays: pickling and copying keep them read-only.

    What an object has cached is left out.
    """

    __slots__ = ()

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            kept = read_only(value) if isinstance(value, np.ndarray) else value
            object.__setattr__(self, name, kept)  # the class is frozen


class EqualByNumbers:  # noqa: PLW1641  (never a key)
    """Base of dataclasses with arrays: two are equal if the numbers of compared fields are."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        names = (field.name for field in fields(self) if field.compare)  # type: ignore[arg-type]
        return all(same_numbers(getattr(self, name), getattr(other, name)) for name in names)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def same_numbers(one: Any, other: Any) -> bool:
    """Return whether two values are equal: arrays by their numbers, tables and tuples by their items.

    NaN equals NaN.
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_numbers(one[key], other[key]) for key in one)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same_numbers, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    return bool(one == other or (one != one and other != other))  # noqa: PLR0124


def frozen_arrays(arrays: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """Return read-only views of arrays, in a mapping that cannot be changed."""
    return FrozenMapping({name: read_only(array) for name, array in arrays.items()})


def frozen_copy(array: NDArray[Any], kind: type[np.generic] | None = None) -> NDArray[Any]:
    """Return a copy that cannot be written to: what is done to ``array`` later does not change it."""
    copy = np.array(array, dtype=kind, order="C")
    copy.flags.writeable = False
    return copy
