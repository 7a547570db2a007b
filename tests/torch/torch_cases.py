"""Tiny data for tests of TorchTask."""

import numpy as np

from slotwise.data import Dataset
from slotwise.learning.local_training import DeviceSamples
from slotwise.learning.randomness import Purpose, generator

FEATURES, CLASSES = 5, 3
ROWS = (range(4), range(4, 12), range(12, 32))


def linear_samples(targets=None, inputs=None, classes=None):
    """Three devices with 4, 8 and 20 samples; three labels, unless targets are given; ten test samples."""
    draw = generator(0, Purpose.PARTITION)
    if inputs is None:
        inputs = draw.normal(size=(42, FEATURES))
    if targets is None:
        targets, classes = draw.integers(0, CLASSES, 42), CLASSES
    dataset = Dataset("tiny", inputs[:32], targets[:32], inputs[32:], targets[32:], classes)
    return DeviceSamples(dataset, [np.array(rows) for rows in ROWS])
