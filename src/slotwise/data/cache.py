"""Data sets kept on this machine: one file each, whole or absent, checked whenever it is read."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.data.dataset import Dataset
from slotwise.data.errors import DataError

FOLDER_VARIABLE = "SLOTWISE_CACHE"


def cache_folder() -> Path:
    """Where data sets are kept: `$SLOTWISE_CACHE`, or else the user's cache folder."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    import pooch  # noqa: PLC0415 - slow to import, and only needed here

    return Path(pooch.os_cache("slotwise"))


def write_dataset(dataset: Dataset, path: Path) -> None:
    """Write to a file beside `path` and rename it, so that `path` never holds half a data set.

    Raises:
        DataError: If the file cannot be written; nothing is left behind then.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_synced(dataset, partial)
        partial.replace(path)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        _remove(partial)


def _write_synced(dataset: Dataset, path: Path) -> None:
    with path.open("xb") as file:
        np.savez(file, **_stored(dataset))
        file.flush()
        os.fsync(file.fileno())


def _remove(partial: Path) -> None:
    """Silent where there is nothing to remove, such as below a path that is no folder."""
    if partial.exists():
        partial.unlink()


def read_dataset(path: Path) -> Dataset:
    """Read what `write_dataset` wrote, and check it against the content hash written with it.

    Raises:
        DataError: If the file is absent, damaged or something else.
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
