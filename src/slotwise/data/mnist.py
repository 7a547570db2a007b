"""MNIST, shipped inside the package so that the main experiments need no download."""

import gzip
import hashlib
import zlib
from importlib.resources import files
from importlib.resources.abc import Traversable

import numpy as np
from numpy.typing import NDArray

from slotwise.data.dataset import Dataset
from slotwise.data.errors import DataError
from slotwise.data.idx import parse_idx

_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


def load_mnist() -> Dataset:
    """MNIST (LeCun, Cortes and Burges): 60,000 training and 10,000 test images of 28 x 28 pixels.

    Raises:
        DataError: If a shipped file is missing or not the original one.
    """
    return read_mnist(files("slotwise.data") / "mnist_files")


def read_mnist(folder: Traversable) -> Dataset:
    """MNIST from the four gzipped idx files in `folder`, each checked against the original's md5."""
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
