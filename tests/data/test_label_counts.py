"""LabelCounts: label × device, as a table, a sentence and a picture."""

import numpy as np
import pytest

from slotwise.data import DataError, Dataset, Iid, LabelCounts, ListedSizes, PartitionedData
from slotwise.learning.local_training import DeviceSamples


def made(labels: list[int]) -> Dataset:
    inputs, targets = np.zeros((len(labels), 2), np.float32), np.array(labels)
    return Dataset("made", inputs, targets, inputs, targets, classes=3)


DATA = made([0, 0, 1, 1, 1, 0])
ROWS = [np.array([0, 1, 2]), np.array([2, 3])]


def test_labels_are_counted_for_each_device() -> None:
    counts = DeviceSamples(DATA, ROWS).label_counts()
    np.testing.assert_array_equal(counts.counts, [[2, 1, 0], [0, 2, 0]])
    np.testing.assert_array_equal(counts.sizes, [3, 2])
    np.testing.assert_array_equal(counts.labels_held, [2, 1])
    shared = "4 of 6 samples, some held by several (5 in all); 2 to 3 samples and 1 to 2 labels on a device"
    assert counts.describe() == shared
    assert repr(counts) == f"LabelCounts(2 devices, 3 labels: {shared})"
    assert {name: column.tolist() for name, column in counts.columns().items()} == {
        "device": [1, 2],
        "samples": [3, 2],
        "label_0": [2, 0],
        "label_1": [1, 2],
        "label_2": [0, 0],
    }


def test_a_partition_counts_labels_and_a_notebook_shows_them() -> None:
    partition = Iid(sizes=ListedSizes(device_samples=(2, 4)))
    counts = partition.label_counts(DATA, 2, np.random.default_rng(0))
    assert counts.title == "made, iid (device samples listed), 2 devices"
    assert counts.describe() == "6 of 6 samples; 2 to 4 samples and 1 to 2 labels on a device"
    assert PartitionedData(partition=ROWS).partition_text == "given rows"
    counts = LabelCounts.of(DATA, ROWS)
    assert counts.plot().axes[-1].get_ylabel() == "samples"
    assert "<td>3</td>" in counts._repr_html_()
    inputs = np.zeros((4, 2), np.float32)
    regression = Dataset("values", inputs, inputs[:, 0], inputs, inputs[:, 0])
    with pytest.raises(DataError, match="values has no labels to count"):
        LabelCounts.of(regression, ROWS)
