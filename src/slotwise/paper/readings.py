"""The readings: three things the paper leaves open, and which of them gives which claim."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from slotwise.batch.job import Run, distinct
from slotwise.data.dataset_config import InputScale
from slotwise.learning.local_sgd import LocalUpdate
from slotwise.runs import RunConfig
from slotwise.schedule import Schedule


class Network(NamedTuple):
    """A width of the network: channels of the convolutions, units of the dense layers before the last."""

    channels: tuple[int, ...]
    hidden: tuple[int, ...]


class Reading(NamedTuple):
    """One way to read the paper."""

    input_scale: InputScale
    update: LocalUpdate
    network: Network


@dataclass(frozen=True, kw_only=True)
class Readings:
    """Every reading on MNIST at a shorter deadline; the defaults everywhere else stay as they are.

    Attributes:
        input_scales: pixels standardised, or 0 to 1.
        updates: the local update as the sum of its gradients, or their mean.
        networks: widths of the network, the first the default.
        group_sizes: S, fewer than in the main figures.
        slots: compute and link slots of the runs with S=1.
        deadline: T, slots.
        evaluate_every: slots between points of a curve; None is the run's own default.
    """

    input_scales: tuple[InputScale, ...] = ("standard", "unit")
    updates: tuple[LocalUpdate, ...] = ("sum", "mean")
    networks: tuple[Network, ...] = (Network((10, 20), (50,)), Network((16, 32), (64,)))
    group_sizes: tuple[int, ...] = (1, 10, 50, 100)
    slots: tuple[tuple[int, int], ...] = ((50, 1), (50, 5))
    deadline: int = 10_000
    evaluate_every: int | None = 500

    name = "readings"
    study = "readings"

    def readings(self) -> tuple[Reading, ...]:
        """All combinations, the default first."""
        return tuple(Reading(*parts) for parts in product(self.input_scales, self.updates, self.networks))

    def parameters(
        self, reading: Reading, schedule: Schedule, group_size: int, slots: tuple[int, int], seed: int
    ) -> RunConfig:
        """Of one curve of one reading."""
        return RunConfig.from_options(
            {
                "input_scale": reading.input_scale,
                "update": reading.update,
                "channels": reading.network.channels,
                "hidden": reading.network.hidden,
                "schedule": schedule,
                "group_size": group_size,
                "compute_slots": slots[0],
                "link_slots": slots[1],
                "deadline": self.deadline,
                "evaluate_every": self.evaluate_every,
                "seed": seed,
            }
        )

    def runs(self, seed: int) -> tuple[Run, ...]:
        """What has to be trained."""
        both: tuple[Schedule, ...] = ("async", "idfl")
        cells = [(size, self.slots[0]) for size in self.group_sizes] + [(1, slots) for slots in self.slots]
        return distinct(
            [
                Run.of(self.parameters(reading, schedule, size, slots, seed))
                for reading in self.readings()
                for size, slots in cells
                for schedule in both
            ]
        )
