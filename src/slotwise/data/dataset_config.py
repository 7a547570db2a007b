"""DatasetConfig: the data set of a run and its partition among the devices; the partition functions.

A partition function takes the labels of the training images and returns the rows that each device gets, as
int32 [devices, samples_per_device]. All deal from a shuffled pile per label (or one pile for `iid`) like
cards: devices share no sample until a pile is too small for the next device; that pile is then gathered and
shuffled again. A device never holds a sample twice. The same generator state gives the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slotwise.data.cifar10 import load_cifar10
from slotwise.data.dataset import DataError, Dataset, load_mnist
from slotwise.errors import InputError
from slotwise.scenario import LARGEST_SEED, check_fields, refuse_unused, whole

DataName = Literal["mnist", "cifar10"]
PartitionName = Literal["one-label", "k-labels", "dirichlet", "iid"]
InputScale = Literal["standard", "unit"]
Labels = NDArray[np.integer]
Rows = NDArray[np.int32]
Generator = np.random.Generator
PARTITION_OPTIONS = {"labels_per_device": "k-labels", "concentration": "dirichlet"}  # and their partitions
TITLES: dict[str, str] = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
IMAGE_SHAPES: dict[str, tuple[int, int, int]] = {"mnist": (1, 28, 28), "cifar10": (3, 32, 32)}


@dataclass(frozen=True, kw_only=True)
class DatasetConfig:
    """A built-in data set and its partition.

    Attributes:
        data: Data set.
        partition: Samples that a device holds; in the paper, samples of one label each.
        samples_per_device: Samples of each device.
        labels_per_device: Labels of each device, for the partition k-labels.
        concentration: Parameter of the partition dirichlet; smaller is more unequal.
        input_scale: Pixels standardised by the data set's mean and deviation, or scaled to 0..1.
        data_seed: Random seed of the partition. Default: that of the run.
    """

    data: DataName = "mnist"
    partition: PartitionName = "one-label"
    samples_per_device: int = 250
    labels_per_device: int = 2
    concentration: float = 0.5
    input_scale: InputScale = "standard"
    data_seed: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        whole("samples_per_device", self.samples_per_device)
        whole("labels_per_device", self.labels_per_device)
        if not 0 < self.concentration < inf:
            raise InputError("concentration", self.concentration, "a finite number above 0")
        if self.data_seed is not None:
            whole("data_seed", self.data_seed, 0, LARGEST_SEED)
        refuse_unused(self)

    def unused(self) -> dict[str, str]:
        """Return the options of other partitions, with the reason."""
        reason = f"with partition {self.partition}"
        return {name: reason for name, owner in PARTITION_OPTIONS.items() if owner != self.partition}

    def load(self) -> Dataset:
        """Load the data set."""
        return load_mnist() if self.data == "mnist" else load_cifar10()

    def divide(self, dataset: Dataset, devices: int, draw: Generator) -> Rows:
        """Return the samples of each device, [devices, samples]."""
        division = (dataset.train_targets, devices, self.samples_per_device, draw)
        match self.partition:
            case "one-label":
                return one_label(*division)
            case "k-labels":
                return k_labels(*division, self.labels_per_device)
            case "dirichlet":
                return dirichlet(*division, self.concentration)
            case "iid":
                return iid(*division)

    def standardisation(self, dataset: Dataset) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return offset and scale of the pixels, per channel."""
        if self.input_scale == "standard":
            return dataset.offset, dataset.scale
        return (0.0,) * len(dataset.offset), (1.0,) * len(dataset.scale)


def one_label(labels: Labels, devices: int, samples_per_device: int, generator: Generator) -> Rows:
    """Give each device samples of one label, chosen at random: the setting of the paper's experiments."""
    return k_labels(labels, devices, samples_per_device, generator, labels_per_device=1)


