from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from slotwise.data import DataError, Dataset


def small(**changes: object) -> Dataset:
    fields = {
        "name": "small",
        "train_images": np.zeros((4, 1, 2, 3), np.uint8),
        "train_labels": np.array([0, 1, 0, 1], np.uint8),
        "test_images": np.zeros((2, 1, 2, 3), np.uint8),
        "test_labels": np.array([0, 1], np.uint8),
        "classes": 2,
        "offset": (0.5,),
        "scale": (0.25,),
    }
    return Dataset(**(fields | changes))


@pytest.mark.parametrize("name", ["train_images", "train_labels", "test_images", "test_labels"])
def test_arrays_cannot_be_written(name: str) -> None:
    with pytest.raises(ValueError, match="read-only"):
        getattr(small(), name)[0] = 1


def test_fields_cannot_be_replaced() -> None:
    with pytest.raises(FrozenInstanceError):
        small().name = "other"


def test_the_array_given_stays_writable() -> None:
    labels = np.array([0, 1], np.uint8)
    small(test_labels=labels)
    assert labels.flags.writeable


def test_images_are_made_contiguous() -> None:
    turned = np.arange(24, dtype=np.uint8).reshape(4, 3, 2, 1).transpose(0, 3, 2, 1)
    dataset = small(train_images=turned)
    assert dataset.train_images.flags.c_contiguous
    np.testing.assert_array_equal(dataset.train_images, turned)


def test_equal_content_has_equal_hash_whatever_its_name() -> None:
    assert small().content_hash == replace(small(), name="other").content_hash


@pytest.mark.parametrize(
    "change",
    [
        {"train_images": np.ones((4, 1, 2, 3), np.uint8)},
        {"train_labels": np.array([1, 1, 0, 1], np.uint8)},
        {"test_labels": np.array([1, 1], np.uint8)},
        {"train_images": np.zeros((4, 1, 3, 2), np.uint8), "test_images": np.zeros((2, 1, 3, 2), np.uint8)},
    ],
    ids=["pixel", "train label", "test label", "shape"],
)
def test_any_change_changes_the_hash(change: dict[str, object]) -> None:
    assert small(**change).content_hash != small().content_hash


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_images": np.zeros((4, 1, 2, 3))}, "train images are float64 .*, must be uint8"),
        ({"train_images": np.zeros((4, 2, 3), np.uint8)}, "must be uint8 with 4 dimensions"),
        ({"test_labels": np.zeros((2, 1), np.uint8)}, "test labels are .*, must be uint8 with 1 dimension"),
        ({"test_labels": np.zeros(2, np.int64)}, "test labels are int64"),
        ({"test_labels": np.zeros(3, np.uint8)}, "2 images and 3 labels"),
        (
            {"test_images": np.zeros((0, 1, 2, 3), np.uint8), "test_labels": np.zeros(0, np.uint8)},
            "0 images and 0 labels, must be equally many, at least 1",
        ),
        ({"train_labels": np.array([0, 1, 2, 1], np.uint8)}, "label 2, must be less than 2"),
        ({"test_images": np.zeros((2, 1, 3, 3), np.uint8)}, "must be the same"),
        ({"offset": (0.5, 0.5)}, "2 offsets and 1 scales, must be one per channel: 1"),
        ({"scale": (0.0,)}, "must be above 0"),
    ],
)
def test_a_malformed_field_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        small(**change)
