"""LabelCounts: how many samples of each label each device holds, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.base.frozen import FrozenArrays
from slotwise.base.notebook import Displayable
from slotwise.data.dataset import DataError, Dataset


@dataclass(frozen=True, eq=False, repr=False)
class LabelCounts(FrozenArrays, Displayable):
    """Numbers of samples, label × device, as papers draw a partition.

    `plot` draws it, `to_pandas` makes a table.

    Attributes:
        counts: [devices, labels].
        distinct: Different samples that the devices hold together: less than their sum if they share some.
        available: Training samples of the data set.
        title: What is divided how, for the head of the picture.
    """

    counts: NDArray[np.int64]
    distinct: int
    available: int
    title: str = ""

    @classmethod
    def of(cls, dataset: Dataset, rows: Sequence[Any], title: str = "") -> LabelCounts:
        """Count the labels of the rows of each device, or raise a DataError if the targets are no labels."""
        labels = dataset.train_targets
        if dataset.classes is None or labels.ndim != 1:
            raise DataError(f"{dataset.name} has no labels to count, must be a classification")
        counts = np.stack([np.bincount(labels[own], minlength=dataset.classes) for own in rows])
        distinct = len(np.unique(np.concatenate([*rows])))
        return cls(counts.astype(np.int64), distinct, len(labels), title or dataset.name)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Samples of each device."""
        sizes: NDArray[np.int64] = self.counts.sum(axis=1)
        return sizes

    @property
    def labels_held(self) -> NDArray[np.int64]:
        """Number of labels of each device."""
        held: NDArray[np.int64] = np.count_nonzero(self.counts, axis=1)
        return held

    def describe(self) -> str:
        """Return one sentence: how many samples the devices hold, and how many labels."""
        sizes, labels = self.sizes, self.labels_held
        used = f"{self.distinct:,} of {self.available:,} samples"
        shared = f", some held by several ({sizes.sum():,} in all)" if self.distinct < sizes.sum() else ""
        return f"{used}{shared}; {_range(sizes, 'sample')} and {_range(labels, 'label')} on a device"

    def __repr__(self) -> str:
        devices, labels = self.counts.shape
        return f"LabelCounts({devices:,} devices, {labels} labels: {self.describe()})"

    def columns(self) -> dict[str, NDArray[np.int64]]:
        """Return a column of devices, one of their samples and one for each label."""
        own = {f"label_{label}": column for label, column in enumerate(self.counts.T)}
        return {"device": np.arange(1, len(self.counts) + 1), "samples": self.sizes, **own}


def _range(numbers: NDArray[np.int64], noun: str) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    amount = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{amount} {noun}{'s' * (high != 1)}"
