"""Asynchronous against intentional delay, group size by group size."""

from __future__ import annotations

from dataclasses import dataclass

from slotwise.experiments.run import Run, distinct
from slotwise.runs import RunParameters, run_parameters
from slotwise.runs.parameters import DataName, PartitionName
from slotwise.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Algorithms 1 and 2 side by side (the paper's figure "Comparison of global loss").

    Attributes:
        data: the data set; everything not said here is the paper's case for it.
        partition: which samples a device holds.
        group_sizes: S, one pair of curves each.
        deadline: T, slots.
        evaluate_every: slots between points of a curve; None is the run's own default.
    """

    data: DataName = "mnist"
    partition: PartitionName = "one-label"
    group_sizes: tuple[int, ...] = (1, 5, 10, 25, 50, 100)
    deadline: int = 50_000
    evaluate_every: int | None = None

    @property
    def name(self) -> str:
        """As on the command line."""
        return f"comparison-{self.study}"

    @property
    def study(self) -> str:
        """The experiments that share runs with this one."""
        return self.data if self.partition == "one-label" else f"{self.data}-{self.partition}"

    def parameters(self, schedule: Schedule, group_size: int, seed: int) -> RunParameters:
        """Of one curve."""
        return run_parameters(
            {
                "data": self.data,
                "partition": self.partition,
                "schedule": schedule,
                "group_size": group_size,
                "deadline": self.deadline,
                "evaluate_every": self.evaluate_every,
                "seed": seed,
            }
        )

    def runs(self, seed: int) -> tuple[Run, ...]:
        """What has to be trained."""
        both: tuple[Schedule, ...] = ("async", "idfl")
        return distinct(
            [Run.of(self.parameters(schedule, size, seed)) for schedule in both for size in self.group_sizes]
        )
