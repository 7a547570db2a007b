"""ArrayLayout: the arrays of a Flower model as one flat float32 vector, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.common.constant import SType
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError


@dataclass(frozen=True)
class ArrayLayout:
    """Names, shapes and types of the arrays, in their order.

    Whole numbers, such as the counter of a batch normalisation, are averaged like all others and rounded
    when they are sent; float64 arrays travel with the precision of float32.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, arrays: ArrayRecord) -> ArrayLayout:
        """Return the layout of a model; refuse one without numbers."""
        for name, array in arrays.items():
            if not _is_real(array):
                raise UserError(f"flower app: array {name} has type {array.dtype}, which is no real number")
        if not sum(prod(array.shape) for array in arrays.values()):
            raise UserError("flower app: its model has no arrays with numbers")
        values = tuple(arrays.values())
        return cls(tuple(arrays), tuple(tuple(a.shape) for a in values), tuple(a.dtype for a in values))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers in each array."""
        return tuple(prod(shape) for shape in self.shapes)

    def vector(self, arrays: ArrayRecord) -> Vector:
        """Return the numbers of a model; the names and shapes must be those of the layout.

        Raises:
            UserError: an array is missing, additional, has another shape, or has no real numbers.
        """
        if set(arrays) != set(self.names):
            missing, more = set(self.names) - set(arrays), set(arrays) - set(self.names)
            differences = [f"without {', '.join(sorted(missing))}"] if missing else []
            differences += [f"with additional {', '.join(sorted(more))}"] if more else []
            raise UserError(
                f"the model that was returned has other arrays than were sent: {'; '.join(differences)}"
            )
        parts = []
        for name, shape, header in zip(self.names, self.shapes, self._headers, strict=True):
            array = arrays[name]
            if tuple(array.shape) != shape:
                raise UserError(f"array {name} was sent as {list(shape)} and returned as {list(array.shape)}")
            if not _is_real(array):
                raise UserError(f"array {name} was returned with type {array.dtype}, which is no real number")
            try:
                parts.append(self._numbers(array, header).astype(np.float32, copy=False))
            except Exception as error:  # damaged bytes make the reader of numpy raise nearly any
                raise UserError(f"array {name} was returned and cannot be read: {error}") from None
        return np.concatenate(parts)

    def record(self, model: Vector) -> ArrayRecord:
        """Return a model as it is sent."""
        record = ArrayRecord()
        described = zip(self.names, self.shapes, self.types, self._headers, self._parts(model), strict=True)
        for name, shape, kind, header, part in described:
            whole = np.dtype(kind).kind in "biu"
            numbers = (np.rint(part) if whole else part).astype(kind, copy=False)
            record[name] = Array(kind, shape, SType.NUMPY, header + numbers.tobytes())
        return record

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        """Return the arrays of a model by name."""
        return dict(zip(self.names, self._parts(model), strict=True))

    @cached_property
    def _headers(self) -> tuple[bytes, ...]:
        """First bytes of each array as numpy saves it: type and shape, the same for every model."""
        found = []
        for shape, kind in zip(self.shapes, self.types, strict=True):
            empty = np.zeros(shape, dtype=kind)
            found.append(Array(empty).data[: -empty.nbytes or None])
        return tuple(found)

    @staticmethod
    def _numbers(array: Array, header: bytes) -> NDArray[Any]:
        """Return the numbers of an array; reading the header takes longer than reading a small array."""
        numbers: NDArray[Any]
        if array.stype == SType.NUMPY and array.data.startswith(header):
            numbers = np.frombuffer(array.data, dtype=array.dtype, offset=len(header))
        else:
            numbers = array.numpy()
        if numbers.size != prod(array.shape):
            raise ValueError(f"{numbers.size} numbers for the shape {list(array.shape)}")
        return numbers.reshape(-1)

    def _parts(self, model: Vector) -> list[Vector]:
        pieces = np.split(model, np.cumsum(self.sizes)[:-1])
        return [piece.reshape(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]


def _is_real(array: Array) -> bool:
    try:
        return np.dtype(array.dtype).kind in "biuf"
    except TypeError:  # a type that numpy does not know, such as bfloat16
        return False
