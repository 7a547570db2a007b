"""DatasetConfig: which data set a run uses and how it is divided among the devices."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slotwise.data.cifar10 import load_cifar10
from slotwise.data.dataset import Dataset
from slotwise.data.mnist import load_mnist
from slotwise.data.partition import dirichlet, iid, k_labels, one_label
from slotwise.errors import InputError
from slotwise.option_types import check_fields
from slotwise.scenario import whole

DataName = Literal["mnist", "cifar10"]
PartitionName = Literal["one-label", "k-labels", "dirichlet", "iid"]
InputScale = Literal["standard", "unit"]
IMAGE_SHAPES: dict[str, tuple[int, int, int]] = {"mnist": (1, 28, 28), "cifar10": (3, 32, 32)}


@dataclass(frozen=True, kw_only=True)
class DatasetConfig:
    """A built-in data set and its partition.

    Attributes:
        data: Data set.
        partition: Which samples a device holds; the paper: samples of one label each.
        samples_per_device: Samples of each device.
        labels_per_device: Labels of each device, for the partition k-labels.
        concentration: Parameter of the partition dirichlet; smaller is more unequal.
        input_scale: Pixels standardised by the data set's mean and deviation, or scaled to 0..1.
    """

    data: DataName = "mnist"
    partition: PartitionName = "one-label"
    samples_per_device: int = 250
    labels_per_device: int = 2
    concentration: float = 0.5
    input_scale: InputScale = "standard"

    def __post_init__(self) -> None:
        check_fields(self)
        whole("samples_per_device", self.samples_per_device)
        whole("labels_per_device", self.labels_per_device)
        if not 0 < self.concentration < inf:
            raise InputError("concentration", self.concentration, "a finite number above 0")

    def load(self) -> Dataset:
        """Load the data set."""
        return load_mnist() if self.data == "mnist" else load_cifar10()

    def divide(self, dataset: Dataset, devices: int, draw: np.random.Generator) -> NDArray[np.int32]:
        """Return the samples of each device, [devices, samples]."""
        division = (dataset.train_labels, devices, self.samples_per_device, draw)
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
