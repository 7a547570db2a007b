from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from slotwise.data import DataError, Dataset


def small(**changes: object) -> Dataset:
    fields = {
        "name": "small",
        "train_inputs": np.zeros((4, 1, 2, 3), np.uint8),
        "train_targets": np.array([0, 1, 0, 1], np.uint8),
        "test_inputs": np.zeros((2, 1, 2, 3), np.uint8),
        "test_targets": np.array([0, 1], np.uint8),
        "classes": 2,
        "offset": (0.5,),
        "scale": (0.25,),
    }
    return Dataset(**(fields | changes))


@pytest.mark.parametrize("name", ["train_inputs", "train_targets", "test_inputs", "test_targets"])
def test_arrays_cannot_be_written(name: str) -> None:
    with pytest.raises(ValueError, match="read-only"):
        getattr(small(), name)[0] = 1


def test_fields_cannot_be_replaced_and_the_text_is_one_short_line() -> None:
    with pytest.raises(FrozenInstanceError):
        small().name = "other"
    assert repr(small()) == "Dataset(small: 4 + 2 samples, uint8[1, 2, 3], 2 classes)"
    values = np.zeros((2000, 1), np.float32), np.zeros((1000, 1), np.float32)
    regression = small(
        train_inputs=values[0], train_targets=values[0], test_inputs=values[1], test_targets=values[1],
        classes=None, offset=(), scale=(),
    )  # fmt: skip
    assert repr(regression) == "Dataset(small: 2,000 + 1,000 samples, float32[1], no classes)"
    assert small().content_hash == replace(small(), name="other").content_hash


def test_arrays_are_contiguous_copies_with_the_usual_strides() -> None:
    labels = np.array([0, 1], np.uint8)
    small(test_targets=labels)
    assert labels.flags.writeable
    images = np.zeros((4, 2, 3), np.uint8)[:, np.newaxis]
    assert small(train_inputs=images).train_inputs.strides == (6, 6, 3, 1)
    turned = np.arange(24, dtype=np.uint8).reshape(4, 3, 2, 1).transpose(0, 3, 2, 1)
    dataset = small(train_inputs=turned)
    assert dataset.train_inputs.flags.c_contiguous
    np.testing.assert_array_equal(dataset.train_inputs, turned)


@pytest.mark.parametrize(
    "change",
    [
        {"train_inputs": np.ones((4, 1, 2, 3), np.uint8)},
        {"train_targets": np.array([1, 1, 0, 1], np.uint8)},
        {"test_targets": np.array([1, 1], np.uint8)},
        {"train_inputs": np.zeros((4, 1, 3, 2), np.uint8), "test_inputs": np.zeros((2, 1, 3, 2), np.uint8)},
    ],
    ids=["pixel", "train label", "test label", "shape"],
)
def test_any_change_changes_the_hash(change: dict[str, object]) -> None:
    assert small(**change).content_hash != small().content_hash


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_inputs": np.array([["a"]] * 4)}, "must be an array of numbers"),
        ({"train_inputs": np.zeros((4, 1, 2, 3))}, "must be the same"),
        ({"test_targets": np.zeros((2, 1), np.uint8)}, "must be the same"),
        ({"test_targets": np.zeros(2)}, "labels must be whole numbers"),
        ({"test_targets": np.zeros(3, np.uint8)}, "2 inputs and 3 targets"),
        (
            {"test_inputs": np.zeros((0, 1, 2, 3), np.uint8), "test_targets": np.zeros(0, np.uint8)},
            "0 inputs and 0 targets, must be equally many, at least 1",
        ),
        ({"train_targets": np.array([0, 1, 2, 1], np.uint8)}, "label 2, must be from 0 to 1"),
        ({"owners": np.array([0, 1])}, "one number for each sample"),
        ({"test_inputs": np.zeros((2, 1, 3, 3), np.uint8)}, "must be the same"),
        ({"offset": (0.5, 0.5)}, "2 offsets and 1 scales, must be one per channel: 1"),
        ({"scale": (0.0,)}, "must be above 0"),
    ],
)
def test_a_malformed_field_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        small(**change)


def test_inputs_of_any_shape_and_type_are_accepted_and_only_images_standardised() -> None:
    lines = Dataset(
        name="lines",
        train_inputs=np.arange(12.0).reshape(4, 3),
        train_targets=np.arange(4.0)[:, np.newaxis],
        test_inputs=np.zeros((1, 3)),
        test_targets=np.zeros((1, 1)),
    )
    assert lines.input_shape == (3,)
    assert lines.classes is None
    with pytest.raises(DataError, match="only uint8 images"):
        small(train_inputs=np.zeros((4, 1, 2, 3)), test_inputs=np.zeros((2, 1, 2, 3)))


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_inputs_that_are_not_finite_are_refused(part: str, value: float) -> None:
    inputs = {"train": np.zeros((4, 3), np.float32), "test": np.zeros((2, 3), np.float32)}
    inputs[part][1, 2] = value
    with pytest.raises(DataError, match=f"{part} inputs .* not finite"):
        small(train_inputs=inputs["train"], test_inputs=inputs["test"], offset=(), scale=())
