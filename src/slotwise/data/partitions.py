"""Partitions: which samples each device gets.

A partition is a function of the data set, the number of devices and a generator; it returns the rows of each
device. The built-in ones are values of the classes below. To add one, write a class and name it in
`PARTITIONS`: its fields are options of a run.

Partitions by label take the labels of the training samples. The samples of a label (of all labels for `iid`)
are shuffled and given to one device after another. Devices share no sample until too few of a label are left
for the next device; then all samples of that label are shuffled and used again. A device never holds a sample
twice. The same generator state gives the same rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError
from slotwise.data.dataset import DataError, Dataset
from slotwise.options import Choice, Either, Range
from slotwise.options.checks import LARGEST, check_fields

Labels = NDArray[np.integer]
Rows = NDArray[np.int32]
Counts = NDArray[np.int64]
Samples = int | Sequence[int] | NDArray[np.integer]  # one number for all devices, or one for each
Generator = np.random.Generator
Count = Annotated[int, Range(least=1, most=LARGEST)]


class TooManySamples(InputError):
    """More samples for a device than there are: the device, counted from 1, its samples, and the reason."""

    def __init__(self, device: int, samples: int, reason: str) -> None:
        self.device, self.samples, self.reason = device, samples, reason
        super().__init__("samples_per_device", samples, f"less: {reason}")


@dataclass(frozen=True, kw_only=True)
class EqualSizes:
    """Every device holds equally many samples.

    Attributes:
        samples_per_device: Samples of each device, or their mean.
    """

    option: ClassVar[str] = "samples_per_device"  # that decides how many there are in all
    samples_per_device: Count = 250

    def __post_init__(self) -> None:
        check_fields(self)

    def draw(self, devices: int, generator: Generator) -> Samples:  # noqa: ARG002
        """Return the number of samples of every device, or of each."""
        return self.samples_per_device

    def total(self, devices: int) -> int:
        """Return the samples of all devices together."""
        return devices * self.samples_per_device

    def check_devices(self, devices: int) -> None:
        """Refuse a number of devices that the sizes are not for; these are for any."""

    def blamed(self, error: TooManySamples) -> InputError:
        """Return an error that names the option from which the samples of a device follow."""
        return InputError("samples_per_device", self.samples_per_device, error.allowed)


@dataclass(frozen=True, kw_only=True)
class SkewedSizes(EqualSizes):
    """Devices hold different numbers of samples, in shares that are drawn.

    Attributes:
        sample_skew: Devices hold different numbers of samples, in shares drawn from a Dirichlet distribution
            with this concentration; smaller is more unequal. Default: all hold equally many.
    """

    sample_skew: Annotated[float, Range(above=0)]

    def draw(self, devices: int, generator: Generator) -> Samples:
        """Return the number of samples of each device."""
        return skewed_sizes(devices, self.samples_per_device, generator, self.sample_skew)

    def blamed(self, error: TooManySamples) -> InputError:
        """Return an error that names the option from which the samples of a device follow."""
        if self.samples_per_device >= error.samples:
            return super().blamed(error)
        drawn = f"device {error.device} would hold {error.samples:,} samples, and {error.reason}"
        return InputError("sample_skew", self.sample_skew, f"larger, or samples_per_device less: {drawn}")


@dataclass(frozen=True, kw_only=True)
class ListedSizes:
    """The samples of each device are listed.

    Attributes:
        device_samples: Samples of devices 1 to N, one by one.
    """

    option: ClassVar[str] = "device_samples"
    device_samples: Annotated[tuple[int, ...], Range(least=1, most=LARGEST)]

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.device_samples:
            raise InputError("device_samples", "none", "one number for each device")

    @property
    def samples_per_device(self) -> int:
        """The most samples that a device holds."""
        return max(self.device_samples)

    def draw(self, devices: int, generator: Generator) -> Samples:  # noqa: ARG002
        """Return the number of samples of each device."""
        return self.device_samples

    def total(self, devices: int) -> int:  # noqa: ARG002
        """Return the samples of all devices together."""
        return sum(self.device_samples)

    def check_devices(self, devices: int) -> None:
        """Refuse another number of devices than that of the list."""
        count = len(self.device_samples)
        if count != devices:
            raise InputError("device_samples", f"{count} numbers", f"{devices}, one for each device")

    def blamed(self, error: TooManySamples) -> InputError:
        """Return an error that names the option from which the samples of a device follow."""
        return InputError("device_samples", f"{error.samples} of device {error.device}", error.allowed)


Sizes = EqualSizes | SkewedSizes | ListedSizes


@dataclass(frozen=True, kw_only=True)
class Partition(ABC):
    """A built-in partition."""

    def __post_init__(self) -> None:
        check_fields(self)

    @abstractmethod
    def __call__(self, dataset: Dataset, devices: int, generator: Generator) -> tuple[Rows, ...]:
        """Return the rows of the training samples of each device."""


@dataclass(frozen=True, kw_only=True)
class ByLabel(Partition):
    """A partition by label, of devices that hold given numbers of samples.

    Attributes:
        sizes: How many samples each device holds.
    """

    sizes: Annotated[Sizes, Either((EqualSizes, SkewedSizes, ListedSizes))] = EqualSizes()

    def __call__(self, dataset: Dataset, devices: int, generator: Generator) -> tuple[Rows, ...]:
        """Return the rows of the training samples of each device."""
        samples = self.sizes.draw(devices, generator)
        try:
            return self.divide(dataset.train_targets, devices, samples, generator)
        except TooManySamples as error:
            raise self.sizes.blamed(error) from None

    @abstractmethod
    def divide(
        self, labels: Labels, devices: int, samples: Samples, generator: Generator
    ) -> tuple[Rows, ...]:
        """Return the rows of each device, which are chosen by their labels."""


class OneLabel(ByLabel):
    """Each device holds samples of one label: the setting of the paper's experiments."""

    def divide(
        self, labels: Labels, devices: int, samples: Samples, generator: Generator
    ) -> tuple[Rows, ...]:
        """Return the rows of each device."""
        return one_label(labels, devices, samples, generator)


