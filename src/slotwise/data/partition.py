"""Which samples each device holds.

Each function takes the labels of the training images and returns the rows of them that each device gets, as
int32 [devices, samples_per_device]. All deal from a shuffled pile per label (or one pile for `iid`) like
cards: devices share no sample until a pile is too small for the next device; that pile is then gathered and
shuffled anew. A device never holds a sample twice. The generator decides everything, so the same generator
state gives the same rows.
"""

import numpy as np
from numpy.typing import NDArray

from slotwise.data.errors import DataError

Labels = NDArray[np.integer]
Rows = NDArray[np.int32]


def one_label(labels: Labels, devices: int, samples_per_device: int, generator: np.random.Generator) -> Rows:
    """Each device gets samples of one label, chosen at random: the setting of the paper's experiments.

    Args:
        labels: Of the training images, [n].
        devices: How many devices.
        samples_per_device: How many samples each gets.
        generator: Decides the labels and the samples.

    Raises:
        DataError: If a chosen label has fewer samples than a device needs.
    """
    return k_labels(labels, devices, samples_per_device, generator, labels_per_device=1)


def k_labels(
    labels: Labels,
    devices: int,
    samples_per_device: int,
    generator: np.random.Generator,
    labels_per_device: int,
) -> Rows:
    """Each device gets samples of `labels_per_device` different labels, chosen at random.

    The samples are divided evenly; what is left over goes one each to the first labels chosen. A device's
    rows are grouped by label.

    Args:
        labels: Of the training images, [n].
        devices: How many devices.
        samples_per_device: How many samples each gets.
        generator: Decides the labels and the samples.
        labels_per_device: How many labels each gets.

    Raises:
        DataError: If there are not that many labels or samples.
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
    labels: Labels,
    devices: int,
    samples_per_device: int,
    generator: np.random.Generator,
    concentration: float,
) -> Rows:
    """Each device mixes all labels in its own proportions, drawn from a symmetric Dirichlet distribution.

    After Hsu, Qi and Brown (2019), "Measuring the effects of non-identical data distribution for federated
    visual classification". A device's rows are grouped by label.

    Args:
        labels: Of the training images, [n].
        devices: How many devices.
        samples_per_device: How many samples each gets.
        generator: Decides the proportions and the samples.
        concentration: Towards 0 each device has one label; large, every device has the same mixture.

    Raises:
        DataError: If a device draws more samples of a label than there are.
    """
    piles = _piles(labels, devices, samples_per_device)
    if not 0 < concentration < np.inf:
        raise DataError(f"concentration is {concentration}, must be a finite number above 0")
    proportions = generator.dirichlet(np.full(len(piles), concentration), size=devices)
    return _deal(piles, generator.multinomial(samples_per_device, proportions), generator)


def iid(labels: Labels, devices: int, samples_per_device: int, generator: np.random.Generator) -> Rows:
    """Each device gets samples of the whole, whatever their labels.

    Args:
        labels: Of the training images, [n]; only their number matters.
        devices: How many devices.
        samples_per_device: How many samples each gets.
        generator: Decides the samples.

    Raises:
        DataError: If a device needs more samples than there are.
    """
    _check(labels, devices, samples_per_device)
    if samples_per_device > len(labels):
        raise DataError(f"samples_per_device is {samples_per_device}, must be at most {len(labels)}")
    everything = {-1: np.arange(len(labels), dtype=np.int32)}
    return _deal(everything, np.full((devices, 1), samples_per_device), generator)


def _piles(labels: Labels, devices: int, samples_per_device: int) -> dict[int, Rows]:
    """The rows of each label that occurs, in ascending order of labels."""
    _check(labels, devices, samples_per_device)
    return {int(label): np.flatnonzero(labels == label).astype(np.int32) for label in np.unique(labels)}


def _check(labels: Labels, devices: int, samples_per_device: int) -> None:
    if labels.ndim != 1 or len(labels) == 0:
        raise DataError(f"labels have shape {labels.shape}, must have 1 dimension and not be empty")
    if devices < 1:
        raise DataError(f"devices is {devices}, must be at least 1")
    if samples_per_device < 1:
        raise DataError(f"samples_per_device is {samples_per_device}, must be at least 1")


def _deal(piles: dict[int, Rows], counts: NDArray[np.int64], generator: np.random.Generator) -> Rows:
    """Give each device `counts[device, pile]` rows of each pile; all devices need equally many in total."""
    rows = np.empty((len(counts), int(counts[0].sum())), np.int32)
    ends = counts.cumsum(axis=1)
    for number, (label, pile) in enumerate(piles.items()):
        _check_enough(label, pile, int(counts[:, number].max()))
        _deal_pile(pile, rows, ends[:, number], counts[:, number], generator)
    return rows


def _check_enough(label: int, pile: Rows, needed: int) -> None:
    if needed > len(pile):
        raise DataError(f"label {label} has {len(pile)} samples, must have {needed} for one device to hold")


def _deal_pile(
    pile: Rows, rows: Rows, ends: NDArray[np.int64], counts: NDArray[np.int64], generator: np.random.Generator
) -> None:
    dealt = len(pile)
    for device in np.flatnonzero(counts):
        count, end = counts[device], ends[device]
        if dealt + count > len(pile):
            pile, dealt = generator.permutation(pile), 0
        rows[device, end - count : end] = pile[dealt : dealt + count]
        dealt += count
