import gzip
import shutil
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from slotwise.data import DataError, Dataset, load_mnist

SHIPPED = Path(str(files("slotwise.data"))) / "mnist_files"
LABELS = "t10k-labels-idx1-ubyte.gz"


@pytest.fixture(scope="module")
def mnist() -> Dataset:
    return load_mnist()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "copy"))


def test_it_has_the_published_images_labels_pixels_and_hash(mnist: Dataset) -> None:
    assert mnist.train_inputs.shape == (60_000, 1, 28, 28)
    assert mnist.test_inputs.shape == (10_000, 1, 28, 28)
    assert mnist.classes == 10
    assert mnist.train_targets[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert mnist.test_targets[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    counts = np.bincount(mnist.train_inputs.ravel(), minlength=256) / mnist.train_inputs.size
    levels = np.arange(256) / 255
    mean = counts @ levels
    assert (round(mean, 4),) == mnist.offset
    assert (round(np.sqrt(counts @ levels**2 - mean**2), 4),) == mnist.scale
    assert mnist.content_hash == "c05826b34366e5dbecf5c38cdc9a4de9ff395203c4f9e5f2346cc88d1f39a65c"


def test_a_missing_file_is_named(copy: Path) -> None:
    (copy / LABELS).unlink()
    with pytest.raises(DataError, match=f"{LABELS} cannot be read .* install slotwise again"):
        load_mnist(copy)


def test_a_truncated_file_is_named(copy: Path) -> None:
    (copy / LABELS).write_bytes((copy / LABELS).read_bytes()[:1000])
    with pytest.raises(DataError, match=f"{LABELS} cannot be read"):
        load_mnist(copy)


def test_a_file_with_broken_compression_is_named(copy: Path) -> None:
    raw = bytearray((copy / LABELS).read_bytes())
    raw[2000:2010] = bytes(10)
    (copy / LABELS).write_bytes(raw)
    with pytest.raises(DataError, match=f"{LABELS} cannot be read"):
        load_mnist(copy)


def test_one_changed_label_is_noticed(copy: Path) -> None:
    raw = bytearray(gzip.decompress((copy / LABELS).read_bytes()))
    raw[-1] ^= 1
    (copy / LABELS).write_bytes(gzip.compress(raw, 1))
    with pytest.raises(DataError, match=f"{LABELS} has content of md5 .* must be 27ae3e4e"):
        load_mnist(copy)
