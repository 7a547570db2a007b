"""Brightness: images sorted by their mean pixel are cut into pieces, so devices differ in their inputs."""

import numpy as np

from slotwise import Dataset


def brightness(
    dataset: Dataset, devices: int, generator: np.random.Generator, *, pieces: int = 1
) -> list[np.ndarray]:
    """Return the rows of each device: ``pieces`` ranges of brightness, drawn at random, no sample twice."""
    means = dataset.train_inputs.reshape(len(dataset.train_inputs), -1).mean(axis=1)
    ranges = np.array_split(np.argsort(means, kind="stable"), devices * pieces)
    order = generator.permutation(len(ranges)).reshape(devices, pieces)
    return [np.concatenate([ranges[number] for number in own]) for own in order]
