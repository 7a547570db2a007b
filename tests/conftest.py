"""Settings of property tests, and MNIST as fixtures.

Examples have no time limit, because machines are shared and noisy. In CI they are the same in every run,
so what passed once passes again; elsewhere they are new each time.
"""

import os

import pytest
from hypothesis import settings

from slotwise.data import Dataset, load_mnist, one_label
from slotwise.learning.local_training import DeviceSamples
from slotwise.learning.randomness import Purpose, generator

settings.register_profile("slotwise", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("slotwise")


@pytest.fixture(scope="session")
def mnist() -> Dataset:
    return load_mnist()


@pytest.fixture(scope="session")
def samples(mnist: Dataset) -> DeviceSamples:
    """Six devices with 40 images of one label each."""
    rows = one_label(mnist.train_targets, 6, 40, generator(0, Purpose.PARTITION))
    return DeviceSamples(mnist, rows)
