"""Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): fetched or imported once, then kept in the cache."""

import gzip
import hashlib
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from slotwise.data.dataset import Bytes, DataError, Dataset, parse_idx
from slotwise.data.dataset_cache import dataset_path, load_cached, scratch_folder, write_dataset

ADDRESS = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion"
NAME = "fashion-mnist"
MD5 = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}


def import_fashion_mnist(folder: Path | str, *, md5: Mapping[str, str] = MD5) -> Dataset:
    """Read the four gzipped idx files of Fashion-MNIST in a folder, check them and keep the data set.

    ``md5`` has the sums that the files must have; tests use others with a small copy.

    Raises:
        DataError: a file is missing or is not the original.
    """
    arrays = [_read(Path(folder) / name, wanted) for name, wanted in md5.items()]
    images, labels, test_images, test_labels = arrays
    dataset = Dataset(
        name=NAME,
        train_inputs=images[:, np.newaxis],
        train_targets=labels,
        test_inputs=test_images[:, np.newaxis],
        test_targets=test_labels,
        classes=10,
        offset=(0.2860,),
        scale=(0.3530,),
    )
    write_dataset(dataset, dataset_path(NAME))
    return dataset


def fetch_fashion_mnist(progress: bool = True, *, md5: Mapping[str, str] = MD5) -> Dataset:
    """Download Fashion-MNIST from its repository, unless an intact copy is kept already."""
    try:
        return load_cached(NAME)
    except DataError:
        from slotwise.data.download import download_files  # noqa: PLC0415 - brings slow imports
    with scratch_folder() as folder:
        elsewhere = f"get its four files elsewhere and run `slotwise data import {NAME} FOLDER`"
        addresses = {f"{ADDRESS}/{name}": wanted for name, wanted in md5.items()}
        download_files("Fashion-MNIST", addresses, folder, elsewhere, progress)
        return import_fashion_mnist(folder, md5=md5)


def _read(path: Path, wanted: str) -> Bytes:
    try:
        packed = path.read_bytes()
    except OSError as error:
        expected = f"must be a folder with {', '.join(MD5)}"
        raise DataError(f"{path} cannot be read ({error.strerror}), {expected}") from None
    found = hashlib.md5(packed, usedforsecurity=False).hexdigest()
    if found != wanted:
        raise DataError(f"{path} has md5 {found}, must be {wanted}, the original of Fashion-MNIST")
    try:
        raw = gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a gzip file: {error}") from None
    return parse_idx(raw, 3 if "idx3" in path.name else 1, str(path))
