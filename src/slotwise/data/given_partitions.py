"""Partitions that were made elsewhere: lists of rows, and partitioner objects."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from slotwise.base.errors import InputError
from slotwise.base.extras import require
from slotwise.base.user_code import user_errors
from slotwise.data.dataset import Dataset
from slotwise.data.label_divisions import Rows
from slotwise.data.partitions import Partition
from slotwise.data.sizes import Generator, ListedSizes

# Names of columns that are read as labels, and as owners, the most likely first.
LABEL_COLUMNS = ("label", "labels", "target", "class", "y", "fine_label", "character")
OWNER_COLUMNS = ("writer_id", "character_id", "user_id", "client_id", "owner")
_ROW = "slotwise_row"


def as_partition(value: Any) -> Any:
    """Return a partition for a list of rows or a partitioner object; any other value as it is."""
    if isinstance(value, list | tuple | np.ndarray):
        return GivenRows(rows=tuple(value))
    return FromPartitioner(partitioner=value) if is_partitioner(value) else value


def is_partitioner(value: Any) -> bool:
    """Return whether a value is a partitioner object, by what it can do."""
    return hasattr(value, "load_partition") and hasattr(type(value), "num_partitions")


@dataclass(frozen=True, kw_only=True, eq=False)
class GivenRows(Partition):
    """The rows of each device, as a list of arrays.

    Attributes:
        rows: Device n holds the samples ``rows[n - 1]``.
    """

    rows: tuple[Rows, ...]

    def __post_init__(self) -> None:
        try:
            held = tuple(np.asarray(own).astype(np.int32, casting="same_kind") for own in self.rows)
        except (TypeError, ValueError):
            raise InputError("partition", "a list", "one list of row numbers for each device") from None
        if not held or any(own.ndim != 1 or not own.size for own in held):
            raise InputError("partition", "a list", "one list of at least one row for each device")
        object.__setattr__(self, "rows", held)

    def describe(self) -> str:
        """Return where the rows come from."""
        return "given rows"

    @property
    def sizes(self) -> ListedSizes:
        """Number of samples of each device."""
        return ListedSizes(device_samples=tuple(map(len, self.rows)))

    def __call__(self, dataset: Dataset, devices: int, generator: Generator) -> tuple[Rows, ...]:  # noqa: ARG002
        """Return the rows of the training samples of each device."""
        if devices != len(self.rows):
            raise InputError("devices", devices, f"{len(self.rows)}, of which the partition has rows")
        return self.rows


@dataclass(frozen=True, kw_only=True, eq=False)
class FromPartitioner(Partition):
    """The rows that a partitioner object gives each device; it has `load_partition`, `num_partitions`.

    It gets a table with the labels under all names in `LABEL_COLUMNS`, and the owners, if they are known,
    under those in `OWNER_COLUMNS`. It draws from its own seed. A copy is used: it divides alike each time.

    Attributes:
        partitioner: The object; no data set was assigned to it yet.
    """

    partitioner: Any

    def __call__(self, dataset: Dataset, devices: int, generator: Generator) -> tuple[Rows, ...]:  # noqa: ARG002
        """Return the rows of the training samples of each device."""
        return rows_of(self.partitioner, dataset, devices)

    def describe(self) -> str:
        """Return the class of the partitioner."""
        return type(self.partitioner).__name__


def rows_of(partitioner: Any, dataset: Dataset, devices: int) -> tuple[Rows, ...]:
    """Return the rows that a partitioner object gives each device; it stays as it is."""
    table, name = _columns(dataset), type(partitioner).__name__
    with user_errors(f"partition {name} failed"):
        own = copy.deepcopy(partitioner)
        own.dataset = table
        count = int(own.num_partitions)
        parts = [own.load_partition(number).select_columns(_ROW)[:][_ROW] for number in range(count)]
    if count != devices:
        raise InputError("devices", devices, f"{count}, as the {name} has partitions")
    return tuple(np.asarray(rows, np.int32) for rows in parts)


def _columns(dataset: Dataset) -> Any:
    """Return labels, owners and row numbers as a table of the package `datasets`."""
    require("datasets")
    from datasets import Dataset as Table  # noqa: PLC0415  (an extra, and slow to import)

    labels = dataset.train_targets
    table: dict[str, Any] = {_ROW: np.arange(len(labels)), **dict.fromkeys(LABEL_COLUMNS, labels)}
    if dataset.owners is not None:
        table |= dict.fromkeys(OWNER_COLUMNS, dataset.owners)
    return Table.from_dict(table)
