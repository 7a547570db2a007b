"""Quantised updates: fewer bits on the channel, more noise in the model.

FedPAQ (Reisizadeh, Mokhtari, Hassani, Jadbabaie and Pedarsani, "FedPAQ: A Communication-Efficient Federated
Learning Method with Periodic Averaging and Quantization", AISTATS 2020, arXiv:1909.13014) sends Q(w_start −
w_end) in place of the update, where Q is unbiased and E‖Q(x) − x‖² ≤ q‖x‖². Q is QSGD's (Alistarh, Grubic,
Li, Tomioka and Vojnovic, "QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding", NIPS
2017, arXiv:1610.02132).
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from math import inf

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.randomness import LARGEST_SEED, Purpose, generator
from slotwise.learning.task import FLOAT_BITS, Task, TaskWrapper, TrainingStart
from slotwise.options.checks import whole

UNQUANTISED = FLOAT_BITS
FEWEST_BITS = 2  # a sign and one bit
SCALE = np.dtype("<f4")
WHOLE_BYTES: dict[int, str] = {8: "u1", 16: ">u2"}  # the same bytes as bit by bit, much faster
# Numbers that are computed at once: few enough for the cache, and a multiple of eight, so that blocks of an
# encoding end with a byte.
BLOCK = 1 << 14


class Quantised(TaskWrapper):
    """A task whose devices send every number of an update in ``bits`` bits; 32 bits leave it unchanged.

    Each array of the model is scaled by its own largest number. The updates of one layer are alike in size,
    those of two layers are not, so one scale for the whole vector would leave the small layers few levels.
    This costs 32 bits an array.

    The largest number takes the place of the Euclidean length. It keeps QSGD's bound, q = min(n/s², √n/s) for
    n numbers and s levels, and uses all levels: in a layer of 16,000 numbers and 8 bits, one of average size
    is 1/126 of the length, which is level 1 of 127. What the length brings is zeros that a variable-length
    code makes short, and that is worth nothing where the slots of an uplink are fixed in advance.
    """

    def __init__(self, task: Task, bits: int, seed: int = 0) -> None:
        super().__init__(CheckedTask.of(task))
        self.bits, self._seed = _checked_bits(bits), whole("seed", seed, 0, LARGEST_SEED)
        arrays = self.named_arrays(self.initial_model())
        self._ends = np.cumsum([array.size for array in arrays.values()], dtype=np.int64)
        self.packing = None if self.bits == UNQUANTISED else Packing(self._ends, self.bits)
        """Encoding of its updates in a message; None for plain float32."""

    @cached_property
    def update_bits(self) -> int:
        """Bits of one update: those that are sent of each number, and the scales of the arrays."""
        if self.bits == UNQUANTISED:
            return super().update_bits
        return quantised_bits(int(self._ends[-1]), self.bits, len(self._ends))

    def sent(self, update: Vector, start: TrainingStart) -> Vector:
        """Return the device's update after quantisation, as the server decodes it."""
        if self.bits == UNQUANTISED:
            return update
        draw = generator(self._seed, Purpose.QUANTISATION, start.device, start.training)
        return quantise_arrays(update, self._ends, self.bits, draw)


def packing_of(task: Task) -> Packing | None:
    """Return the encoding of a task's updates in a message; None for plain float32."""
    while isinstance(task, TaskWrapper):
        if isinstance(task, Quantised):
            return task.packing
        task = task.task
    return None


def quantise(numbers: Vector, bits: int, draw: np.random.Generator) -> Vector:
    """Round each number up or down at random to one of 2^bits − 1 levels; the mean is exact.

    A sign and bits − 1 bits of magnitude give the levels 0, ±m/s, ±2m/s, …, ±m, where m is the largest
    magnitude and s = 2^(bits−1) − 1. A number x between two of them becomes the outer one with the
    probability that makes its mean x. An array with a number that is not finite is returned unchanged, so
    that divergence is noticed.
    """
    rounded: Vector = np.abs(numbers)
    largest = float(rounded.max(initial=0.0))
    if not 0 < largest < inf:
        return numbers
    steps = 2 ** (bits - 1) - 1
    for at in range(0, len(numbers), BLOCK):
        _round(rounded[at : at + BLOCK], largest, steps, draw)
    # The sign is kept at level 0 too, so that unpacking gives the same bits.
    return np.copysign(rounded, numbers, out=rounded)


def _round(
    magnitude: Vector, largest: float | NDArray[np.float64], steps: int, draw: np.random.Generator
) -> None:
    """Round magnitudes at random to one of ``steps`` levels below the largest, in place."""
    exact = magnitude.astype(np.float64)
    exact /= largest
    exact *= steps
    levels = np.floor(exact)
    exact -= levels
    levels += draw.random(len(levels)) < exact
    # Multiplied before divided: the highest level is exactly the largest number, which `Packing` sends as
    # the scale.
    levels *= largest
    levels /= steps
    magnitude[:] = levels


