"""MNIST (LeCun, Cortes and Burges), shipped inside the package: no download is needed."""

import gzip
import hashlib
import struct
import zlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from math import prod

import numpy as np
from numpy.typing import NDArray

from slotwise.data.dataset import DataError, Dataset

_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
_UNSIGNED_BYTE = 0x08


def load_mnist() -> Dataset:
    """Return MNIST: 60,000 training and 10,000 test images of 28 x 28 pixels.

    Raises:
        DataError: a shipped file is missing or not the original one.
    """
    return read_mnist(files("slotwise.data") / "mnist_files")


def read_mnist(folder: Traversable) -> Dataset:
    """Read MNIST from four gzipped idx files, each checked against the md5 sum of the original."""
    return Dataset(
        name="mnist",
        train_images=_images(folder, "train-images-idx3-ubyte"),
        train_labels=_labels(folder, "train-labels-idx1-ubyte"),
        test_images=_images(folder, "t10k-images-idx3-ubyte"),
        test_labels=_labels(folder, "t10k-labels-idx1-ubyte"),
        classes=10,
        offset=(0.1307,),
        scale=(0.3081,),
    )


def _images(folder: Traversable, name: str) -> NDArray[np.uint8]:
    return parse_idx(_content(folder, name), 3, name)[:, np.newaxis]


def _labels(folder: Traversable, name: str) -> NDArray[np.uint8]:
    return parse_idx(_content(folder, name), 1, name)


def _content(folder: Traversable, name: str) -> bytes:
    source = folder / f"{name}.gz"
    try:
        raw = gzip.decompress(source.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{source} cannot be read ({error}): install slotwise again") from None
    found = hashlib.md5(raw, usedforsecurity=False).hexdigest()
    if found != _MD5[name]:
        raise DataError(f"{source} has content of md5 {found}, must be {_MD5[name]}: install slotwise again")
    return raw


def parse_idx(raw: bytes, dimensions: int, source: str) -> NDArray[np.uint8]:
    """Parse an idx file of unsigned bytes: a magic number, big-endian dimensions, then the bytes.

    Args:
        raw: The whole, uncompressed content.
        dimensions: Dimensions that the array must have.
        source: Name of the content in messages.

    Raises:
        DataError: the magic number, the dimensions or the length is wrong.
    """
    expected = bytes((0, 0, _UNSIGNED_BYTE, dimensions))
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
