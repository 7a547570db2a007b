"""What CIFAR-10 must be, whatever it was read from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotwise.data.dataset import Dataset
from slotwise.data.errors import DataError

CLASSES = 10
TRAIN_BATCHES = 5


@dataclass(frozen=True)
class Expected:
    """The facts a copy of CIFAR-10 is checked against; a value, so that a small copy can have its own.

    Attributes:
        images_per_batch: Images in each of the five training batches and in the test batch.
        mean: Per channel of the training images, pixels in 0..1, to four decimals.
        deviation: Likewise.
        content_hash: Of the data set in the official order.
    """

    images_per_batch: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    content_hash: str


# The six batches behind this hash have the md5 sums of the files in the official binary archive.
OFFICIAL = Expected(
    images_per_batch=10_000,
    mean=(0.4914, 0.4822, 0.4465),
    deviation=(0.2470, 0.2435, 0.2616),
    content_hash="0bf1174a828cf53d84ab775927bbf8e096a7ca40a8ebef7763dc7a16b6ee9e1a",
)


def check_cifar10(dataset: Dataset, expected: Expected, source: str) -> None:
    """Refuse a copy that differs; the coarse checks come first because they say what is wrong.

    Raises:
        DataError: Naming the first check that fails.
    """
    per_class = expected.images_per_batch // CLASSES
    _check_balance(dataset.train_labels, TRAIN_BATCHES * per_class, f"{source}: train images")
    _check_balance(dataset.test_labels, per_class, f"{source}: test images")
    _check_channels(dataset.train_images, expected, source)
    if dataset.content_hash != expected.content_hash:
        raise DataError(
            f"{source}: content hash is {dataset.content_hash}, must be {expected.content_hash}:"
            " images or labels were changed, or are in another order than the official one"
        )


def _check_balance(labels: NDArray[np.uint8], per_class: int, what: str) -> None:
    counts = np.bincount(labels, minlength=CLASSES).tolist()
    if counts != [per_class] * CLASSES:
        raise DataError(f"{what} per class are {counts}, must be {per_class} each")


def _check_channels(images: NDArray[np.uint8], expected: Expected, source: str) -> None:
    counts = np.sum([_histogram(part) for part in np.array_split(images, TRAIN_BATCHES)], axis=0)
    levels = np.arange(256) / 255
    mean = counts @ levels / counts.sum(axis=1)
    deviation = np.sqrt(counts @ levels**2 / counts.sum(axis=1) - mean**2)
    for name, found, wanted in (("mean", mean, expected.mean), ("deviation", deviation, expected.deviation)):
        rounded = tuple(found.round(4).tolist())
        if rounded != wanted:
            raise DataError(f"{source}: channel {name} is {rounded}, must be {wanted}")


def _histogram(images: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Counts [channels, 256]: exact, and without a float copy of the images."""
    channels = range(images.shape[1])
    return np.stack([np.bincount(images[:, channel].ravel(), minlength=256) for channel in channels])
