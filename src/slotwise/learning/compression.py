"""Compressors: what devices send in place of their updates, and the bits that this takes.

The bits of an update are known before it is: the slots of uplinks follow from them, and the schedule stays a
value. Where ``bits`` are fewer than 32, the numbers that are sent are quantised as well.

A compressor with error feedback adds what it did not send to the device's next update (Stich, Cordonnier and
Jaggi, "Sparsified SGD with Memory", NeurIPS 2018, arXiv:1809.07599). The rest is a state of the device.

To add a compressor, write a subclass of `Compressor` and name it in `COMPRESSORS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.base.user_code import describe_value, user_errors
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.quantisation import UNQUANTISED, Quantised, quantise, quantised_bits
from slotwise.learning.randomness import LARGEST_SEED, Purpose, generator
from slotwise.learning.task import FLOAT_BITS, Task, TaskWrapper, TrainingResult, TrainingStart, update_of
from slotwise.options import Choice, Range, loaded
from slotwise.options.checks import Value, whole

REST = "compressor rest"  # in the state of a device
Feedback = Literal["on", "off"]


@dataclass(frozen=True)
class NoCompression:
    """The usual case: all numbers are sent, each in ``bits`` bits."""

    quantises: ClassVar[bool] = True

    def update_bits(self, sizes: Sequence[int], bits: int) -> int:
        """Return the bits of an update whose arrays have these sizes."""
        return quantised_bits(sum(sizes), bits, len(sizes))

    def compressed(self, task: Task, bits: int, seed: int) -> Task:
        """Return the task with quantised updates."""
        return task if bits == UNQUANTISED else Quantised(task, bits, seed)


@dataclass(frozen=True, kw_only=True)
class Compressor(Value, ABC):
    """Base class of the compressors: an update is sent in a shorter form.

    Attributes:
        error_feedback: Add what is not sent to the device's next update.
    """

    quantises: ClassVar[bool] = True  # numbers are sent in ``bits`` bits

    error_feedback: Feedback = "off"

    @property
    def remembers(self) -> bool:
        """True with error feedback."""
        return self.error_feedback == "on"

    @abstractmethod
    def update_bits(self, sizes: Sequence[int], bits: int) -> int:
        """Return the bits of an update whose arrays have these sizes."""

    @abstractmethod
    def sent(self, update: Vector, sizes: Sequence[int], bits: int, draw: np.random.Generator) -> Vector:
        """Return a finite update as the server decodes it; random numbers come from ``draw``."""

    def compressed(self, task: Task, bits: int, seed: int) -> Task:
        """Return the task with compressed updates."""
        return Compressed(task, self, bits, seed)


@dataclass(frozen=True, kw_only=True)
class _Sparse(Compressor):
    """Some of the numbers are sent.

    Attributes:
        kept_share: Numbers that are sent, k, as a share of all.
    """

    kept_share: Annotated[float, Range(above=0, most=1)] = 0.01

    def kept(self, size: int) -> int:
        """Return how many of ``size`` numbers are sent, at least one."""
        return max(1, round(self.kept_share * size))

    def value_bits(self, size: int, bits: int) -> int:
        """Return the bits of the numbers that are sent; quantised ones have one scale."""
        return quantised_bits(self.kept(size), bits, 1)


@dataclass(frozen=True, kw_only=True)
class TopK(_Sparse):
    """Send the k numbers of largest magnitude and their places; of equal ones, the first.

    A place is ⌈log2 P⌉ bits of P numbers, or all places are a mask of P bits if that is shorter.
    """

    error_feedback: Feedback = "on"

    def update_bits(self, sizes: Sequence[int], bits: int) -> int:
        """Return the bits of k numbers and their places."""
        size = sum(sizes)
        places = min(self.kept(size) * (size - 1).bit_length(), size)
        return self.value_bits(size, bits) + places

    def sent(self, update: Vector, sizes: Sequence[int], bits: int, draw: np.random.Generator) -> Vector:  # noqa: ARG002
        """Return the update with zeros for all but its k largest numbers."""
        magnitude, least = np.abs(update), len(update) - self.kept(len(update))
        smallest = np.partition(magnitude, least)[least]
        chosen = magnitude > smallest
        chosen[np.flatnonzero(magnitude == smallest)[: len(update) - least - chosen.sum()]] = True
        return _only(update, np.flatnonzero(chosen), bits, draw)


@dataclass(frozen=True, kw_only=True)
class RandomK(_Sparse):
    """Send k numbers at random places, times P/k: the mean is the update.

    The server draws the same places from the seed, so they take no bits. With error feedback the numbers are
    sent as they are.
    """

    def update_bits(self, sizes: Sequence[int], bits: int) -> int:
        """Return the bits of k numbers."""
        return self.value_bits(sum(sizes), bits)

    def sent(self, update: Vector, sizes: Sequence[int], bits: int, draw: np.random.Generator) -> Vector:  # noqa: ARG002
        """Return the update with zeros for all but k numbers."""
        count = self.kept(len(update))
        places = np.sort(draw.choice(len(update), count, replace=False, shuffle=False))
        scale = np.float32(1 if self.remembers else len(update) / count)
        return _only(update * scale, places, bits, draw)


@dataclass(frozen=True, kw_only=True)
class Sign(Compressor):
    """Send a sign of each number and the mean magnitude of each array.

    Karimireddy, Rebjock, Stich and Jaggi, "Error Feedback Fixes SignSGD and other Gradient Compression
    Schemes", ICML 2019, arXiv:1901.09847, Algorithm 1, with a scale for each array.
    """

    quantises: ClassVar[bool] = False

    error_feedback: Feedback = "on"

    def update_bits(self, sizes: Sequence[int], bits: int) -> int:  # noqa: ARG002
        """Return a bit for each number and 32 for each array."""
        return sum(sizes) + FLOAT_BITS * len(sizes)

    def sent(self, update: Vector, sizes: Sequence[int], bits: int, draw: np.random.Generator) -> Vector:  # noqa: ARG002
        """Return the mean magnitude of each array with the signs of its numbers."""
        parts = np.split(update, np.cumsum(sizes)[:-1])
        scales = [np.float32(np.abs(part).mean(dtype=np.float64)) if part.size else 0 for part in parts]
        return np.copysign(np.repeat(np.array(scales, np.float32), sizes), update)


@dataclass(frozen=True, kw_only=True)
class OwnCompressor(Compressor):
    """A function of the user's: of an update and a random generator, it returns what is sent and its bits.

    The bits must be the same for every update: the slots of uplinks follow from them.
    """

    quantises: ClassVar[bool] = False

    function: Callable[..., Any]
    name: str
    planned: dict[int, int] = field(default_factory=dict, compare=False, repr=False)  # bits by numbers

    def update_bits(self, sizes: Sequence[int], bits: int) -> int:  # noqa: ARG002
        """Return the bits of an update of random numbers."""
        draw = generator(0, Purpose.COMPRESSION)
        return self._call(draw.standard_normal(sum(sizes)).astype(np.float32), draw)[1]

    def sent(self, update: Vector, sizes: Sequence[int], bits: int, draw: np.random.Generator) -> Vector:
        """Return the update that the function returns."""
        sent, used = self._call(update, draw)
        if len(update) not in self.planned:
            self.planned[len(update)] = self.update_bits(sizes, bits)
        if used != (planned := self.planned[len(update)]):
            raise UserError(f"compressor {self.name}: took {used} bits; another update took {planned}")
        return sent

    def _call(self, update: Vector, draw: np.random.Generator) -> tuple[Vector, int]:
        with user_errors(f"compressor {self.name}"):
            found = self.function(update, draw)
        if isinstance(found, tuple) and len(found) == 2:
            sent, used = np.asarray(found[0]), found[1]
            if sent.shape == update.shape and sent.dtype.kind == "f" and isinstance(used, int) and used > 0:
                return sent.astype(np.float32), used
        wanted = f"an array of {len(update)} numbers and its bits; it returned {describe_value(found)}"
        raise UserError(f"compressor {self.name}: must return {wanted}")


COMPRESSORS: Mapping[str, type[NoCompression | Compressor]] = {
    "none": NoCompression,
    "top-k": TopK,
    "random-k": RandomK,
    "sign": Sign,
}
COMPRESSOR = Choice("compressor", COMPRESSORS, own=(2,))
CompressorChoice = Annotated[Any, COMPRESSOR]
"""A compressor of a run: a value of one of the classes above, or a `UserFunction`."""


def compressor_of(chosen: Any) -> NoCompression | Compressor:
    """Return the compressor that was chosen; a function of the user's is imported."""
    if isinstance(chosen, NoCompression | Compressor):
        return chosen
    return OwnCompressor(function=loaded(chosen), name=COMPRESSOR.name_of(chosen) or describe_value(chosen))


