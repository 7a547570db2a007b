"""Quantised updates: fewer bits on the channel, more noise in the model.

FedPAQ (Reisizadeh, Mokhtari, Hassani, Jadbabaie and Pedarsani, "FedPAQ: A Communication-Efficient Federated
Learning Method with Periodic Averaging and Quantization", AISTATS 2020, arXiv:1909.13014) sends Q(w_start −
w_end) in place of the update, where Q is unbiased and E‖Q(x) − x‖² ≤ q‖x‖². Q is QSGD's (Alistarh, Grubic,
Li, Tomioka and Vojnovic, "QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding", NIPS
2017, arXiv:1610.02132).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.errors import InputError
from slotwise.learning.packing import Packing
from slotwise.learning.randomness import LARGEST_SEED, Purpose, generator
from slotwise.learning.task import Evaluation, Task
from slotwise.scenario import whole

UNQUANTISED = 32


class Quantised:
    """A task whose devices send every number of an update in ``bits`` bits; 32 bits leave it as it is.

    Each array of the model is scaled by its own largest number. The updates of one layer are alike in size,
    those of two layers are not, so one scale for the whole vector would leave the small layers few levels.
    The price is 32 bits an array.

    The largest number takes the place of the Euclidean length. It keeps QSGD's bound, q = min(n/s², √n/s) for
    n numbers and s levels, and uses all levels: in a layer of 16,000 numbers and 8 bits, one of average size
    is 1/126 of the length, which is level 1 of 127. What the length brings is zeros that a variable-length
    code makes short, and that is worth nothing where the slots of an uplink are fixed in advance.
    """

    def __init__(self, task: Task, bits: int, seed: int = 0) -> None:
        if not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
            raise InputError("seed", seed, f"a whole number from 0 to {LARGEST_SEED}")
        self._task, self.bits, self._seed = task, checked_bits(bits), seed
        self._ends = _array_ends(task)

    @property
    def packing(self) -> Packing | None:
        """How its updates travel; None as they are."""
        return None if self.bits == UNQUANTISED else Packing(self._ends, self.bits)

    def initial_model(self) -> Vector:
        """The task's."""
        return self._task.initial_model()

    def local_update(self, model: Vector, device: int, training: int) -> Vector:
        """What the server reads of the device's update."""
        update = self._task.local_update(model, device, training)
        if self.bits == UNQUANTISED:
            return update
        draw = generator(self._seed, Purpose.QUANTISATION, device, training)
        parts = np.split(update, self._ends[:-1])
        return np.concatenate([quantise(part, self.bits, draw) for part in parts])

    def evaluate(self, model: Vector) -> Evaluation:
        """The task's."""
        return self._task.evaluate(model)

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        """The task's."""
        return self._task.named_arrays(model)


def packing_of(task: Task) -> Packing | None:
    """How the updates of a task travel; None as they are."""
    return task.packing if isinstance(task, Quantised) else None


def quantise(numbers: Vector, bits: int, draw: np.random.Generator) -> Vector:
    """Each number rounded up or down at random to one of 2^bits − 1 levels, right on average.

    A sign and bits − 1 bits of magnitude give the levels 0, ±m/s, ±2m/s, …, ±m, where m is the largest
    magnitude and s = 2^(bits−1) − 1. A number x between two of them becomes the outer one with the
    probability that makes its mean x. An array with a number that is not finite comes through as it is, so
    that divergence is seen.
    """
    largest = float(np.abs(numbers).max(initial=0.0))
    if not 0 < largest < inf:
        return numbers
    steps = 2 ** (bits - 1) - 1
    exact = np.abs(numbers).astype(np.float64) / largest * steps
    lower = np.floor(exact)
    levels = lower + (draw.random(len(numbers)) < exact - lower)
    rounded: Vector = np.copysign(levels * largest / steps, numbers).astype(np.float32)
    return rounded


def checked_bits(bits: object) -> int:
    """``bits`` as an int from 2 (a sign and one bit) to 32 (float32 as it is), or an InputError."""
    try:
        number = whole("bits", bits, smallest=2)
    except InputError:
        number = 0
    if not 2 <= number <= UNQUANTISED:
        raise InputError("bits", bits, f"a whole number from 2 to {UNQUANTISED}")
    return number


def link_slots_of(parameters: int, bits: int, bits_per_slot: int, arrays: int = 1) -> int:
    """r: the slots of one update of ``parameters`` numbers, ceil((parameters·bits + scales) / rate), exact.

    ``arrays`` scales of 32 bits each go with the numbers, unless these are sent in 32 bits themselves.
    """
    numbers = whole("parameters", parameters) * checked_bits(bits)
    scales = whole("arrays", arrays) * 32 if bits != UNQUANTISED else 0
    return -(-(numbers + scales) // whole("bits_per_slot", bits_per_slot))


def _array_ends(task: Task) -> NDArray[np.int64]:
    """Where each array of the flat model ends."""
    model = task.initial_model()
    ends = np.cumsum([array.size for array in task.named_arrays(model).values()], dtype=np.int64)
    if not len(ends) or ends[-1] != len(model):
        raise ValueError("the task's named arrays are not the whole of its model")
    return ends
