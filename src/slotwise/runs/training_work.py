"""Compute slots from the data: the samples that each device processes in a local training.

They follow from the options of data and local training alone, before anything is trained.
"""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass
from typing import Any, Self

from slotwise.data import DataOptions, PartitionedData
from slotwise.learning.local_training import LocalTraining
from slotwise.learning.randomness import Purpose, generator
from slotwise.options import build, declared
from slotwise.options.checks import whole
from slotwise.setting.shorthands import Cpu, SamplesPerSlot, TrainingWork


@dataclass(frozen=True, kw_only=True)
class TrainedData:
    """The parts of a run that decide how many samples a local training processes."""

    dataset: DataOptions = PartitionedData()  # noqa: RUF009
    training: LocalTraining = LocalTraining()  # noqa: RUF009

    @classmethod
    def of(cls, known: ChainMap[str, Any]) -> Self:
        """Build the parts from the options of a run."""
        given, usual = ({n: v for n, v in part.items() if n in declared(cls)} for part in known.maps[:2])
        return build(cls, given, start=build(cls, usual, lenient=True))

    @property
    def data_seed(self) -> int:
        """Random seed of the partition."""
        return self.training.seed if self.dataset.data_seed is None else self.dataset.data_seed

    def device_sizes(self, devices: int) -> tuple[int, ...]:
        """Return the number of samples of each device; the data are loaded only if they decide it."""
        self.dataset.check_devices(devices)
        return self.dataset.device_sizes(devices, generator(self.data_seed, Purpose.PARTITION))

    def work(self, devices: int) -> TrainingWork:
        """Return the samples that each device processes in a local training."""
        training, sizes = self.training, self.device_sizes(devices)
        first, *later = (
            tuple(training.batching.processed(held, size) for held in sizes) for size in training.batch_sizes
        )
        slots = [slot for slot, _ in training.batch_size_changes]
        changes = tuple(zip(slots, later, strict=True)) if set(later) - {first} else ()
        # With the sizes of another seed the same compute slots would be wrong.
        fixed = {"data_seed": self.data_seed} if self.dataset.draws_sizes else {}
        return TrainingWork(first, changes, fixed)


class _FromData:
    """A shorthand of a run, which has data and local training."""

    def work(self, known: ChainMap[str, Any]) -> TrainingWork:
        """Return the samples that each device processes in a local training."""
        return TrainedData.of(known).work(whole("devices", known["devices"]))


class RunSamplesPerSlot(_FromData, SamplesPerSlot):
    """A device's speed in samples, of devices that hold the data of a run."""


class RunCpu(_FromData, Cpu):
    """A device's speed in cycles of its CPU, of devices that hold the data of a run."""
