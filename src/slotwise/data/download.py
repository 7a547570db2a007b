"""Get a data set once, from its host or from local files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from slotwise.base.extras import importing
from slotwise.data.cifar10 import fetch_cifar10, import_cifar10
from slotwise.data.dataset import DataError, Dataset
from slotwise.data.facts import FetchedName

TIMEOUTS = (4.0, 20.0)  # seconds to connect, and between two parts of an answer


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
    if name in ("fashion-mnist", "emnist", "cifar100"):
        from slotwise.data import image_sets  # noqa: PLC0415

        functions: dict[str, tuple[Callable[[bool], Dataset], Callable[[Path | str], Dataset]]] = {
            "fashion-mnist": (image_sets.fetch_fashion_mnist, image_sets.import_fashion_mnist),
            "emnist": (image_sets.fetch_emnist, image_sets.import_emnist),
            "cifar100": (image_sets.fetch_cifar100, image_sets.import_cifar100),
        }
        return functions[name]
    from slotwise.data.hugging_face import fetch_from_hub, import_from_folder  # noqa: PLC0415

    return partial(fetch_from_hub, name), partial(import_from_folder, name)


def download_files(
    title: str, addresses: Mapping[str, str], folder: Path, remedy: str, progress: bool = True
) -> None:
    """Download files into a folder; ``addresses`` have the md5 sums.

    Raises:
        DataError: a host cannot be reached or sends something else; it ends with the ``remedy``.
    """
    console = Console(stderr=True, quiet=not progress)
    try:
        for address, md5 in addresses.items():
            console.print(f"{title}: downloading {address}")
            _download_file(address, folder / address.rpartition("/")[2], md5, console, title)
    except DataError as error:
        raise DataError(f"{title} cannot be fetched: {error}; {remedy}") from None


def _download_file(address: str, path: Path, md5: str, console: Console, title: str) -> None:
    with importing():
        import pooch  # noqa: PLC0415 - slow to import, and only needed here

    bar = _Bar(console, title)
    try:
        pooch.HTTPDownloader(progressbar=bar, chunk_size=2**16, timeout=TIMEOUTS)(address, str(path), None)
    except OSError as error:
        raise DataError(f"{address} cannot be reached ({type(error).__name__})") from None
    finally:
        bar.stop()
    found = pooch.file_hash(str(path), alg="md5")
    if found != md5:
        raise DataError(f"{address} sent a file of md5 {found}, must be {md5}")


class _Bar:
    """Progress bar with the interface that pooch expects, drawn by rich once the host answers."""

    def __init__(self, console: Console, title: str) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
        self._progress = Progress(*columns, console=console)
        self._task = self._progress.add_task(title)
        self.stop = self._progress.stop

    @property
    def total(self) -> float | None:
        return self._progress.tasks[self._task].total

    @total.setter
    def total(self, size: int) -> None:
        self._progress.update(self._task, total=size or None)
        self._progress.start()

    def update(self, size: int) -> None:
        self._progress.advance(self._task, size)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        self._progress.refresh()
