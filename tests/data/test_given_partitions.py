"""Lists of rows and partitioner objects as partitions; Flower's own are in tests/flower."""

from typing import Any

import numpy as np
import pytest

from slotwise.base.errors import InputError, UserError
from slotwise.data import Dataset, PartitionedData


def small(labels: int = 12) -> Dataset:
    inputs, targets = np.zeros((labels, 2), np.float32), np.arange(labels) % 3
    owners = np.arange(labels) % 2
    return Dataset("small", inputs, targets, inputs, targets, classes=3, owners=owners)


class ByColumn:
    """A partitioner as flwr_datasets has them: the rows of each value of a column."""

    def __init__(self, column: str) -> None:
        self.column = column
        self._dataset: Any = None

    @property
    def dataset(self) -> Any:
        return self._dataset

    @dataset.setter
    def dataset(self, table: Any) -> None:
        if self._dataset is not None:
            raise ValueError("only once")
        self._dataset = table

    @property
    def num_partitions(self) -> int:
        return len(set(self.dataset[self.column]))

    def load_partition(self, number: int) -> Any:
        return self.dataset.filter(lambda row: row[self.column] == number)


def returns_partitioner(dataset: Dataset, devices: int, generator: np.random.Generator) -> ByColumn:
    assert (dataset.name, devices, generator is not None) == ("small", 2, True)
    return ByColumn("writer_id")


def divided(partition: Any, devices: int) -> list[list[int]]:
    rows = PartitionedData(partition=partition).divide(small(), devices, np.random.default_rng(0))
    return [own.tolist() for own in rows]


def test_a_list_of_rows_is_a_partition() -> None:
    rows = [range(3), [5, 4], np.array([7])]
    assert divided(rows, 3) == [[0, 1, 2], [5, 4], [7]]
    assert PartitionedData(partition=rows).sizes.total(3) == 6


@pytest.mark.parametrize("rows", [[], [[]], [[1.5]], ["text"], [[[1]]]])
def test_a_list_of_anything_else_is_refused(rows: Any) -> None:
    with pytest.raises(InputError, match="partition = a list"):
        PartitionedData(partition=rows)


def test_a_partitioner_object_is_a_partition_and_divides_alike_each_time() -> None:
    pytest.importorskip("datasets")
    partitioner = ByColumn("label")
    assert divided(partitioner, 3) == divided(partitioner, 3) == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]
    assert divided(returns_partitioner, 2) == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]]


def test_a_partitioner_that_does_not_fit_is_refused() -> None:
    pytest.importorskip("datasets")
    with pytest.raises(InputError, match="devices = 2: must be 3, as the ByColumn has partitions"):
        divided(ByColumn("label"), 2)
    with pytest.raises(UserError, match=r"partition ByColumn failed: .*nothing"):
        divided(ByColumn("nothing"), 2)
