"""Dataset: samples as the rest of the program sees them, and MNIST, which is shipped in the package.

MNIST is the work of LeCun, Cortes and Burges.
"""

import gzip
import hashlib
import struct
import zlib
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import UserError
from slotwise.base.frozen import FrozenArrays, read_only
from slotwise.base.user_code import describe_value

Bytes = NDArray[np.uint8]
ARRAYS = ("train_inputs", "train_targets", "test_inputs", "test_targets")
STORED_NAMES = ("train_images", "train_labels", "test_images", "test_labels")  # in files and in hashes
_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


class DataError(UserError, ValueError):
    """Data that is missing or damaged, or a partition that is not possible."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(FrozenArrays):
    """Samples for training and testing, as read-only arrays: finite inputs of any shape, and targets.

    Images stay uint8, a quarter of the memory of floats; a task standardises them with `offset` and `scale`.
    Two data sets are the same if their `content_hash` is.

    Attributes:
        name: Short name, for example `mnist`.
        train_inputs: Numbers [n, ...], C-contiguous; images are uint8 [n, channels, height, width].
        train_targets: Numbers [n, ...]: labels, each less than `classes`, or the values of a regression.
        test_inputs: Like `train_inputs`.
        test_targets: Like `train_targets`.
        classes: Number of classes; None for a regression.
        offset: Per channel; a standardised pixel is `(pixel / 255 - offset) / scale`. Empty: inputs are
            used as they are.
        scale: Per channel.
        owners: Natural owner of each training sample, such as its writer, numbered from 0; None if it is
            not known.
    """

    name: str
    train_inputs: NDArray[Any]
    train_targets: NDArray[Any]
    test_inputs: NDArray[Any]
    test_targets: NDArray[Any]
    classes: int | None = None
    offset: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    owners: NDArray[np.integer] | None = None

    def __post_init__(self) -> None:
        self._check_part("train", self.train_inputs, self.train_targets)
        self._check_part("test", self.test_inputs, self.test_targets)
        for kind in ("inputs", "targets"):
            train, test = (getattr(self, f"{part}_{kind}") for part in ("train", "test"))
            if (train.shape[1:], train.dtype) != (test.shape[1:], test.dtype):
                found = f"{train.dtype} {train.shape[1:]}", f"{test.dtype} {test.shape[1:]}"
                raise DataError(
                    f"{self.name} train {kind} are {found[0]} but test {kind} {found[1]}, must be the same"
                )
        self._check_standardisation()
        owners = self.owners
        if owners is not None and (
            owners.shape != (len(self.train_targets),) or owners.dtype.kind not in "iu" or owners.min() < 0
        ):
            kind = f"{owners.dtype} {owners.shape}"
            raise DataError(f"{self.name} has owners {kind}, must be one number for each sample")
        for name in ARRAYS:  # views, so that the caller's arrays keep their flags
            array = np.ascontiguousarray(getattr(self, name))
            view = array.ravel().reshape(array.shape)  # with the usual strides, also of dimensions of one
            object.__setattr__(self, name, read_only(view))

    def __repr__(self) -> str:
        train, test = len(self.train_targets), len(self.test_targets)
        inputs = f"{self.train_inputs.dtype}{list(self.input_shape)}"
        targets = "no classes" if self.classes is None else f"{self.classes} classes"
        return f"Dataset({self.name}: {train:,} + {test:,} samples, {inputs}, {targets})"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the input of one sample."""
        return tuple(self.train_inputs.shape[1:])

    def owner_rows(self) -> tuple[NDArray[np.int32], ...]:
        """Return the rows of each owner's training samples, in the order of the owners' numbers."""
        if self.owners is None:
            raise DataError(f"{self.name}: the owners of the samples are not known")
        order = np.argsort(self.owners, kind="stable").astype(np.int32)
        ends = np.flatnonzero(np.diff(self.owners[order])) + 1
        return tuple(np.split(order, ends))

    def _check_part(self, part: str, inputs: NDArray[Any], targets: NDArray[Any]) -> None:
        where = f"{self.name} {part}"
        for kind, array in (("inputs", inputs), ("targets", targets)):
            if not isinstance(array, np.ndarray):
                raise DataError(f"{where} {kind} are {describe_value(array)}, must be a numpy array")
            if array.dtype.kind not in "biuf" or array.ndim == 0:
                found = f"{array.dtype} {array.shape}"
                raise DataError(f"{where} {kind} are {found}, must be an array of numbers")
        if not np.isfinite(inputs).all():
            raise DataError(f"{where} inputs have values that are not finite, must be finite numbers")
        if len(inputs) != len(targets) or len(targets) == 0:
            counts = f"{len(inputs)} inputs and {len(targets)} targets"
            raise DataError(f"{where} has {counts}, must be equally many, at least 1")
        if self.classes is not None:
            if targets.dtype.kind not in "biu":
                raise DataError(f"{where} targets are {targets.dtype}, labels must be whole numbers")
            if targets.min() < 0 or targets.max() >= self.classes:
                wrong = targets.min() if targets.min() < 0 else targets.max()
                raise DataError(f"{where} has label {wrong}, must be from 0 to {self.classes - 1}")

    def _check_standardisation(self) -> None:
        if not self.offset and not self.scale:
            return
        if self.train_inputs.dtype != np.uint8 or self.train_inputs.ndim != 4:
            found = f"{self.train_inputs.dtype} {self.train_inputs.shape}"
            raise DataError(f"{self.name} inputs are {found}; only uint8 images have an offset and a scale")
        channels = self.train_inputs.shape[1]
        if not len(self.offset) == len(self.scale) == channels:
            raise DataError(
                f"{self.name} has {len(self.offset)} offsets and {len(self.scale)} scales,"
                f" must be one per channel: {channels}"
            )
        if not min(self.scale) > 0:
            raise DataError(f"{self.name} has scales {self.scale}, must be above 0")

    @cached_property
    def content_hash(self) -> str:
        """Identity of the data: sha256 over shapes, types, inputs, targets and owners, in hexadecimal."""
        digest = hashlib.sha256()
        for name, stored in zip(ARRAYS, STORED_NAMES, strict=True):
            array = getattr(self, name)
            kind = "" if array.dtype == np.uint8 else str(array.dtype)
            digest.update(f"{stored}{kind}{array.shape}".encode())
            digest.update(array)
        if self.owners is not None:
            digest.update(f"owners{self.owners.shape}".encode())
            digest.update(self.owners.astype("<i8").tobytes())
        return digest.hexdigest()


