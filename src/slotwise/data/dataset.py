"""Dataset: labelled images as the rest of the program sees them, and MNIST, which is shipped in the package.

MNIST is the work of LeCun, Cortes and Burges.
"""

import gzip
import hashlib
import struct
import zlib
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from math import prod

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import UserError

Bytes = NDArray[np.uint8]
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


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
        for name in ARRAYS:  # views, so that the caller's arrays keep their flags
            view = np.ascontiguousarray(getattr(self, name)).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def _check_part(self, part: str, images: Bytes, labels: Bytes) -> None:
        where = f"{self.name} {part}"
        if images.dtype != np.uint8 or images.ndim != 4:
            found = f"{images.dtype} {images.shape}"
            raise DataError(f"{where} images are {found}, must be uint8 with 4 dimensions")
        if labels.dtype != np.uint8 or labels.ndim != 1:
            found = f"{labels.dtype} {labels.shape}"
            raise DataError(f"{where} labels are {found}, must be uint8 with 1 dimension")
        if len(images) != len(labels) or len(labels) == 0:
            raise DataError(
                f"{where} has {len(images)} images and {len(labels)} labels, must be equally many, at least 1"
            )
        if labels.max() >= self.classes:
            raise DataError(f"{where} has label {labels.max()}, must be less than {self.classes}")

    @cached_property
    def content_hash(self) -> str:
        """Identity of the data: sha256 over the shapes, pixels and labels, in hexadecimal."""
        digest = hashlib.sha256()
        for name in ARRAYS:
            array = getattr(self, name)
            digest.update(f"{name}{array.shape}".encode())
            digest.update(array)
        return digest.hexdigest()


def load_mnist(folder: Traversable | None = None) -> Dataset:
    """Return MNIST: 60,000 training and 10,000 test images of 28 x 28 pixels.

    The four gzipped idx files come from ``folder``, or else from the package.

    Raises:
        DataError: a file is missing or its md5 sum is not that of the original.
    """
    folder = files("slotwise.data") / "mnist_files" if folder is None else folder
    return Dataset(
        name="mnist",
        train_images=_mnist_file(folder, "train-images-idx3-ubyte", 3)[:, np.newaxis],
        train_labels=_mnist_file(folder, "train-labels-idx1-ubyte", 1),
        test_images=_mnist_file(folder, "t10k-images-idx3-ubyte", 3)[:, np.newaxis],
        test_labels=_mnist_file(folder, "t10k-labels-idx1-ubyte", 1),
        classes=10,
        offset=(0.1307,),
        scale=(0.3081,),
    )


def _mnist_file(folder: Traversable, name: str, dimensions: int) -> Bytes:
    source = folder / f"{name}.gz"
    try:
        raw = gzip.decompress(source.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{source} cannot be read ({error}): install slotwise again") from None
    found = hashlib.md5(raw, usedforsecurity=False).hexdigest()
    if found != _MD5[name]:
        raise DataError(f"{source} has content of md5 {found}, must be {_MD5[name]}: install slotwise again")
    return parse_idx(raw, dimensions, name)


def parse_idx(raw: bytes, dimensions: int, source: str) -> Bytes:
    """Parse an idx file of unsigned bytes: a magic number, big-endian dimensions, then the bytes."""
    expected = bytes((0, 0, 8, dimensions))  # 8 stands for unsigned bytes
    if raw[:4] != expected:
        raise DataError(f"{source} starts with bytes {raw[:4].hex()}, must start with {expected.hex()}")
    header = 4 + 4 * dimensions
    if len(raw) < header:
        raise DataError(f"{source} is {len(raw)} bytes long, an idx header alone must be {header}")
    shape = struct.unpack(f">{dimensions}I", raw[4:header])
    length = header + prod(shape)
    if len(raw) != length:
        raise DataError(f"{source} is {len(raw)} bytes long, must be {length} for shape {shape}")
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)