def quantise_arrays(update: Vector, ends: NDArray[np.int64], bits: int, draw: np.random.Generator) -> Vector:
    """Return what `quantise` makes of one array after another, which end at ``ends``, in fewer calls."""
    starts = np.concatenate([[0], ends[:-1]])
    magnitude: Vector = np.abs(update)
    largest = np.maximum.reduceat(magnitude, starts) if (ends > starts).all() else np.zeros(1, np.float32)
    if not (np.isfinite(largest) & (largest > 0)).all():
        return np.concatenate([quantise(part, bits, draw) for part in np.split(update, ends[:-1])])
    scales, steps = np.repeat(largest.astype(np.float64), ends - starts), 2 ** (bits - 1) - 1
    for at in range(0, len(update), BLOCK):
        _round(magnitude[at : at + BLOCK], scales[at : at + BLOCK], steps, draw)
    return np.copysign(magnitude, update, out=magnitude)


def quantised_bits(parameters: int, bits: int, arrays: int) -> int:
    """Return the bits of one update of ``parameters`` numbers in ``arrays`` arrays.

    A scale of 32 bits is sent with each array, unless the numbers have 32 bits themselves.
    """
    scales = 0 if _checked_bits(bits) == UNQUANTISED else FLOAT_BITS * whole("arrays", arrays)
    return whole("parameters", parameters) * bits + scales


def _checked_bits(bits: int) -> int:
    return whole("bits", bits, FEWEST_BITS, UNQUANTISED)


def link_slots_of(parameters: int, bits: int, bits_per_slot: int, arrays: int = 1) -> int:
    """Return the slots r of one update, ceil(bits of the update / rate)."""
    return -(-quantised_bits(parameters, bits, arrays) // whole("bits_per_slot", bits_per_slot))


class Packing:
    """Encoding of a model's updates as bytes: a scale for each array, then ``bits`` bits a number.

    A number is a sign and a level; its array's scale is the largest magnitude in it, which `quantise` does
    not change. Unpacking gives the quantised update to the bit. An array with a number that is not finite
    has a scale that is not finite, and unpacks to numbers that are not finite.
    """

    def __init__(self, ends: NDArray[np.int64], bits: int) -> None:
        self._bits, self._steps = bits, 2 ** (bits - 1) - 1
        starts = [0, *ends.tolist()]
        self._parts = [slice(start, end) for start, end in pairwise(starts)]
        self._count = starts[-1]
        self._head = SCALE.itemsize * len(ends)
        self.size = self._head + -(-self._count * bits // 8)
        """Length of a packed update in bytes."""

    def pack(self, update: Vector) -> bytes:
        """Return the bytes of an update that was quantised with the same number of bits."""
        scales = np.array([np.abs(update[part]).max(initial=0.0) for part in self._parts], dtype=SCALE)
        codes = np.signbit(update).astype(np.uint32) << np.uint32(self._bits - 1)
        for part, scale in zip(self._parts, scales.tolist(), strict=True):
            if 0 < scale < inf:
                # A quantised number is a level rounded to float32. The nearest level unpacks to the same.
                levels = np.rint(np.abs(update[part]).astype(np.float64) / scale * self._steps)
                codes[part] |= levels.astype(np.uint32)
        blocks = [_bits_of(codes[at : at + BLOCK], self._bits) for at in range(0, len(codes), BLOCK)]
        return b"".join([scales.tobytes(), *blocks])

    def unpack(self, packed: bytes) -> Vector:
        """Return the update in ``packed``, which must have the right `size`."""
        scales = np.frombuffer(packed[: self._head], dtype=SCALE)
        raw = np.frombuffer(packed, dtype=np.uint8, offset=self._head)
        blocks = [
            _codes_of(raw[at * self._bits // 8 :], min(BLOCK, self._count - at), self._bits)
            for at in range(0, self._count, BLOCK)
        ]
        codes = np.concatenate(blocks)
        numbers = (codes & np.uint32(self._steps)).astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            for part, scale in zip(self._parts, scales.tolist(), strict=True):
                numbers[part] = numbers[part] * scale / self._steps  # in this order, as in `quantise`
            # The sign is the bit above those of the level.
            signs = np.where(codes > self._steps, -1.0, 1.0)
            update: Vector = np.copysign(numbers, signs).astype(np.float32)
        return update


def _bits_of(codes: NDArray[np.uint32], bits: int) -> bytes:
    """Return the last ``bits`` bits of every code, one after another."""
    if bits in WHOLE_BYTES:
        return codes.astype(WHOLE_BYTES[bits]).tobytes()
    # Big-endian, so that a row has the highest bit first and the code is its last columns.
    rows = np.unpackbits(codes.astype(">u4").view(np.uint8).reshape(-1, 4), axis=1)
    return np.packbits(rows[:, 32 - bits :]).tobytes()


def _codes_of(packed: NDArray[np.uint8], count: int, bits: int) -> NDArray[np.uint32]:
    """Return the first ``count`` codes in ``packed``."""
    if bits in WHOLE_BYTES:
        return np.frombuffer(packed, dtype=WHOLE_BYTES[bits], count=count).astype(np.uint32)
    found = np.unpackbits(packed[: -(-count * bits // 8)], count=count * bits)
    rows = np.zeros((count, 32), dtype=np.uint8)
    rows[:, 32 - bits :] = found.reshape(-1, bits)
    return np.packbits(rows, axis=1).view(">u4").reshape(-1).astype(np.uint32)
