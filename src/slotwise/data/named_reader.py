"""What readers of data sets by name share: images of one size, numbered labels, and held-out samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import MissingError
from slotwise.data.dataset import Bytes, DataError

Labels = NDArray[np.int64]
TEST_SPLITS = ("test", "validation", "valid", "val", "dev")
TEST_EVERY = 10  # without a test split, each tenth sample is one
GREY = ("1", "L", "LA", "I", "I;16", "F")  # modes of images that become one channel
_Array = TypeVar("_Array", bound=NDArray[Any])


class Images:
    """Images [n, channels, height, width]: one channel if the first is grey, else three.

    Attributes:
        title: The data set, for messages.
        size: Height and width to which images are resized; None if they must have one size.
    """

    def __init__(self, title: str, size: int | None) -> None:
        self.title, self.size = title, size
        self._kept: list[Bytes] = []
        self._grey: bool | None = None

    def add(self, picture: Any) -> None:
        """Add an image of PIL."""
        if self._grey is None:
            self._grey = picture.mode in GREY
        size = (self.size, self.size) if self.size else picture.size
        shaped = picture.convert("L" if self._grey else "RGB")
        pixels = np.asarray(shaped if shaped.size == size else shaped.resize(size), np.uint8)
        pixels = pixels[np.newaxis] if self._grey else np.ascontiguousarray(pixels.transpose(2, 0, 1))
        if self._kept and pixels.shape != self._kept[0].shape:
            sizes = " and ".join(f"{one.shape[2]} x {one.shape[1]}" for one in (self._kept[0], pixels))
            raise MissingError("image_size", f"given: {self.title} has images of {sizes} pixels")
        self._kept.append(pixels)

    def array(self) -> Bytes:
        """Return all images."""
        return np.stack(self._kept)


def check_samples(title: str, train: int, test: int | None) -> None:
    """Raise a DataError if there are too few samples; ``test`` is None if some will be held out."""
    if train < (TEST_EVERY if test is None else 1) or test == 0:
        tests = "" if test is None else f" and {test} test samples"
        raise DataError(f"{title} has {train} training samples{tests}, must have more")


def with_test(parts: Sequence[_Array]) -> list[_Array]:
    """Return training and test samples; of a single part, each tenth is a test sample."""
    if len(parts) > 1:
        return [*parts]
    held_out = np.arange(len(parts[0])) % TEST_EVERY == TEST_EVERY - 1
    return [parts[0][~held_out], parts[0][held_out]]


def first_line(error: Exception) -> str:
    """Return the first line of the text of an error, or what kind it is."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def numbered(title: str, parts: Sequence[NDArray[Any]], names: Iterable[Any]) -> tuple[list[Labels], int]:
    """Return labels as numbers from 0 on in the order of their names, and how many names there are."""
    numbers = {name: number for number, name in enumerate(names)}
    for labels in parts:
        if unknown := set(labels.tolist()) - numbers.keys():
            raise DataError(f"{title} has the unknown label {min(unknown)!r}")
    return [np.array([numbers[name] for name in labels.tolist()]) for labels in parts], len(numbers)