def channel_statistics(images: Bytes) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation of each channel of the pixels in 0..1, to four decimals."""
    levels, mean, deviation = np.arange(256) / 255, [], []
    for channel in range(images.shape[1]):
        counts = np.bincount(images[:, channel].ravel(), minlength=256)
        exact = float(counts @ levels / counts.sum())
        spread = float(np.sqrt(counts @ (levels - exact) ** 2 / counts.sum()))
        mean.append(round(exact, 4))
        deviation.append(max(round(spread, 4), 1e-4))
    return tuple(mean), tuple(deviation)


def load_mnist(folder: Traversable | None = None) -> Dataset:
    """Return MNIST: 60,000 training and 10,000 test images of 28 x 28 pixels.

    The four gzipped idx files come from ``folder``, or else from the package.

    Raises:
        DataError: a file is missing or its md5 sum is not that of the original.
    """
    return _packaged_mnist() if folder is None else _mnist_of(folder)


@cache
def _packaged_mnist() -> Dataset:
    # A process that trains run after run unpacks and checks the files once; the arrays are read-only.
    return _mnist_of(files("slotwise.data") / "mnist_files")


def _mnist_of(folder: Traversable) -> Dataset:
    return Dataset(
        name="mnist",
        train_inputs=_mnist_file(folder, "train-images-idx3-ubyte", 3)[:, np.newaxis],
        train_targets=_mnist_file(folder, "train-labels-idx1-ubyte", 1),
        test_inputs=_mnist_file(folder, "t10k-images-idx3-ubyte", 3)[:, np.newaxis],
        test_targets=_mnist_file(folder, "t10k-labels-idx1-ubyte", 1),
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
