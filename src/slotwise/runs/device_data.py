"""device_samples: the data set of a run and its partition among the devices."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

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
