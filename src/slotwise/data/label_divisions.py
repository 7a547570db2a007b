"""Divisions of samples by their labels: functions of the labels, the number of devices and a generator.

`one_label`, `k_labels`, `dirichlet` and `iid` give each device a number of samples that is asked for. The
samples of a label (of all labels for `iid`) are shuffled and given to one device after another. Devices share
no sample until too few of a label are left for the next device; then all samples of that label are shuffled
and used again. A device never holds a sample twice.

`shards`, `pathological` and `dirichlet_per_class` divide all samples, so the numbers of samples follow.

The same generator state gives the same rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError
from slotwise.data.dataset import DataError
from slotwise.data.sizes import Counts, Generator, Samples, TooManySamples, check_concentration

Labels = NDArray[np.integer]
Rows = NDArray[np.int32]
MOST_DRAWS = 1000  # of proportions, until every device has enough samples


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
    by_label, sizes = rows_by_label(labels), _sizes(devices, samples)
    _check_labels_per_device(labels_per_device, len(by_label))
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
    by_label, sizes = rows_by_label(labels), _sizes(devices, samples)
    check_concentration("concentration", concentration)
    proportions = generator.dirichlet(np.full(len(by_label), concentration), size=devices)
    return _assign(by_label, generator.multinomial(sizes, proportions), generator)


def iid(labels: Labels, devices: int, samples: Samples, generator: Generator) -> tuple[Rows, ...]:
    """Give each device samples of the whole data set, whatever their labels.

    Raises:
        InputError: there are not that many samples.
    """
    everything, sizes = rows_by_label(np.zeros_like(labels)), _sizes(devices, samples)
    if sizes.max() > len(labels):
        reason = f"there are only {len(labels):,} samples"
        raise TooManySamples(int(sizes.argmax()) + 1, int(sizes.max()), reason)
    return _assign(everything, sizes[:, np.newaxis], generator)


def shards(
    labels: Labels, devices: int, generator: Generator, shards_per_device: int = 2
) -> tuple[Rows, ...]:
    """Give each device a few shards, chosen at random, of the samples sorted by label.

    After McMahan, Moore, Ramage, Hampson and Agüera y Arcas (2017), "Communication-efficient learning of deep
    networks from decentralized data": 200 shards of 300 images of MNIST, two for each of 100 devices. Shards
    are equally large; samples that are left over are not used.

    Raises:
        InputError: there are fewer samples than shards.
    """
    order = np.concatenate([*rows_by_label(labels).values()])
    size = len(order) // (devices * shards_per_device)
    if size == 0:
        allowed = f"at most {len(order) // devices}: there are {len(order):,} samples for {devices:,} devices"
        if len(order) < devices:
            raise InputError("devices", devices, f"at most {len(order):,}, the number of samples")
        raise InputError("shards_per_device", shards_per_device, allowed)
    chosen = generator.permutation(len(order) // size)[: devices * shards_per_device]
    pieces = order[: len(order) // size * size].reshape(-1, size)
    return tuple(pieces[own].ravel() for own in chosen.reshape(devices, shards_per_device))


def pathological(
    labels: Labels, devices: int, generator: Generator, labels_per_device: int = 2
) -> tuple[Rows, ...]:
    """Give each device `labels_per_device` labels so that each is held, and divide all samples.

    After Li, Diao, Chen and He (2022), "Federated learning on non-IID data silos: an experimental study",
    where it is written #C=k: the first label of devices 1, 2, … is the first, second, … label, in turns, and
    the others are drawn. The samples of a label are divided evenly among the devices that have it. With fewer
    devices than labels, labels that no device has are drawn first.

    Raises:
        InputError: there are not that many labels or samples, or too few devices for every label.
    """
    by_label = rows_by_label(labels)
    _check_labels_per_device(labels_per_device, len(by_label))
    if devices * labels_per_device < len(by_label):
        allowed = f"at least {-(-len(by_label) // devices)}, so that {devices} devices hold all "
        raise InputError("labels_per_device", labels_per_device, f"{allowed}{len(by_label)} labels")
    holds = _every_label(devices, len(by_label), labels_per_device, generator)
    counts = np.zeros(holds.shape, np.int64)
    for number, (label, own) in enumerate(by_label.items()):
        holders = np.flatnonzero(holds[:, number])
        if len(holders) > len(own):
            allowed = f"fewer: {len(holders):,} of them would share the {len(own):,} samples of label {label}"
            raise InputError("devices", devices, allowed)
        each, left_over = divmod(len(own), len(holders))
        counts[holders, number] = each + (np.arange(len(holders)) < left_over)
    return _assign(by_label, counts, generator)


def _every_label(devices: int, labels: int, each: int, generator: Generator) -> NDArray[np.bool_]:
    """Return which labels a device holds, [devices, labels]: as many each, and every label somewhere."""
    holds = np.zeros((devices, labels), bool)
    holds[np.arange(devices), np.arange(devices) % labels] = True
    # Places that are still free are few if there are few devices: they go to the labels that no device has.
    missing = list(generator.permutation(np.arange(devices, labels))) if devices < labels else []
    for own in holds:
        while own.sum() < each:
            own[missing.pop() if missing else generator.integers(labels)] = True
    return holds


def dirichlet_per_class(
    labels: Labels,
    devices: int,
    generator: Generator,
    concentration: float,
    min_samples: int = 10,
    self_balancing: bool = False,
) -> tuple[Rows, ...]:
    """Divide the samples of each label among all devices in proportions from a Dirichlet distribution.

    After Yurochkin et al. (2019), "Bayesian nonparametric federated learning of neural networks"; Li, Diao,
    Chen and He (2022) do the same. All samples are used, and devices hold
    different numbers. Proportions are drawn again until every device has ``min_samples``. With
    ``self_balancing``, a device that has more samples than the mean gets none of the labels that follow.

    Raises:
        InputError: there are too few samples, or no draw gives every device enough.
    """
    by_label = rows_by_label(labels)
    check_concentration("concentration", concentration)
    if devices * min_samples > len(labels):
        allowed = f"at most {len(labels) // devices}, the mean of {devices:,} devices"
        raise InputError("min_samples", min_samples, allowed)
    numbers = [len(own) for own in by_label.values()]
    for _ in range(MOST_DRAWS):
        counts = _drawn_counts(numbers, devices, generator, concentration, self_balancing)
        if counts.sum(axis=1).min() >= min_samples:
            return _assign(by_label, counts, generator)
    allowed = f"larger, or min_samples less: in {MOST_DRAWS:,} draws some device had fewer than {min_samples}"
    raise InputError("concentration", concentration, allowed)


def _drawn_counts(
    numbers: list[int], devices: int, generator: Generator, concentration: float, balance: bool
) -> Counts:
    """Return how many samples of each label a device gets, [devices, labels]."""
    counts = np.zeros((devices, len(numbers)), np.int64)
    mean = sum(numbers) / devices
    for label, number in enumerate(numbers):
        shares = generator.dirichlet(np.full(devices, concentration))
        if balance:
            open_shares = np.where(counts.sum(axis=1) > mean, 0.0, shares)
            shares = open_shares / (sum(open_shares.tolist()) or 1.0)
        ends = (np.cumsum(shares) * number).astype(np.int64)
        ends[-1] = number
        counts[:, label] = np.diff(ends, prepend=0)
    return counts


def _check_labels_per_device(labels_per_device: int, labels: int) -> None:
    if not 1 <= labels_per_device <= labels:
        allowed = f"from 1 to {labels}, the number of labels in the data"
        raise InputError("labels_per_device", labels_per_device, allowed)


def rows_by_label(labels: Labels) -> dict[int, Rows]:
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