def k_labels(
    labels: Labels, devices: int, samples_per_device: int, generator: Generator, labels_per_device: int
) -> Rows:
    """Give each device samples of `labels_per_device` different labels, chosen at random.

    The samples are divided evenly; what is left over goes one each to the first labels chosen. A device's
    rows are grouped by label.

    Raises:
        DataError: there are not that many labels.
        InputError: there are not that many samples.
    """
    piles = _piles(labels, devices, samples_per_device)
    most = min(len(piles), samples_per_device)
    if not 1 <= labels_per_device <= most:
        raise DataError(f"labels_per_device is {labels_per_device}, must be from 1 to {most}")
    every_label = np.tile(np.arange(len(piles)), (devices, 1))
    chosen = generator.permuted(every_label, axis=1)[:, :labels_per_device]
    each, left_over = divmod(samples_per_device, labels_per_device)
    shares = each + (np.arange(labels_per_device) < left_over)
    counts = np.zeros((devices, len(piles)), np.int64)
    np.put_along_axis(counts, chosen, shares[np.newaxis], axis=1)
    return _deal(piles, counts, generator)


def dirichlet(
    labels: Labels, devices: int, samples_per_device: int, generator: Generator, concentration: float
) -> Rows:
    """Give each device all labels in proportions of its own, drawn from a symmetric Dirichlet distribution.

    After Hsu, Qi and Brown (2019), "Measuring the effects of non-identical data distribution for federated
    visual classification". A device's rows are grouped by label. With a concentration towards 0 each device
    has one label; if it is large, every device has the same mixture.

    Raises:
        InputError: a device draws more samples of a label than there are.
    """
    piles = _piles(labels, devices, samples_per_device)
    if not 0 < concentration < np.inf:
        raise DataError(f"concentration is {concentration}, must be a finite number above 0")
    proportions = generator.dirichlet(np.full(len(piles), concentration), size=devices)
    return _deal(piles, generator.multinomial(samples_per_device, proportions), generator)


def iid(labels: Labels, devices: int, samples_per_device: int, generator: Generator) -> Rows:
    """Give each device samples of the whole data set, whatever their labels."""
    everything = _piles(np.zeros_like(labels), devices, samples_per_device)
    if samples_per_device > len(labels):
        raise DataError(f"samples_per_device is {samples_per_device}, must be at most {len(labels)}")
    return _deal(everything, np.full((devices, 1), samples_per_device), generator)


def _piles(labels: Labels, devices: int, samples_per_device: int) -> dict[int, Rows]:
    """Return the rows of each label that occurs, in ascending order of labels."""
    if labels.ndim != 1 or len(labels) == 0:
        raise DataError(f"labels have shape {labels.shape}, must have 1 dimension and not be empty")
    if devices < 1:
        raise DataError(f"devices is {devices}, must be at least 1")
    if samples_per_device < 1:
        raise DataError(f"samples_per_device is {samples_per_device}, must be at least 1")
    return {int(label): np.flatnonzero(labels == label).astype(np.int32) for label in np.unique(labels)}


def _deal(piles: dict[int, Rows], counts: NDArray[np.int64], generator: Generator) -> Rows:
    """Give each device `counts[device, pile]` rows of each pile; all devices need equally many in total."""
    rows = np.empty((len(counts), int(counts[0].sum())), np.int32)
    ends = counts.cumsum(axis=1)
    for number, (label, pile) in enumerate(piles.items()):
        if counts[:, number].max() > len(pile):
            allowed = f"less: label {label} has only {len(pile):,} samples"
            raise InputError("samples_per_device", rows.shape[1], allowed)
        shuffled, dealt = pile, len(pile)
        for device in np.flatnonzero(counts[:, number]):
            count, end = counts[device, number], ends[device, number]
            if dealt + count > len(pile):
                shuffled, dealt = generator.permutation(shuffled), 0
            rows[device, end - count : end] = shuffled[dealt : dealt + count]
            dealt += count
    return rows
