"""Batching: which of its samples a device uses in each step of a local training.

Batches are positions among the samples of a device. They are a function of (seed, device, training), and of
the epoch where samples are shuffled epoch by epoch, so any number of workers gets the same ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError
from slotwise.learning.randomness import draw_batches, draw_order
from slotwise.learning.task import TrainingStart
from slotwise.options import Either, Range
from slotwise.options.checks import LARGEST, Value

Positions = NDArray[np.int64]
Lengths = NDArray[np.int64]
Count = Annotated[int, Range(least=1, most=LARGEST)]


class Batching(Value, ABC):
    """Number of batches of a local training, and the samples in each.

    Attributes:
        option: The option that says how long a local training is.
        draws_each: True if every batch is drawn from all samples, whatever was in the batches before.
    """

    option: ClassVar[str]
    draws_each: bool = False

    @property
    def amount(self) -> int:
        """The value of its option."""
        return int(getattr(self, self.option))

    @abstractmethod
    def steps(self, samples: int, batch_size: int) -> int:
        """Return the steps of a training of a device that holds so many samples."""

    def lengths(self, samples: int, batch_size: int) -> Lengths:
        """Return the samples of each step."""
        return np.resize(self._epoch(samples, batch_size), self.steps(samples, batch_size))

    def processed(self, samples: int, batch_size: int) -> int:
        """Return the samples of all steps together; those that are used twice count twice."""
        epoch, steps = self._epoch(samples, batch_size), self.steps(samples, batch_size)
        whole, rest = divmod(steps, len(epoch))
        return whole * int(epoch.sum()) + int(epoch[:rest].sum())

    def batches(self, seed: int, start: TrainingStart, samples: int, batch_size: int) -> Sequence[Positions]:
        """Return the positions of the samples of each step, without replacement until an epoch ends."""
        return list(self._shuffled(seed, start, samples, batch_size))

    def check(self, samples: int, batch_size: int, device: int) -> None:
        """Refuse a device that would have no batch."""

    def _epoch(self, samples: int, batch_size: int) -> Lengths:
        """Return the samples of each batch of one epoch: the last one may be short."""
        full, rest = divmod(samples, batch_size)
        return np.array([batch_size] * full + [rest] * (rest > 0), dtype=np.int64)

    def _shuffled(self, seed: int, start: TrainingStart, samples: int, size: int) -> Iterator[Positions]:
        in_epoch, order = len(self._epoch(samples, size)), np.empty(0, dtype=np.int64)
        for step, length in enumerate(self.lengths(samples, size).tolist()):
            epoch, place = divmod(step, in_epoch)
            if place == 0:
                order = draw_order(seed, start.device, start.training, epoch, samples)
            yield order[place * size : place * size + length]


@dataclass(frozen=True, kw_only=True)
class FixedSteps(Batching):
    """A given number of steps, however many samples the device holds.

    Attributes:
        local_steps: H, steps of one local training.
        batch_sampling: Samples of a step: drawn from all samples of the device, whatever was used before
            (independent), or the next ones of a random order, which is drawn anew when all were used
            (without-replacement).
    """

    option: ClassVar[str] = "local_steps"
    local_steps: Count = 5
    batch_sampling: Literal["independent", "without-replacement"] = "independent"

    @property
    def draws_each(self) -> bool:  # type: ignore[override]
        """True if every batch is drawn from all samples."""
        return self.batch_sampling == "independent"

    def steps(self, samples: int, batch_size: int) -> int:  # noqa: ARG002
        """Return the steps, which are the same for any number of samples."""
        return self.local_steps

    def batches(self, seed: int, start: TrainingStart, samples: int, batch_size: int) -> Sequence[Positions]:
        """Return the positions of the samples of each step; an array if each is drawn from all samples."""
        if not self.draws_each:
            return super().batches(seed, start, samples, batch_size)
        return draw_batches(seed, start.device, start.training, samples, self.local_steps, batch_size)  # type: ignore[return-value]

    def _epoch(self, samples: int, batch_size: int) -> Lengths:
        # A device with fewer samples than a batch uses all of them in every step.
        if self.draws_each:
            return np.array([min(samples, batch_size)])
        return super()._epoch(samples, batch_size)


@dataclass(frozen=True, kw_only=True)
class Epochs(Batching):
    """Passes over all samples of the device, each in a random order of its own.

    Attributes:
        local_epochs: E, passes over the samples of a device in one local training. Instead of --local-steps.
        last_batch: Last batch of a pass, if the samples are no multiple of the batch size: the samples that
            are left (short), or dropped.
    """

    option: ClassVar[str] = "local_epochs"
    local_epochs: Count
    last_batch: Literal["short", "dropped"] = "short"

    def steps(self, samples: int, batch_size: int) -> int:
        """Return the steps of all epochs."""
        return self.local_epochs * len(self._epoch(samples, batch_size))

    def check(self, samples: int, batch_size: int, device: int) -> None:
        """Refuse a device whose only batch would be dropped."""
        if self.last_batch == "dropped" and samples < batch_size:
            held = f"device {device} holds {samples:,} samples, less than a batch of {batch_size:,}"
            raise InputError("last_batch", self.last_batch, f"short: {held}")

    def _epoch(self, samples: int, batch_size: int) -> Lengths:
        lengths = super()._epoch(samples, batch_size)
        return lengths if self.last_batch == "short" else lengths[: samples // batch_size]


BatchingOptions = Annotated[FixedSteps | Epochs, Either((FixedSteps, Epochs))]
