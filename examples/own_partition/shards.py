"""Shards: samples sorted by label are cut into pieces, of which each device gets a few."""

import numpy as np

from slotwise import Dataset


def shards(
    dataset: Dataset, devices: int, generator: np.random.Generator, *, each: int = 2
) -> list[np.ndarray]:
    """Return the rows of each device (McMahan et al., AISTATS 2017): ``each`` shards, no sample twice."""
    by_label = np.argsort(dataset.train_targets, kind="stable")
    pieces = np.array_split(by_label, devices * each)
    order = generator.permutation(len(pieces)).reshape(devices, each)
    return [np.concatenate([pieces[number] for number in own]) for own in order]
