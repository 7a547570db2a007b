"""Dataset: labelled images as the rest of the program sees them, and DataError."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import UserError

Bytes = NDArray[np.uint8]
_ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")


class DataError(UserError, ValueError):
    """Data that is missing or damaged, or a partition that is not possible."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled images for training and testing, as bytes and read-only.

    Pixels stay uint8, a quarter of the memory of floats; a task standardises them with `offset` and `scale`.
    Two data sets are the same if their `content_hash` is.

    Attributes:
        name: Short name, for example `mnist`.
        train_images: uint8 [n, channels, height, width], C-contiguous.
        train_labels: uint8 [n], each less than `classes`.
        test_images: Like `train_images`.
        test_labels: Like `train_labels`.
        classes: Number of classes.
        offset: Per channel; a standardised pixel is `(pixel / 255 - offset) / scale`.
        scale: Per channel.
    """

    name: str
    train_images: Bytes
    train_labels: Bytes
    test_images: Bytes
    test_labels: Bytes
    classes: int
    offset: tuple[float, ...]
    scale: tuple[float, ...]

    def __post_init__(self) -> None:
        self._check_part("train", self.train_images, self.train_labels)
        self._check_part("test", self.test_images, self.test_labels)
        self._check_channels()
        for name in _ARRAYS:
            object.__setattr__(self, name, _read_only(getattr(self, name)))

    def _check_part(self, part: str, images: Bytes, labels: Bytes) -> None:
        where = f"{self.name} {part}"
        if images.dtype != np.uint8 or images.ndim != 4:
            raise DataError(f"{where} images are {_described(images)}, must be uint8 with 4 dimensions")
        if labels.dtype != np.uint8 or labels.ndim != 1:
            raise DataError(f"{where} labels are {_described(labels)}, must be uint8 with 1 dimension")
        if len(images) != len(labels) or len(labels) == 0:
            raise DataError(
                f"{where} has {len(images)} images and {len(labels)} labels, must be equally many, at least 1"
            )
        if labels.max() >= self.classes:
            raise DataError(f"{where} has label {labels.max()}, must be less than {self.classes}")

    def _check_channels(self) -> None:
        train, test = self.train_images.shape[1:], self.test_images.shape[1:]
        if train != test:
            raise DataError(f"{self.name} train images are {train} but test images {test}, must be the same")
        if not len(self.offset) == len(self.scale) == train[0]:
            raise DataError(
                f"{self.name} has {len(self.offset)} offsets and {len(self.scale)} scales,"
                f" must be one per channel: {train[0]}"
            )
        if not min(self.scale) > 0:
            raise DataError(f"{self.name} has scales {self.scale}, must be above 0")

    @cached_property
    def content_hash(self) -> str:
        """Identity of the data: sha256 over the shapes, pixels and labels, in hexadecimal."""
        digest = hashlib.sha256()
        for name in _ARRAYS:
            array = getattr(self, name)
            digest.update(f"{name}{array.shape}".encode())
            digest.update(array)
        return digest.hexdigest()


def _described(array: Bytes) -> str:
    return f"{array.dtype} {array.shape}"


def _read_only(array: Bytes) -> Bytes:
    """Return a read-only view, so that the caller's array keeps its flags."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
