"""Numbers of samples that differ: shares by a power law and log-normal ones."""

import numpy as np
import pytest

from slotwise.base.errors import InputError
from slotwise.data import Dataset, Iid, LognormalSizes, PowerLawSizes


def draw() -> np.random.Generator:
    return np.random.default_rng(0)


def small(samples: int) -> Dataset:
    inputs, targets = np.zeros((samples, 1), np.float32), np.arange(samples) % 2
    return Dataset("small", inputs, targets, inputs, targets, classes=2)


def test_sizes_by_power_law_or_log_normal_are_those_of_the_formulas() -> None:
    squares = np.asarray(PowerLawSizes(samples_per_device=386, size_power=2).draw(10, draw()))
    assert squares.sum() == 3860
    assert np.allclose(squares, np.arange(1, 11) ** 2 * 10, atol=10)
    falling = np.asarray(PowerLawSizes(samples_per_device=100, size_power=-1).draw(10, draw()))
    assert falling.sum() == 1000
    assert (np.diff(falling) <= 0).all()
    assert set(np.asarray(PowerLawSizes(size_power=0).draw(7, draw()))) == {250}
    sizes = np.asarray(LognormalSizes(samples_per_device=1000, size_sigma=0.5).draw(4000, draw()))
    assert sizes.sum() == 4_000_000
    assert np.log(sizes).std() == pytest.approx(0.5, abs=0.02)
    assert np.asarray(LognormalSizes(size_sigma=100).draw(10, draw())).min() == 1
    rows = Iid(sizes=PowerLawSizes(samples_per_device=20, size_power=1))(small(100), 4, draw())
    assert [len(own) for own in rows] == [9, 16, 24, 31]
    with pytest.raises(InputError, match=r"size_power = 9.*closer to 0.*device 4 would hold"):
        Iid(sizes=PowerLawSizes(samples_per_device=40, size_power=9))(small(100), 4, draw())
