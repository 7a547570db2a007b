"""The data of a run: the samples of each device, and whether runs were trained on the same data.

A hash belongs to a source, which is a fetched data set or a data folder. It covers all samples of the source,
so partitions and seeds do not change it, and runs of different sources have different data on purpose. Two
hashes of one source mean that its files have changed between the runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from slotwise.base.errors import InputError, UserError
from slotwise.data import Dataset, PartitionedData
from slotwise.learning.local_training import DeviceSamples
from slotwise.learning.randomness import Purpose, generator
from slotwise.runs.config import TRAINABLE_FOLDER, RunConfig


def device_samples(
    config: RunConfig, dataset: Dataset | None = None, devices: Collection[int] | None = None
) -> DeviceSamples:
    """Return the samples of each device; ``dataset`` is that of the configuration, if it is loaded already.

    Of a data folder only the files of ``devices`` are read, if they are given: then only these can train.

    Raises:
        UserError: data are missing, or cannot be divided so.
    """
    everyone = config.channel.devices
    rows: Sequence[Any]
    if config.dataset.data_folder is not None and devices is not None:
        dataset = config.dataset.load(devices)
        own = dict(zip(sorted(devices), dataset.owner_rows(), strict=True))
        everything = np.arange(len(dataset.train_targets))  # for the others, which do not train here
        rows = tuple(own.get(number, everything) for number in range(1, everyone + 1))
    else:
        dataset = config.dataset.load() if dataset is None else dataset
        rows = config.dataset.divide(dataset, everyone, generator(config.data_seed, Purpose.PARTITION))
    try:
        return DeviceSamples(dataset, rows)
    except InputError as error:
        if isinstance(config.dataset, PartitionedData):  # only your own partition returns such rows
            raise UserError(f"partition {config.dataset.partition_name}: {error}") from None
        raise


def check_images(config: RunConfig, dataset: Dataset) -> None:
    """Refuse the inputs of a data folder that are no images of bytes, as the built-in networks take them."""
    if config.dataset.data_folder is not None and dataset.train_inputs.dtype != np.uint8:
        found = f"{dataset.name} with {dataset.train_inputs.dtype} inputs"
        raise InputError("data_folder", found, TRAINABLE_FOLDER)


SHOWN_RUNS, SHOWN_DIGITS = 3, 12  # of a message


class DataUse(NamedTuple):
    """The data of a run: their source and their hash, None if it is not known (MNIST has none)."""

    run: str
    source: str
    sha256: str | None


def changed_sources(uses: Iterable[DataUse]) -> dict[str, dict[str, list[str]]]:
    """Return the runs by hash, for each source of which there is more than one hash."""
    sources: dict[str, dict[str, list[str]]] = {}
    for run, source, sha256 in uses:
        if sha256 is not None:
            sources.setdefault(source, {}).setdefault(sha256, []).append(run)
    return {source: hashes for source, hashes in sources.items() if len(hashes) > 1}


def changed_data_text(source: str, hashes: Mapping[str, Sequence[str]]) -> str:
    """Return which runs were trained on which data of a source, as part of a sentence."""
    states = [f"{_names(runs)} (sha256 {sha256[:SHOWN_DIGITS]}…)" for sha256, runs in hashes.items()]
    return f"the data set {source} has changed between {' and '.join(states)}"


def refuse_mixed_data(uses: Iterable[DataUse]) -> None:
    """Raise a UserError if runs that are combined were trained on different data of the same source."""
    for source, hashes in changed_sources(uses).items():
        remedy = "restore it, or delete the runs of one state and train them again"
        raise UserError(f"{changed_data_text(source, hashes)}; {remedy}")


def _names(runs: Sequence[str]) -> str:
    more = len(runs) - SHOWN_RUNS
    return ", ".join(runs[:SHOWN_RUNS]) + (f" and {more} more" if more > 0 else "")
