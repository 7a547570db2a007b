import contextlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.data.dataset import DataError, parse_idx

MATRIX = bytes((0, 0, 8, 2)) + struct.pack(">II", 2, 3) + bytes(range(6))


def test_content_comes_out_in_its_shape() -> None:
    np.testing.assert_array_equal(parse_idx(MATRIX, 2, "matrix"), [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "starts with bytes , must start with 00000802"),
        (b"\x1f\x8b" + MATRIX[2:], "starts with bytes 1f8b0802"),
        (bytes((0, 0, 13, 2)) + MATRIX[4:], "starts with bytes 00000d02"),
        (bytes((0, 0, 8, 3)) + MATRIX[4:], "starts with bytes 00000803"),
        (MATRIX[:9], "is 9 bytes long, an idx header alone must be 12"),
        (MATRIX[:-1], r"is 17 bytes long, must be 18 for shape \(2, 3\)"),
        (MATRIX + b"\x00", "is 19 bytes long, must be 18"),
        (MATRIX[:4] + b"\xff" * 8, "is 12 bytes long, must be 18446744065119617037"),
    ],
)
def test_anything_else_is_refused_by_name(raw: bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"^matrix {message}"):
        parse_idx(raw, 2, "matrix")


@given(st.binary(max_size=24).map(lambda tail: MATRIX[:4] + tail))
def test_no_content_breaks_the_parser(raw: bytes) -> None:
    with contextlib.suppress(DataError):
        assert parse_idx(raw, 2, "matrix").ndim == 2
