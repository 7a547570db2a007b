"""FEMNIST and Shakespeare (Caldas et al. 2018, "LEAF"), read from batches of columns.

FEMNIST has handwritten digits and letters, by writer. In Shakespeare, the next character of a role in a play
is predicted: an input is a window of 80 characters as numbers, the target the number of the character after
it. A number is the position in `CHARACTERS`, LEAF's 80 characters; any other character has the number 80.
"""

from __future__ import annotations

import io
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.data.dataset import Bytes, DataError, Dataset
from slotwise.data.facts import CHARACTERS, FACTS, WINDOW

CLASS_NAMES = (*string.digits, *string.ascii_uppercase, *string.ascii_lowercase)
TEST_EVERY = 10  # of a writer's samples, each tenth is a test sample
TEST_SHARE = 10  # the last tenth of a role is for testing

_NUMBERS = np.full(128, len(CHARACTERS), np.uint8)
_NUMBERS[[ord(character) for character in CHARACTERS]] = np.arange(len(CHARACTERS))


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


def read_shakespeare(batches: Iterable[Mapping[str, Any]], source: str) -> Dataset:
    """Return the data set in batches with the columns character_id, x (80 characters) and y (1 character).

    The samples of a role follow each other by one character, so they overlap. The last tenth of a role is
    held out; of these, windows that share a character with a training sample are left out.

    Raises:
        DataError: a text has another length, or no role is long enough for test samples.
    """
    roles, windows, following = OwnerIds(), [], []
    for batch in batches:
        roles.add(batch["character_id"])
        windows.append(encode_text(batch["x"], WINDOW, source))
        following.append(encode_text(batch["y"], 1, source)[:, 0])
    if not windows:
        raise DataError(f"{source} has no samples, must have at least 1")
    owners, inputs, targets = roles.numbers(), np.concatenate(windows), np.concatenate(following)
    position, count = position_and_count(owners)
    held_out = count - count // TEST_SHARE
    train, test = position < held_out, position >= held_out + WINDOW
    if not test.any():
        fewest = (WINDOW + 1) * TEST_SHARE
        raise DataError(f"{source} has no role of {fewest} samples, must have one for the test samples")
    return Dataset(
        name="shakespeare",
        train_inputs=inputs[train],
        train_targets=targets[train],
        test_inputs=inputs[test],
        test_targets=targets[test],
        classes=FACTS["shakespeare"].classes,
        owners=owners[train],
    )


def encode_text(texts: Sequence[str], length: int, source: str = "texts") -> Bytes:
    """Return the numbers [n, length] of the characters of texts of equal length."""
    for text in texts:
        if not isinstance(text, str) or len(text) != length:
            raise DataError(f"{source} has the text {text!r}, must be {length} characters long")
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), "<u4")
    return _NUMBERS[np.where(codes < len(_NUMBERS), codes, 0)].reshape(len(texts), length)


class OwnerIds:
    """Collects the owner of one sample after the other."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._parts: list[NDArray[np.int64]] = []

    def add(self, ids: Iterable[str]) -> None:
        """Append the owners of some samples."""
        known = self._known
        self._parts.append(np.array([known.setdefault(str(owner), len(known)) for owner in ids], np.int64))

    def numbers(self) -> NDArray[np.int32]:
        """Return the number of each sample's owner, from 0 in the alphabetical order of the ids."""
        rank = np.empty(len(self._known), np.int32)
        rank[[self._known[owner] for owner in sorted(self._known)]] = np.arange(len(self._known))
        return rank[np.concatenate(self._parts)]


def position_and_count(owners: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each sample its position among the samples of its owner, and how many there are."""
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners)
    position = np.empty(len(owners), np.int64)
    position[order] = np.arange(len(owners)) - np.repeat(counts.cumsum() - counts, counts)
    return position, counts[owners]