class Compressed(TaskWrapper):
    """A task whose devices send compressed updates, with error feedback if the compressor has it."""

    def __init__(self, task: Task, compressor: Compressor, bits: int = UNQUANTISED, seed: int = 0) -> None:
        super().__init__(CheckedTask.of(task))
        self._compressor, self._bits = compressor, bits
        self._seed = whole("seed", seed, 0, LARGEST_SEED)
        self._sizes = [array.size for array in self.named_arrays(self.initial_model()).values()]

    @cached_property
    def update_bits(self) -> int:
        """Bits of one update."""
        return self._compressor.update_bits(self._sizes, self._bits)

    def _as_sent(self, result: Vector | TrainingResult, start: TrainingStart) -> Vector | TrainingResult:
        update = update_of(result)
        if self._compressor.remembers and REST in start.state:
            update = update + start.state[REST]
        if not np.isfinite(update).all():
            return result  # divergence is noticed, not compressed
        draw = generator(self._seed, Purpose.COMPRESSION, start.device, start.training)
        sent = self._compressor.sent(update, self._sizes, self._bits, draw)
        whole_result = result if isinstance(result, TrainingResult) else TrainingResult(sent)
        if self._compressor.remembers:
            return whole_result._replace(update=sent, state={**whole_result.state, REST: update - sent})
        return whole_result._replace(update=sent) if isinstance(result, TrainingResult) else sent


def _only(update: Vector, places: Any, bits: int, draw: np.random.Generator) -> Vector:
    """Return zeros with the numbers of some places, quantised if ``bits`` are fewer than 32."""
    sent, numbers = np.zeros_like(update), update[places]
    sent[places] = numbers if bits == UNQUANTISED else quantise(numbers, bits, draw)
    return sent
