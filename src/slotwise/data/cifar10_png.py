"""Batches of CIFAR-10 as PNG: one image per row of pixels, height x width x channel."""

import io
import struct

import numpy as np
from numpy.typing import NDArray

from slotwise.data.errors import DataError

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_WIDTH = 32 * 32


def decode_png(raw: bytes, images: int, source: str) -> NDArray[np.uint8]:
    """The pixels [images, 3, 32, 32] of an RGB picture 1024 wide and `images` high.

    Raises:
        DataError: If the picture has another size or kind, or is damaged.
    """
    _check_size(raw, images, source)
    rows = _decoded(raw, source).reshape(images, 32, 32, 3)
    return np.ascontiguousarray(rows.transpose(0, 3, 1, 2))


def _check_size(raw: bytes, images: int, source: str) -> None:
    """Read the size before the decoder does, so that no picture can make it unpack more than is wanted."""
    size = struct.unpack(">II", raw[16:24]) if len(raw) >= 24 else (0, 0)
    if not raw.startswith(PNG_SIGNATURE) or size != (_WIDTH, images):
        raise DataError(f"{source} is not a PNG of {_WIDTH} x {images} pixels")


def _decoded(raw: bytes, source: str) -> NDArray[np.uint8]:
    from PIL import Image  # noqa: PLC0415 - slow to import, and only needed here

    try:
        with Image.open(io.BytesIO(raw), formats=["PNG"]) as picture:
            mode, pixels = picture.mode, np.asarray(picture, np.uint8)
    except Exception as error:  # a damaged picture makes the decoder raise nearly any
        raise DataError(f"{source} is a damaged PNG: {error}") from None
    if mode != "RGB":
        raise DataError(f"{source} is a PNG of mode {mode}, must be RGB")
    return pixels
