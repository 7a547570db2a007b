"""fetch_dataset and import_dataset: get a data set once, from its host or from local files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from slotwise.data.cifar10 import fetch_cifar10, import_cifar10
from slotwise.data.dataset import Dataset

FetchedName = Literal["fashion-mnist", "cifar10", "femnist", "shakespeare"]


def fetch_dataset(name: FetchedName, progress: bool = True) -> Dataset:
    """Download a data set and keep it, unless an intact copy is kept already.

    Raises:
        DataError: it cannot be downloaded, or a package for it is not installed; the message says what to do.
    """
    # What follows brings slow imports.
    if name == "cifar10":
        return fetch_cifar10(progress)
    if name == "fashion-mnist":
        from slotwise.data.fashion_mnist import fetch_fashion_mnist  # noqa: PLC0415

        return fetch_fashion_mnist(progress)
    from slotwise.data.hugging_face import fetch_from_hub  # noqa: PLC0415

    return fetch_from_hub(name, progress)


def import_dataset(name: FetchedName, path: Path | str) -> Dataset:
    """Read a data set from files on this machine, check it and keep it.

    Raises:
        DataError: the files are missing, damaged or those of another data set.
    """
    if name == "cifar10":
        return import_cifar10(path)
    if name == "fashion-mnist":
        from slotwise.data.fashion_mnist import import_fashion_mnist  # noqa: PLC0415

        return import_fashion_mnist(path)
    from slotwise.data.hugging_face import import_from_folder  # noqa: PLC0415

    return import_from_folder(name, path)
