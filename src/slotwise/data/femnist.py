"""FEMNIST (Caldas et al. 2018, "LEAF"): handwritten digits and letters, by writer."""

from __future__ import annotations

import io
import string
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from slotwise.data.dataset import Bytes, DataError, Dataset
from slotwise.data.facts import FACTS
from slotwise.data.owners import OwnerIds, position_and_count

CLASS_NAMES = (*string.digits, *string.ascii_uppercase, *string.ascii_lowercase)
TEST_EVERY = 10  # of a writer's samples, each tenth is a test sample


def read_femnist(batches: Iterable[Mapping[str, Any]], source: str) -> Dataset:
    """Return the data set in batches with the columns image (PNG), writer_id and character (0 to 61).

    Every tenth sample of a writer is a test sample. Pixels are standardised by the mean and deviation of
    the training samples.

    Raises:
        DataError: an image or a label is not one of FEMNIST.
    """
    writers, images, labels = OwnerIds(), [], []
    for batch in batches:
        writers.add(batch["writer_id"])
        images.append(np.stack([_pixels(image, source) for image in batch["image"]]))
        labels.append(_labels(batch["character"], source))
    if not images:
        raise DataError(f"{source} has no samples, must have at least 1")
    owners, pixels, classes = writers.numbers(), np.concatenate(images), np.concatenate(labels)
    position, _ = position_and_count(owners)
    test = position % TEST_EVERY == TEST_EVERY - 1
    if not test.any():
        raise DataError(f"{source} has no writer of {TEST_EVERY} samples, must have one for the test samples")
    train = pixels[~test]
    counts = np.bincount(train.ravel(), minlength=256) / train.size
    levels = np.arange(256) / 255
    mean = float(counts @ levels)
    deviation = float(np.sqrt(counts @ (levels - mean) ** 2))
    return Dataset(
        name="femnist",
        train_inputs=train,
        train_targets=classes[~test],
        test_inputs=pixels[test],
        test_targets=classes[test],
        classes=len(CLASS_NAMES),
        offset=(round(mean, 4),),
        scale=(max(round(deviation, 4), 1e-4),),
        owners=owners[~test],
    )


def _pixels(image: Any, source: str) -> Bytes:
    """Return the pixels [1, 28, 28] of a PNG."""
    from PIL import Image  # noqa: PLC0415 - slow to import, and only needed here

    raw = image.get("bytes") if isinstance(image, dict) else None
    if not isinstance(raw, bytes):
        raise DataError(f"{source} has an image that is not in the file itself, must be the bytes of a PNG")
    shape = FACTS["femnist"].input_shape
    try:
        with Image.open(io.BytesIO(raw), formats=["PNG"]) as picture:
            size = (1, picture.height, picture.width)
            # The size is checked first, so that no picture can make the decoder unpack more than expected.
            pixels = np.asarray(picture.convert("L"), np.uint8) if size == shape else None
    except Exception as error:  # a damaged picture makes the decoder raise nearly any
        raise DataError(f"{source} has a damaged PNG: {error}") from None
    if pixels is None:
        raise DataError(f"{source} has an image of {size[2]} x {size[1]} pixels, must be 28 x 28")
    return pixels[np.newaxis]


def _labels(characters: Any, source: str) -> Bytes:
    found = np.asarray(characters)
    if found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= len(CLASS_NAMES):
        allowed = f"whole numbers from 0 to {len(CLASS_NAMES) - 1}"
        raise DataError(f"{source} has characters {found.min()} to {found.max()}, must be {allowed}")
    return found.astype(np.uint8)