@dataclass(frozen=True, kw_only=True)
class KLabels(ByLabel):
    """Each device holds samples of a few labels, equally many of each.

    Attributes:
        labels_per_device: Labels of each device, for the partition k-labels.
    """

    labels_per_device: Count = 2

    def divide(
        self, labels: Labels, devices: int, samples: Samples, generator: Generator
    ) -> tuple[Rows, ...]:
        """Return the rows of each device."""
        return k_labels(labels, devices, samples, generator, self.labels_per_device)


@dataclass(frozen=True, kw_only=True)
class Dirichlet(ByLabel):
    """Each device holds all labels in proportions of its own.

    Attributes:
        concentration: Parameter of the partition dirichlet; smaller is more unequal.
    """

    concentration: Annotated[float, Range(above=0)] = 0.5

    def divide(
        self, labels: Labels, devices: int, samples: Samples, generator: Generator
    ) -> tuple[Rows, ...]:
        """Return the rows of each device."""
        return dirichlet(labels, devices, samples, generator, self.concentration)


class Iid(ByLabel):
    """Each device holds samples of the whole data set."""

    def divide(
        self, labels: Labels, devices: int, samples: Samples, generator: Generator
    ) -> tuple[Rows, ...]:
        """Return the rows of each device."""
        return iid(labels, devices, samples, generator)


class Natural(Partition):
    """Each device holds all samples of one owner, such as a writer."""

    def __call__(self, dataset: Dataset, devices: int, generator: Generator) -> tuple[Rows, ...]:
        """Return the rows of the training samples of each device."""
        return natural(dataset, devices, generator)


PARTITIONS: Mapping[str, type[Partition]] = {
    "one-label": OneLabel,
    "k-labels": KLabels,
    "dirichlet": Dirichlet,
    "iid": Iid,
    "natural": Natural,
}
PARTITION = Choice("partition", PARTITIONS, own=(3,))
PartitionChoice = Annotated[Any, PARTITION]
"""A value of one of the classes above, a function of your own, or a `UserFunction`."""


def one_label(labels: Labels, devices: int, samples: Samples, generator: Generator) -> tuple[Rows, ...]:
    """Give each device samples of one label, chosen at random: the setting of the paper's experiments."""
    return k_labels(labels, devices, samples, generator, labels_per_device=1)


def k_labels(
    labels: Labels, devices: int, samples: Samples, generator: Generator, labels_per_device: int
) -> tuple[Rows, ...]:
    """Give each device samples of `labels_per_device` different labels, chosen at random.

    The samples are divided evenly; what is left over goes one each to the first labels chosen, so a device
    with fewer samples has fewer labels. A device's rows are grouped by label.

    Raises:
        InputError: there are not that many labels or samples.
    """
    by_label, sizes = _rows_by_label(labels), _sizes(devices, samples)
    if not 1 <= labels_per_device <= len(by_label):
        allowed = f"from 1 to {len(by_label)}, the number of labels in the data"
        raise InputError("labels_per_device", labels_per_device, allowed)
    if labels_per_device > sizes.max():
        allowed = f"at most {sizes.max()}, because no device has more samples than that"
        raise InputError("labels_per_device", labels_per_device, allowed)
    every_label = np.tile(np.arange(len(by_label)), (devices, 1))
    chosen = generator.permuted(every_label, axis=1)[:, :labels_per_device]
    each, left_over = np.divmod(sizes[:, np.newaxis], labels_per_device)
    shares = each + (np.arange(labels_per_device) < left_over)
    counts = np.zeros((devices, len(by_label)), np.int64)
    np.put_along_axis(counts, chosen, shares, axis=1)
    return _assign(by_label, counts, generator)


