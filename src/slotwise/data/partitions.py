"""Partition functions: the samples that each device gets.

A partition by label takes the labels of the training samples and returns the rows of each device, as a tuple
of int32 arrays. ``samples`` is the number of samples of each device: one number for all, or one for each. The
samples of a label (of all labels for `iid`) are shuffled and given to one device after another. Devices share
no sample until too few of a label are left for the next device; then all samples of that label are shuffled
and used again. A device never holds a sample twice. The same generator state gives the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slotwise.data.dataset import DataError, Dataset
from slotwise.errors import InputError

Labels = NDArray[np.integer]
Rows = NDArray[np.int32]
Counts = NDArray[np.int64]
Samples = int | Sequence[int] | NDArray[np.integer]
Generator = np.random.Generator


class TooManySamples(InputError):
    """More samples for a device than there are: the device, counted from 1, its samples, and the reason."""

    def __init__(self, device: int, samples: int, reason: str) -> None:
        self.device, self.samples, self.reason = device, samples, reason
        super().__init__("samples_per_device", samples, f"less: {reason}")


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
