"""The partitions that bear the name of one of Flower's give the same samples, or as many of each label."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from flwr_datasets.partitioner import (
    DirichletPartitioner,
    IidPartitioner,
    InnerDirichletPartitioner,
    LinearPartitioner,
    NaturalIdPartitioner,
    PathologicalPartitioner,
    ShardPartitioner,
    SquarePartitioner,
)

from slotwise.base.errors import InputError, UserError
from slotwise.data import (
    Dataset,
    Dirichlet,
    DirichletPerClass,
    EqualSizes,
    FromPartitioner,
    Natural,
    PartitionedData,
    Pathological,
    PowerLawSizes,
    Shards,
)

CLASSES, DEVICES, SEEDS = 10, 20, range(12)
Rows = Sequence[np.ndarray]


@pytest.fixture(scope="module")
def data() -> Dataset:
    """5,000 samples whose labels are unequally frequent, with owners."""
    draw = np.random.default_rng(5)
    labels = draw.choice(CLASSES, 5000, p=np.linspace(1, 2, CLASSES) / np.linspace(1, 2, CLASSES).sum())
    inputs = np.zeros((len(labels), 1), np.float32)
    owners = draw.integers(7, size=len(labels))
    return Dataset("made", inputs, labels, inputs[:9], labels[:9], classes=CLASSES, owners=owners)


def theirs(partitioner: Any, data: Dataset, devices: int = DEVICES) -> Rows:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of draws that are repeated
        rows: Rows = FromPartitioner(partitioner=partitioner)(data, devices, np.random.default_rng(0))
    return rows


def histograms(data: Dataset, rows: Rows) -> np.ndarray:
    return np.stack([np.bincount(data.train_targets[own], minlength=CLASSES) for own in rows])


@pytest.mark.parametrize("each", [1, 2, 3])
def test_shards_are_the_same_rows(data: Dataset, each: int) -> None:
    for seed in SEEDS:
        partitioner = ShardPartitioner(
            DEVICES, "label", num_shards_per_partition=each, shuffle=False, seed=seed
        )
        ours = Shards(shards_per_device=each)(data, DEVICES, np.random.default_rng(seed))
        for own, other in zip(ours, theirs(partitioner, data), strict=True):
            np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("each", [1, 2, 3])
def test_pathological_has_as_many_of_each_label(data: Dataset, each: int) -> None:
    for seed in SEEDS:
        partitioner = PathologicalPartitioner(DEVICES, "label", each, "first-deterministic", seed=seed)
        ours = Pathological(labels_per_device=each)(data, DEVICES, np.random.default_rng(seed))
        expected = histograms(data, theirs(partitioner, data))
        np.testing.assert_array_equal(histograms(data, ours), expected)


@pytest.mark.parametrize("balancing", ["off", "on"])
@pytest.mark.parametrize("concentration", [0.3, 0.5, 5.0])
def test_dirichlet_per_class_has_as_many_of_each_label(
    data: Dataset, concentration: float, balancing: Any
) -> None:
    partition = DirichletPerClass(concentration=concentration, self_balancing=balancing)
    for seed in SEEDS:
        balances = balancing == "on"
        partitioner = DirichletPartitioner(
            DEVICES, "label", concentration, self_balancing=balances, seed=seed
        )
        ours = partition(data, DEVICES, np.random.default_rng(seed))
        expected = histograms(data, theirs(partitioner, data))
        np.testing.assert_array_equal(histograms(data, ours), expected)


def test_natural_owners_are_the_same_rows(data: Dataset) -> None:
    rows = theirs(NaturalIdPartitioner("writer_id"), data, 7)
    ours = Natural()(data, 7, np.random.default_rng(0))
    assert {tuple(own) for own in ours} == {tuple(own) for own in rows}


@pytest.mark.parametrize(("partitioner", "power"), [(LinearPartitioner, 1), (SquarePartitioner, 2)])
def test_sizes_by_a_power_law_differ_by_the_rounding(data: Dataset, partitioner: Any, power: int) -> None:
    sizes = np.array([len(own) for own in theirs(partitioner(DEVICES), data)])
    ours = PowerLawSizes(samples_per_device=250, size_power=power).draw(DEVICES, np.random.default_rng(0))
    # They round down and give the rest to the largest; ours has at least one sample each.
    np.testing.assert_allclose(ours, sizes, atol=DEVICES)


def test_iid_has_all_samples_in_equal_parts(data: Dataset) -> None:
    rows = theirs(IidPartitioner(DEVICES), data)
    assert {len(own) for own in rows} == {250}
    np.testing.assert_array_equal(np.concatenate(rows), np.arange(5000))


def test_a_partitioner_divides_alike_each_time_and_is_refused_where_it_does_not_fit(data: Dataset) -> None:
    partition = PartitionedData(partition=DirichletPartitioner(DEVICES, "label", 0.5))
    draw = np.random.default_rng(0)
    first, second = (partition.divide(data, DEVICES, draw) for _ in range(2))
    assert all((one == two).all() for one, two in zip(first, second, strict=True))
    with pytest.raises(InputError, match="devices = 3: must be 20, as the DirichletPartitioner has"):
        partition.divide(data, 3, draw)
    with pytest.raises(UserError, match="partition ShardPartitioner failed"):
        theirs(ShardPartitioner(DEVICES, "no such column", num_shards_per_partition=2), data)


def test_dirichlet_per_device_has_the_label_shares_of_the_inner_partitioner(data: Dataset) -> None:
    """Over many devices, the share of a device's most frequent label has the same distribution."""
    devices, each = 40, 30
    largest = {}
    for concentration in (0.1, 1.0):
        sizes = [each] * devices
        inner = [InnerDirichletPartitioner(sizes, "label", concentration, seed=seed) for seed in range(5)]
        partition = Dirichlet(concentration=concentration, sizes=EqualSizes(samples_per_device=each))
        ours = [partition(data, devices, np.random.default_rng(seed)) for seed in range(5)]
        for who, many in (("ours", ours), ("theirs", [theirs(one, data, devices) for one in inner])):
            shares = np.concatenate([histograms(data, rows).max(axis=1) for rows in many]) / each
            largest[concentration, who] = shares.mean(), shares.std()
    for concentration in (0.1, 1.0):
        assert largest[concentration, "ours"] == pytest.approx(largest[concentration, "theirs"], abs=0.04)
