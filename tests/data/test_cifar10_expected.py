from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slotwise.data import DataError, Dataset
from slotwise.data.cifar10_formats import OFFICIAL, check_cifar10


@pytest.fixture
def dataset(tiny: Any) -> Dataset:
    stems = list(tiny.images)
    return Dataset(
        name="cifar10",
        train_inputs=np.concatenate([tiny.images[stem] for stem in stems[:5]]),
        train_targets=np.array([tiny.labels[stem] for stem in stems[:5]], np.uint8).ravel(),
        test_inputs=tiny.images["test_batch"],
        test_targets=np.array(tiny.labels["test_batch"], np.uint8),
        classes=10,
        offset=tiny.expected.mean,
        scale=tiny.expected.deviation,
    )


def test_what_is_expected_passes(dataset: Dataset, tiny: Any) -> None:
    check_cifar10(dataset, tiny.expected, "copy")


def test_unequal_training_classes_are_counted_out(dataset: Dataset, tiny: Any) -> None:
    labels = np.where(dataset.train_targets == 3, 4, dataset.train_targets).astype(np.uint8)
    with pytest.raises(
        DataError, match=r"copy: train images per class are \[5, 5, 5, 0, 10, .*must be 5 each"
    ):
        check_cifar10(replace(dataset, train_targets=labels), tiny.expected, "copy")


def test_unequal_test_classes_are_counted_out(dataset: Dataset, tiny: Any) -> None:
    with pytest.raises(DataError, match=r"copy: test images per class are .* must be 1 each"):
        check_cifar10(replace(dataset, test_targets=np.zeros(10, np.uint8)), tiny.expected, "copy")


def test_channels_in_another_order_have_other_means(dataset: Dataset, tiny: Any) -> None:
    turned = replace(dataset, train_inputs=dataset.train_inputs[:, ::-1])
    with pytest.raises(DataError, match=r"copy: channel mean is \(.*\), must be \("):
        check_cifar10(turned, tiny.expected, "copy")


def test_flatter_pixels_have_another_deviation(dataset: Dataset, tiny: Any) -> None:
    unlike = replace(tiny.expected, deviation=(0.1, 0.1, 0.1))
    with pytest.raises(DataError, match=r"copy: channel deviation is \(.*\), must be \(0.1, 0.1, 0.1\)"):
        check_cifar10(dataset, unlike, "copy")


def test_another_order_of_images_is_noticed(dataset: Dataset, tiny: Any) -> None:
    reversed_ = replace(
        dataset, train_inputs=dataset.train_inputs[::-1], train_targets=dataset.train_targets[::-1]
    )
    with pytest.raises(DataError, match="or are in another order than the official one"):
        check_cifar10(reversed_, tiny.expected, "copy")


def test_the_official_facts_are_the_published_ones() -> None:
    assert OFFICIAL.images_per_batch == 10_000
    assert OFFICIAL.mean == (0.4914, 0.4822, 0.4465)
    assert OFFICIAL.deviation == (0.2470, 0.2435, 0.2616)
