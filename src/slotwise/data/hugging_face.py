"""Data sets of the Hugging Face Hub, through `datasets`: any by its name, FEMNIST and Shakespeare.

They are read once, from the Hub or from a local copy, and kept in the cache as arrays: later runs need
neither the package `datasets` nor the network. FEMNIST and Shakespeare, as Flower Labs publishes them, have
one split only, so some samples of each owner are held out as test samples, always the same ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotwise.base.extras import importing
from slotwise.data.dataset import DataError, Dataset
from slotwise.data.dataset_cache import dataset_path, load_cached, scratch_folder, write_dataset
from slotwise.data.facts import TITLES
from slotwise.data.hub_data import HubData
from slotwise.data.hub_reader import read_hub
from slotwise.data.leaf import read_femnist, read_shakespeare
from slotwise.data.named_reader import first_line

_CONNECT_SECONDS = 4.0
_BATCH = 4096  # samples decoded at once


@dataclass(frozen=True)
class HubDataset:
    """One data set of the Hub.

    Attributes:
        address: Its name on the Hub.
        columns: The columns that are read.
        read: Function from batches of these columns to the data set.
    """

    address: str
    columns: tuple[str, ...]
    read: Callable[[Iterable[Mapping[str, Any]], str], Dataset]


HUB: dict[str, HubDataset] = {
    "femnist": HubDataset("flwrlabs/femnist", ("image", "writer_id", "character"), read_femnist),
    "shakespeare": HubDataset("flwrlabs/shakespeare", ("character_id", "x", "y"), read_shakespeare),
}


def import_from_folder(name: str, folder: Path | str) -> Dataset:
    """Read a local copy of a data set of the Hub (its parquet or CSV files) and keep it.

    Raises:
        DataError: the folder does not hold the data set.
        MissingPackage: the package `datasets` is not installed.
    """
    path = Path(folder)
    if not path.is_dir():
        files = f"the files of {HUB[name].address} on the Hugging Face Hub"
        raise DataError(f"{path} is not a folder, must be one with {files}")
    dataset = _read(name, str(path.resolve()), progress=False)
    write_dataset(dataset, dataset_path(name))
    return dataset


def fetch_from_hub(name: str, progress: bool = True) -> Dataset:
    """Download a data set from the Hugging Face Hub, unless an intact copy is kept already.

    Raises:
        DataError: the Hub cannot be reached.
        MissingPackage: the package `datasets` is not installed.
    """
    try:
        return load_cached(name)
    except DataError:
        library = _library()
    try:
        _check_reachable(str(library.config.HF_ENDPOINT))
        dataset = _read(name, HUB[name].address, progress)
    except DataError as error:
        elsewhere = f"get the files of {HUB[name].address} elsewhere"
        command = f"run `slotwise data import {name} FOLDER`"
        raise DataError(f"{TITLES[name]} cannot be fetched: {error}; {elsewhere} and {command}") from None
    write_dataset(dataset, dataset_path(name))
    return dataset


def download_hub_data(hub: HubData, progress: bool) -> Dataset:
    """Return a data set of the Hub, or raise a UserError that says why it cannot be read."""
    library = _library()
    _check_reachable(str(library.config.HF_ENDPOINT))
    return _hub_dataset(hub, hub.name, library, progress)


def read_hub_folder(hub: HubData, folder: Path) -> Dataset:
    """Return a data set of the Hub from a local copy."""
    return _hub_dataset(hub, str(folder), _library(), progress=False)


def _hub_dataset(hub: HubData, source: str, library: Any, progress: bool) -> Dataset:
    with scratch_folder() as scratch, _progress_bars(library, progress):
        if any((Path(source) / name).is_file() for name in ("dataset_dict.json", "state.json")):
            splits = library.load_from_disk(source)
        else:
            splits = _loaded(library, source, name=hub.hub_subset, cache_dir=str(scratch))
        return read_hub(hub, splits if isinstance(splits, Mapping) else {"train": splits}, library)


def _loaded(library: Any, source: str, **how: Any) -> Any:
    """Return what the library reads; a DataError has the first line of its reason."""
    try:
        return library.load_dataset(source, **how)
    except Exception as error:  # damaged files make the readers raise nearly any
        raise DataError(f"{source} cannot be read: {first_line(error)}") from None


@contextmanager
def _progress_bars(library: Any, shown: bool) -> Iterator[None]:
    were_disabled = library.are_progress_bars_disabled()
    (library.enable_progress_bars if shown else library.disable_progress_bars)()
    try:
        yield
    finally:
        (library.disable_progress_bars if were_disabled else library.enable_progress_bars)()


def _library() -> Any:
    with importing():
        import datasets  # noqa: PLC0415 - an extra, and slow to import
    return datasets


def _check_reachable(address: str) -> None:
    """Ask the Hub for its first page: its own library would try for half a minute."""
    import requests  # noqa: PLC0415 - slow to import

    try:
        if not os.environ.get("HF_HUB_OFFLINE"):
            requests.head(address, timeout=_CONNECT_SECONDS)
    except requests.RequestException as error:
        raise DataError(f"{address} cannot be reached ({type(error).__name__})") from None


def _read(name: str, source: str, progress: bool) -> Dataset:
    """Read a data set from the Hub or from a folder."""
    library, hub = _library(), HUB[name]
    with scratch_folder() as scratch, _progress_bars(library, progress):
        table = _loaded(library, source, split="train", cache_dir=str(scratch))
        missing = [column for column in hub.columns if column not in table.column_names]
        if missing:
            found, wanted = ", ".join(table.column_names), ", ".join(hub.columns)
            raise DataError(f"{source} has the columns {found}, must have {wanted}")
        table = table.select_columns([*hub.columns])
        for column, feature in table.features.items():
            if isinstance(feature, library.Image):  # decoded here, so that nothing else is read than PNG
                table = table.cast_column(column, library.Image(decode=False))
        return hub.read(table.iter(batch_size=_BATCH), source)
