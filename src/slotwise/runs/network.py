"""The network of a run: its shape, and so its size, are known without loading any data."""

from __future__ import annotations

from collections.abc import Sequence

from slotwise.errors import InputError
from slotwise.learning.fastcnn.architecture import Architecture

KERNEL = 5
CLASSES = 10
IMAGE_SHAPES = {"mnist": (1, 28, 28), "cifar10": (3, 32, 32)}


def network(data: str, channels: Sequence[int], hidden: Sequence[int]) -> Architecture:
    """The convolutional network for the data set's images."""
    try:
        return Architecture(
            input_shape=IMAGE_SHAPES[data],
            convolutions=tuple((count, KERNEL) for count in channels),
            hidden=tuple(hidden),
            classes=CLASSES,
        )
    except ValueError as error:
        raise InputError("channels", tuple(channels), f"fewer layers: {error}") from None
