"""The idx format of the MNIST files: a magic number, big-endian dimensions, then the bytes."""

import struct
from math import prod

import numpy as np
from numpy.typing import NDArray

from slotwise.data.errors import DataError

_UNSIGNED_BYTE = 0x08


def parse_idx(raw: bytes, dimensions: int, source: str) -> NDArray[np.uint8]:
    """Read idx content of unsigned bytes, refusing anything that is not exactly that.

    Args:
        raw: The whole, uncompressed content.
        dimensions: How many dimensions the array must have.
        source: How messages name the content.

    Returns:
        A read-only array over `raw`.

    Raises:
        DataError: If the magic number, the dimensions or the length is wrong.
    """
    _check_magic(raw, dimensions, source)
    header = 4 + 4 * dimensions
    if len(raw) < header:
        raise DataError(f"{source} is {len(raw)} bytes long, an idx header alone must be {header}")
    shape = struct.unpack(f">{dimensions}I", raw[4:header])
    length = header + prod(shape)
    if len(raw) != length:
        raise DataError(f"{source} is {len(raw)} bytes long, must be {length} for shape {shape}")
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)


def _check_magic(raw: bytes, dimensions: int, source: str) -> None:
    expected = bytes((0, 0, _UNSIGNED_BYTE, dimensions))
    if raw[:4] != expected:
        raise DataError(f"{source} starts with bytes {raw[:4].hex()}, must start with {expected.hex()}")
