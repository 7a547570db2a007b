"""The cache of data sets: one file each, checked against the content hash in it when it is read."""

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slotwise.base.errors import UserError
from slotwise.base.extras import require
from slotwise.base.files import write_atomically
from slotwise.data.dataset import ARRAYS, STORED_NAMES, DataError, Dataset
from slotwise.data.facts import TITLES


def dataset_path(name: str) -> Path:
    """Return the file that a data set is kept in on this machine, whether or not it exists."""
    return cache_folder() / f"{name}.npz"


def remedy(name: str) -> str:
    """Return the commands that get a data set that is missing or damaged."""
    return f"run `slotwise data fetch {name}` or `slotwise data import {name} PATH`"


def missing_notice(name: str) -> str:
    """Return the sentence for a data set that has not been fetched."""
    return f"{TITLES[name]} is not on this machine: slotwise data fetch {name}"


def load_cached(name: str) -> Dataset:
    """Return a data set as kept on this machine, or raise a DataError that says which command gets it."""
    try:
        return read_dataset(dataset_path(name))
    except DataError as error:
        raise DataError(f"{TITLES[name]}: {error}; {remedy(name)}") from None


def stored_hash(path: Path) -> str | None:
    """Return the content hash in the file of a data set, without reading the samples; None if there is none.

    `read_dataset` checks the samples against it.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return str(stored["content_hash"])
    except Exception:  # as in `read_dataset`; what needs the samples says what is wrong
        return None


@dataclass(frozen=True)
class StoredFacts:
    """Facts about a file of `write_dataset`; ``owners`` is 0 if they are not known."""

    input_shape: tuple[int, ...]
    classes: int
    samples: int
    owners: int


def stored_facts(path: Path) -> StoredFacts | None:
    """Return facts in the file of a data set, without reading the inputs; None if it cannot be read."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            owners = stored.get("owners")
            known = 0 if owners is None else len(np.unique(owners))
            with stored.zip.open(f"{STORED_NAMES[0]}.npy") as member:
                version = np.lib.format.read_magic(member)
                read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
                    version, np.lib.format.read_array_header_2_0
                )
                shape, *_ = read(member)
            return StoredFacts(tuple(shape[1:]), int(stored["classes"]), shape[0], known)
    except Exception:  # as in `stored_hash`
        return None


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a temporary folder beside the cache, where there must be room anyway, not in a small /tmp."""
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=cache, prefix=".download-")
    except OSError as error:
        raise DataError(f"{cache} cannot be written: {error.strerror}") from None
    with scratch as folder:
        yield Path(folder)


def cache_folder() -> Path:
    """Return the folder of data sets: `$SLOTWISE_CACHE`, or else the user's cache folder."""
    chosen = os.environ.get("SLOTWISE_CACHE")
    if chosen:
        return Path(chosen)
    require("pooch")
    import pooch  # noqa: PLC0415 - slow to import, and only needed here

    return Path(pooch.os_cache("slotwise"))


def write_dataset(dataset: Dataset, path: Path) -> None:
    """Write a data set to one file, atomically, or raise a DataError."""
    names = ("name", "classes", "offset", "scale", "owners", "content_hash")
    known = [name for name in names if getattr(dataset, name) is not None]
    stored: dict[str, Any] = {name: np.asarray(getattr(dataset, name)) for name in known}
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
                classes=int(stored["classes"]) if "classes" in stored else None,
                offset=tuple(stored["offset"].tolist()),
                scale=tuple(stored["scale"].tolist()),
                owners=stored.get("owners"),
            )
    except Exception as error:  # a damaged file makes the readers of zip and npy raise nearly any
        raise DataError(f"{path} is damaged or cannot be read: {error}") from None
    if dataset.content_hash != content_hash:
        raise DataError(f"{path} is damaged: content hash {dataset.content_hash}, must be {content_hash}")
    return dataset
