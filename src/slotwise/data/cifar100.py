"""CIFAR-100 (Krizhevsky 2009), with its 100 fine labels: fetched or imported once, then kept in the cache."""

from pathlib import Path

import numpy as np

from slotwise.data.cifar10 import read_members
from slotwise.data.dataset import Bytes, DataError, Dataset, channel_statistics
from slotwise.data.dataset_cache import dataset_path, load_cached, scratch_folder, write_dataset

NAME = "cifar100"
ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"
MD5 = "03b5dce01913d631647c71ecec9e9cb8"
CLASSES = 100
PER_CLASS = {"train": 500, "test": 100}
_RECORD = 2 + 3072  # coarse label, fine label, pixels
_LIMIT = 256 * 2**20
_ALLOWED = "cifar-100-binary.tar.gz, or a folder with its files train.bin and test.bin"


def import_cifar100(path: Path | str, *, per_class: dict[str, int] | None = None) -> Dataset:
    """Read CIFAR-100 from its binary archive or a folder with its files, check it and keep it.

    ``per_class`` are the images of each class; tests use fewer.

    Raises:
        DataError: it is none of these, is damaged or holds other images.
    """
    counts = PER_CLASS if per_class is None else per_class
    files = dict(read_members(Path(path), frozenset(f"{part}.bin" for part in counts), _ALLOWED, _LIMIT))
    parts = [_part(files, part, count, str(path)) for part, count in counts.items()]
    (train, train_labels), (test, test_labels) = parts
    offset, scale = channel_statistics(train)
    dataset = Dataset(NAME, train, train_labels, test, test_labels, CLASSES, offset, scale)
    write_dataset(dataset, dataset_path(NAME))
    return dataset


def fetch_cifar100(progress: bool = True) -> Dataset:
    """Download CIFAR-100 from its official host, unless an intact copy is kept already."""
    try:
        return load_cached(NAME)
    except DataError:
        from slotwise.data.download import download_files  # noqa: PLC0415 - brings slow imports
    with scratch_folder() as folder:
        elsewhere = f"get a copy elsewhere and run `slotwise data import {NAME} PATH`"
        download_files("CIFAR-100", {ADDRESS: MD5}, folder, elsewhere, progress)
        return import_cifar100(folder / ADDRESS.rpartition("/")[2])


def _part(files: dict[str, bytes], part: str, per_class: int, source: str) -> tuple[Bytes, Bytes]:
    """Return images and fine labels of train.bin or test.bin."""
    raw, wanted = files.get(f"{part}.bin"), CLASSES * per_class * _RECORD
    if raw is None:
        raise DataError(f"{source} lacks {part}.bin, must be {_ALLOWED}")
    if len(raw) != wanted:
        raise DataError(f"{part}.bin in {source} is {len(raw)} bytes long, must be {wanted}")
    records = np.frombuffer(raw, np.uint8).reshape(-1, _RECORD)
    labels = records[:, 1]
    if np.bincount(labels, minlength=CLASSES).tolist() != [per_class] * CLASSES:
        raise DataError(f"{part}.bin in {source} must have {per_class} images of each of {CLASSES} classes")
    return records[:, 2:].reshape(-1, 3, 32, 32), labels.copy()
