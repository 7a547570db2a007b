"""Packing: quantised numbers in as many bits as the plan counts for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector

SCALE = np.dtype("<f4")
WHOLE_BYTES: dict[int, str] = {8: "u1", 16: ">u2"}  # the same bytes as bit by bit, in no time
BLOCK = 1 << 16  # numbers that are taken apart at once; a multiple of eight, so that blocks end with a byte


class Packing:
    """How the updates of one model travel: a scale for each of its arrays, then ``bits`` bits a number.

    A number is a sign and a level; its array's scale is the largest magnitude in it, which `quantise` leaves
    as it is. What is unpacked is what was quantised, to the bit. An array with a number that is not finite
    has a scale that is not, and unpacks to numbers that are not.
    """

    def __init__(self, ends: NDArray[np.int64], bits: int) -> None:
        self._ends, self._bits = ends, bits
        self._steps = 2 ** (bits - 1) - 1

    @property
    def size(self) -> int:
        """Bytes of an update."""
        return SCALE.itemsize * len(self._ends) + -(-int(self._ends[-1]) * self._bits // 8)

    def pack(self, update: Vector) -> bytes:
        """The bytes of an update that was quantised in as many bits."""
        scales = np.array([np.abs(update[part]).max(initial=0.0) for part in self._parts()], dtype=SCALE)
        codes = np.empty(len(update), dtype=np.uint32)
        for part, scale in zip(self._parts(), scales, strict=True):
            codes[part] = self._codes(update[part], float(scale))
        blocks = [_bits_of(codes[at : at + BLOCK], self._bits) for at in range(0, len(codes), BLOCK)]
        return b"".join([scales.tobytes(), *blocks])

    def unpack(self, packed: bytes) -> Vector:
        """The update in ``packed``, which must be of the right `size`."""
        head = SCALE.itemsize * len(self._ends)
        scales = np.frombuffer(packed[:head], dtype=SCALE)
        raw, count = np.frombuffer(packed, dtype=np.uint8, offset=head), int(self._ends[-1])
        bytes_of_block = BLOCK * self._bits // 8
        blocks = [
            _codes_of(raw[at // BLOCK * bytes_of_block :], min(BLOCK, count - at), self._bits)
            for at in range(0, count, BLOCK)
        ]
        codes = np.concatenate(blocks)
        update = np.empty(count, dtype=np.float32)
        for part, scale in zip(self._parts(), scales, strict=True):
            update[part] = self._numbers(codes[part], float(scale))
        return update

    def _parts(self) -> Iterator[slice]:
        start = 0
        for end in self._ends.tolist():
            yield slice(start, end)
            start = end

    def _codes(self, numbers: Vector, scale: float) -> NDArray[np.uint32]:
        """A sign in front of the level, which is 0 for all where the scale says everything."""
        levels = np.zeros(len(numbers), dtype=np.uint32)
        if 0 < scale < np.inf:
            levels = np.rint(np.abs(numbers).astype(np.float64) / scale * self._steps).astype(np.uint32)
        signs = np.signbit(numbers).astype(np.uint32)
        return levels | signs << np.uint32(self._bits - 1)

    def _numbers(self, codes: NDArray[np.uint32], scale: float) -> Vector:
        """As in `quantise`, in the same order of operations."""
        levels = (codes & np.uint32(self._steps)).astype(np.float64)
        signs = np.where(codes > self._steps, -1.0, 1.0)
        with np.errstate(invalid="ignore", over="ignore"):
            numbers: Vector = np.copysign(levels * scale / self._steps, signs).astype(np.float32)
        return numbers


def _bits_of(codes: NDArray[np.uint32], bits: int) -> bytes:
    """The last ``bits`` bits of every code, one after another."""
    if bits in WHOLE_BYTES:
        return codes.astype(WHOLE_BYTES[bits]).tobytes()
    rows = np.unpackbits(codes.astype(">u4").view(np.uint8).reshape(-1, 4), axis=1)
    return np.packbits(rows[:, 32 - bits :]).tobytes()


def _codes_of(packed: NDArray[np.uint8], count: int, bits: int) -> NDArray[np.uint32]:
    """The first ``count`` codes in ``packed``."""
    if bits in WHOLE_BYTES:
        return np.frombuffer(packed, dtype=WHOLE_BYTES[bits], count=count).astype(np.uint32)
    rows = np.zeros((count, 32), dtype=np.uint8)
    rows[:, 32 - bits :] = np.unpackbits(packed[: -(-count * bits // 8)], count=count * bits).reshape(
        -1, bits
    )
    return np.packbits(rows, axis=1).view(">u4").reshape(-1).astype(np.uint32)
