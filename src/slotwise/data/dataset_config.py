"""DatasetConfig: the data set of a run and its partition among the devices."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Literal

from slotwise.data.cifar10 import load_cifar10
from slotwise.data.dataset import DataError, Dataset, load_mnist
from slotwise.data.dataset_cache import dataset_path, load_cached, missing_notice, stored_hash
from slotwise.data.facts import FACTS, FOLDER_FACTS, DataFacts, DataName, PartitionName
from slotwise.data.npz_folder import folder_facts, folder_hash, load_npz_folder
from slotwise.data.partitions import (
    Generator,
    Rows,
    Samples,
    TooManySamples,
    dirichlet,
    iid,
    k_labels,
    natural,
    one_label,
    skewed_sizes,
)
from slotwise.errors import InputError
from slotwise.scenario import LARGEST_SEED, check_fields, refuse_unused, whole

InputScale = Literal["standard", "unit"]
PARTITION_OPTIONS = {"labels_per_device": "k-labels", "concentration": "dirichlet"}  # and their partitions


@dataclass(frozen=True, kw_only=True)
class DatasetConfig:
    """A data set and its partition.

    Attributes:
        data: Data set.
        partition: Samples that a device holds; in the paper, samples of one label each. With natural, those
            of one owner, such as the writer.
        samples_per_device: Samples of each device, or their mean.
        sample_skew: Devices hold different numbers of samples, in shares drawn from a Dirichlet distribution
            with this concentration; smaller is more unequal. Default: all hold equally many.
        device_samples: Samples of devices 1 to N, one by one.
        labels_per_device: Labels of each device, for the partition k-labels.
        concentration: Parameter of the partition dirichlet; smaller is more unequal.
        input_scale: Pixels standardised by the data set's mean and deviation, or scaled to 0..1.
        data_seed: Random seed of the partition. Default: that of the run.
        data_folder: Your own data instead: a folder with device-1.npz, device-2.npz, … and test.npz.
        folder_shape: Shape of an input in the data folder.
        folder_classes: Number of classes in the data folder.
    """

    data: DataName = "mnist"
    partition: PartitionName = "one-label"
    samples_per_device: int = 250
    sample_skew: float | None = None
    device_samples: tuple[int, ...] = ()
    labels_per_device: int = 2
    concentration: float = 0.5
    input_scale: InputScale = "standard"
    data_seed: int | None = None
    data_folder: str | None = None
    folder_shape: tuple[int, ...] = ()
    folder_classes: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.data_folder, Path):
            object.__setattr__(self, "data_folder", str(self.data_folder))
        check_fields(self)
        whole("samples_per_device", self.samples_per_device)
        whole("labels_per_device", self.labels_per_device)
        for name in ("concentration", "sample_skew"):
            value = getattr(self, name)
            if value is not None and not 0 < value < inf:
                raise InputError(name, value, "a finite number above 0")
        for device, count in enumerate(self.device_samples, start=1):
            try:
                whole("device_samples", count)
            except InputError as error:
                raise InputError("device_samples", f"{count} of device {device}", error.allowed) from None
        if self.data_seed is not None:
            whole("data_seed", self.data_seed, 0, LARGEST_SEED)
        refuse_unused(self)
        if self.data_folder is not None:
            self._look_into_folder(self.data_folder)
        elif self.partition == "natural" and FACTS[self.data].owners is None:
            known = ", ".join(name for name, facts in FACTS.items() if facts.owners)
            raise InputError("partition", self.partition, f"used with data that has owners: {known}")

    def unused(self) -> dict[str, str]:
        """Return the options that have no effect with the data and the partition, with the reason."""
        if self.data_folder is not None:
            names = (
                "data",
                "partition",
                "samples_per_device",
                "sample_skew",
                "data_seed",
                *PARTITION_OPTIONS,
            )
            return dict.fromkeys(names, "with data_folder")
        reason = f"with partition {self.partition}"
        found = {name: reason for name, owner in PARTITION_OPTIONS.items() if owner != self.partition}
        found |= dict.fromkeys(FOLDER_FACTS, "without data_folder")
        if self.partition == "natural":
            found |= dict.fromkeys(("samples_per_device", "sample_skew", "device_samples"), reason)
        elif self.device_samples:
            found |= dict.fromkeys(("samples_per_device", "sample_skew"), "with device_samples")
        return found

    def _look_into_folder(self, folder: str) -> None:
        """Keep the absolute name of the folder and, unless they are known already, the facts about it."""
        object.__setattr__(self, "data_folder", str(Path(folder).absolute()))
        if not self.device_samples:
            facts = folder_facts(folder)
            object.__setattr__(self, "device_samples", facts.samples)
            object.__setattr__(self, "folder_shape", facts.input_shape)
            object.__setattr__(self, "folder_classes", facts.classes)

    @property
    def source(self) -> str:
        """Name of the data set, or of the folder: two runs of the same source can share what is loaded."""
        return self.data_folder or self.data

    @property
    def facts(self) -> DataFacts:
        """Title, shape and classes; of a data folder without labels the number of classes is 0."""
        if self.data_folder is None:
            return FACTS[self.data]
        return DataFacts(self.data_folder, self.folder_shape, self.folder_classes or 0)

    @property
    def missing(self) -> str | None:
        """Sentence that says how to get the data set, or None if it is on this machine."""
        if self.data == "mnist" or self.data_folder is not None or dataset_path(self.data).is_file():
            return None
        return missing_notice(self.data)

    @property
    def content_hash(self) -> str | None:
        """Content hash of a data folder or a fetched data set; None for MNIST, or if it was not fetched."""
        if self.data_folder is not None:
            return folder_hash(self.data_folder)
        return None if self.data == "mnist" else stored_hash(self.data)

    def total_samples(self, devices: int) -> int:
        """Return the samples of all devices together; of natural owners an estimate."""
        return sum(self.device_samples) if self.device_samples else devices * self.typical_samples

    @property
    def typical_samples(self) -> int:
        """Samples of a device: the most that is given, the mean if they are drawn, an estimate for owners."""
        if self.device_samples:
            return max(self.device_samples)
        return self.facts.samples_per_owner if self.partition == "natural" else self.samples_per_device

    def check_devices(self, devices: int) -> None:
        """Refuse a number of devices other than that of ``device_samples`` or of the files of a folder."""
        count = len(self.device_samples)
        if count and count != devices:
            if self.data_folder is not None:
                raise InputError("devices", devices, f"{count}, one for each file of {self.data_folder}")
            raise InputError("device_samples", f"{count} numbers", f"{devices}, one for each device")

    def load(self, devices: Collection[int] | None = None) -> Dataset:
        """Load the data set; of a data folder only the files of ``devices``, if they are given."""
        if self.data_folder is not None:
            return self._load_folder(self.data_folder, devices)
        if self.data == "mnist":
            return load_mnist()
        return load_cifar10() if self.data == "cifar10" else load_cached(self.data)

    def _load_folder(self, folder: str, devices: Collection[int] | None) -> Dataset:
        dataset = load_npz_folder(folder, devices=devices, classes=self.folder_classes)
        numbers = range(1, len(self.device_samples) + 1) if devices is None else sorted(devices)
        found = tuple(len(rows) for rows in dataset.owner_rows())
        wanted = tuple(self.device_samples[number - 1] for number in numbers)
        if (found, dataset.input_shape) != (wanted, self.folder_shape):
            raise DataError(f"{folder} has other samples than the run had, or was announced, at its start")
        return dataset

    def divide(self, dataset: Dataset, devices: int, draw: Generator) -> tuple[Rows, ...]:
        """Return the rows of the samples of each device; devices may have different numbers of samples."""
        if self.data_folder is not None:
            return dataset.owner_rows()
        if self.partition == "natural":
            return natural(dataset, devices, draw)
        samples: Samples = self.device_samples or self.samples_per_device
        if self.sample_skew is not None:
            samples = skewed_sizes(devices, self.samples_per_device, draw, self.sample_skew)
        try:
            return self._divide_by_label(dataset, devices, samples, draw)
        except TooManySamples as error:
            raise self._blaming_given_option(error) from None

    def _divide_by_label(
        self, dataset: Dataset, devices: int, samples: Samples, draw: Generator
    ) -> tuple[Rows, ...]:
        division = (dataset.train_targets, devices, samples, draw)
        match self.partition:
            case "one-label":
                return one_label(*division)
            case "k-labels":
                return k_labels(*division, self.labels_per_device)
            case "dirichlet":
                return dirichlet(*division, self.concentration)
            case _:
                return iid(*division)

    def _blaming_given_option(self, error: TooManySamples) -> InputError:
        """Return an error that names the option from which the number of samples of the device follows."""
        if self.device_samples:
            return InputError("device_samples", f"{error.samples} of device {error.device}", error.allowed)
        if self.sample_skew is None or self.samples_per_device >= error.samples:
            return InputError("samples_per_device", self.samples_per_device, error.allowed)
        drawn = f"device {error.device} would hold {error.samples:,} samples, and {error.reason}"
        return InputError("sample_skew", self.sample_skew, f"larger, or samples_per_device less: {drawn}")

    def standardisation(self, dataset: Dataset) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return offset and scale of the pixels, per channel."""
        if self.input_scale == "standard":
            return dataset.offset, dataset.scale
        return (0.0,) * len(dataset.offset), (1.0,) * len(dataset.scale)
