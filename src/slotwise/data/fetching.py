"""fetch_dataset and import_dataset: get a data set once, from its host or from local files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from slotwise.data.cifar10 import fetch_cifar10, import_cifar10
from slotwise.data.dataset import Dataset
from slotwise.data.facts import FetchedName


def fetch_dataset(name: FetchedName, progress: bool = True) -> Dataset:
    """Download a data set and keep it, unless an intact copy is kept already.

    Raises:
        DataError: it cannot be downloaded, or a package for it is not installed; the message says what to do.
    """
    fetch, _ = _functions(name)
    return fetch(progress)


def import_dataset(name: FetchedName, path: Path | str) -> Dataset:
    """Read a data set from files on this machine, check it and keep it.

    Raises:
        DataError: the files are missing, damaged or those of another data set.
    """
    _, import_ = _functions(name)
    return import_(path)


def _functions(name: FetchedName) -> tuple[Callable[[bool], Dataset], Callable[[Path | str], Dataset]]:
    """Return the functions that download a data set and that read it from files."""
    if name == "cifar10":
        return fetch_cifar10, import_cifar10
    # What follows brings slow imports.
    if name == "fashion-mnist":
        from slotwise.data.fashion_mnist import fetch_fashion_mnist, import_fashion_mnist  # noqa: PLC0415

        return fetch_fashion_mnist, import_fashion_mnist
    from slotwise.data.hugging_face import fetch_from_hub, import_from_folder  # noqa: PLC0415

    return partial(fetch_from_hub, name), partial(import_from_folder, name)
