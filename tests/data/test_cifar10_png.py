import io
import struct
from collections.abc import Callable

import numpy as np
import pytest

from slotwise.data.cifar10_formats import decode_png
from slotwise.data.dataset import DataError

PIXELS = np.random.default_rng(0).integers(256, size=(4, 3, 32, 32)).astype(np.uint8)
Encode = Callable[[np.ndarray], bytes]


def test_each_row_becomes_an_image_with_channels_first(png: Encode) -> None:
    np.testing.assert_array_equal(decode_png(png(PIXELS), 4, "batch"), PIXELS)


def test_images_come_out_contiguous(png: Encode) -> None:
    assert decode_png(png(PIXELS), 4, "batch").flags.c_contiguous


def test_another_size_is_refused(png: Encode) -> None:
    with pytest.raises(DataError, match=r"^batch is not a PNG of 1024 x 10000 pixels"):
        decode_png(png(PIXELS), 10_000, "batch")


def test_a_picture_that_would_unpack_to_gigabytes_is_refused_by_its_header(png: Encode) -> None:
    raw = png(PIXELS)
    bomb = raw[:16] + struct.pack(">II", 100_000, 100_000) + raw[24:]
    with pytest.raises(DataError, match="is not a PNG of 1024 x 4 pixels"):
        decode_png(bomb, 4, "batch")


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "1"])
def test_a_picture_that_is_not_rgb_is_refused(mode: str) -> None:
    from PIL import Image

    file = io.BytesIO()
    Image.new(mode, (1024, 4)).save(file, "PNG")
    with pytest.raises(DataError, match=f"is a PNG of mode {mode}, must be RGB"):
        decode_png(file.getvalue(), 4, "batch")


@pytest.mark.parametrize("length", [0, 8, 23, 24, 33, 100, 5000])
def test_a_truncated_picture_is_refused(png: Encode, length: int) -> None:
    with pytest.raises(DataError, match=r"^batch is "):
        decode_png(png(PIXELS)[:length], 4, "batch")


@pytest.mark.parametrize("place", [26, 37, 43, 60, 500])
def test_a_picture_with_a_changed_byte_is_refused(png: Encode, place: int) -> None:
    raw = bytearray(png(PIXELS))
    raw[place] ^= 0xFF
    with pytest.raises(DataError, match=r"^batch is a "):
        decode_png(bytes(raw), 4, "batch")