def dirichlet(
    labels: Labels, devices: int, samples: Samples, generator: Generator, concentration: float
) -> tuple[Rows, ...]:
    """Give each device all labels in proportions of its own, drawn from a symmetric Dirichlet distribution.

    After Hsu, Qi and Brown (2019), "Measuring the effects of non-identical data distribution for federated
    visual classification". A device's rows are grouped by label. With a concentration towards 0 each device
    has one label; if it is large, every device has the same mixture.

    Raises:
        InputError: a device draws more samples of a label than there are.
    """
    by_label, sizes = _rows_by_label(labels), _sizes(devices, samples)
    _check_concentration("concentration", concentration)
    proportions = generator.dirichlet(np.full(len(by_label), concentration), size=devices)
    return _assign(by_label, generator.multinomial(sizes, proportions), generator)


def iid(labels: Labels, devices: int, samples: Samples, generator: Generator) -> tuple[Rows, ...]:
    """Give each device samples of the whole data set, whatever their labels.

    Raises:
        InputError: there are not that many samples.
    """
    everything, sizes = _rows_by_label(np.zeros_like(labels)), _sizes(devices, samples)
    if sizes.max() > len(labels):
        reason = f"there are only {len(labels):,} samples"
        raise TooManySamples(int(sizes.argmax()) + 1, int(sizes.max()), reason)
    return _assign(everything, sizes[:, np.newaxis], generator)


def natural(dataset: Dataset, devices: int, generator: Generator) -> tuple[Rows, ...]:
    """Give each device all samples of one owner; if there are more owners, they are chosen at random.

    Raises:
        InputError: the owners are not known, or there are fewer owners than devices.
    """
    owned = dataset.owner_rows()
    if devices > len(owned):
        raise InputError("devices", devices, f"at most {len(owned):,}, the owners in {dataset.name}")
    if devices == len(owned):
        return owned
    chosen = np.sort(generator.permutation(len(owned))[:devices])
    return tuple(owned[owner] for owner in chosen)


def skewed_sizes(devices: int, mean: int, generator: Generator, concentration: float) -> Counts:
    """Draw numbers of samples that differ: shares of devices·mean samples, at least 1 for each device.

    The shares are drawn from a symmetric Dirichlet distribution over the devices: the quantity skew of Li,
    Diao, Chen and He (2022), "Federated learning on non-IID data silos: an experimental study". Rounding is
    by largest remainders, so the total is exact.
    """
    _check_concentration("sample_skew", concentration)
    spare = devices * (mean - 1)
    wanted = generator.dirichlet(np.full(devices, concentration)) * spare
    sizes = np.floor(wanted).astype(np.int64)
    missing = spare - int(sizes.sum())
    sizes[np.argsort(sizes - wanted, kind="stable")[:missing]] += 1
    return sizes + 1


def _check_concentration(name: str, concentration: float) -> None:
    if not 0 < concentration < np.inf:
        raise DataError(f"{name} is {concentration}, must be a finite number above 0")


def _rows_by_label(labels: Labels) -> dict[int, Rows]:
    """Return the rows of each label that occurs, in ascending order of labels."""
    if labels.ndim != 1 or len(labels) == 0 or labels.dtype.kind not in "biu":
        found = f"{labels.dtype} {labels.shape}"
        raise DataError(f"labels are {found}, must have 1 dimension and not be empty, and be whole numbers")
    return {int(label): np.flatnonzero(labels == label).astype(np.int32) for label in np.unique(labels)}


def _sizes(devices: int, samples: Samples) -> Counts:
    """Return the number of samples of each device."""
    if devices < 1:
        raise DataError(f"devices is {devices}, must be at least 1")
    sizes = np.full(devices, samples) if isinstance(samples, int) else np.asarray(samples)
    if sizes.shape != (devices,) or sizes.dtype.kind not in "iu":
        raise DataError(f"samples are {sizes.dtype} {sizes.shape}, must be one number for each device")
    if sizes.min() < 1:
        raise DataError(f"samples_per_device is {sizes.min()}, must be at least 1")
    return sizes.astype(np.int64)


def _assign(by_label: dict[int, Rows], counts: Counts, generator: Generator) -> tuple[Rows, ...]:
    """Return the rows of each device: `counts[device, number]` of the label with that number."""
    sizes = counts.sum(axis=1)
    rows = tuple(np.empty(size, np.int32) for size in sizes)
    ends = counts.cumsum(axis=1)
    for number, (label, own) in enumerate(by_label.items()):
        needs = counts[:, number]
        if needs.max() > len(own):
            most = int(needs.argmax())
            reason = f"label {label} has only {len(own):,} samples"
            raise TooManySamples(most + 1, int(sizes[most]), reason)
        shuffled, used = own, len(own)
        for device in np.flatnonzero(needs):
            count, end = needs[device], ends[device, number]
            if used + count > len(own):
                shuffled, used = generator.permutation(shuffled), 0
            rows[device][end - count : end] = shuffled[used : used + count]
            used += count
    return rows
