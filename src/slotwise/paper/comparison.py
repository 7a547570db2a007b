"""Asynchronous against intentional delay, group size by group size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slotwise.batch.job import Run, distinct
from slotwise.data import DataName, PartitionName
from slotwise.paper.lines import data_title, drawn, run_line, staleness
from slotwise.paper.results import Results
from slotwise.report.curves.panels import CurveFigure, Panel
from slotwise.runs import RunConfig
from slotwise.schedule import Schedule

BOTH: tuple[Schedule, ...] = ("async", "idfl")


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

    def parameters(self, schedule: Schedule, group_size: int, seed: int) -> RunConfig:
        """Of one curve."""
        return RunConfig.from_options(
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
        return distinct(
            [Run.of(self.parameters(schedule, size, seed)) for schedule in BOTH for size in self.group_sizes]
        )

    def figure(self, results: Results, seeds: Sequence[int]) -> CurveFigure:
        """A panel for each group size at which a delay is free, as far as there are curves."""
        panels = [self._panel(results, seeds, size) for size in self.group_sizes if self._differs(size)]
        same = ", ".join(f"S={size}" for size in self.group_sizes if not self._differs(size))
        iid = ", IID data" if self.partition == "iid" else ""
        return CurveFigure(
            self.name,
            f"Asynchronous against intentional delay: {data_title(self.data)}{iid}",
            f"The same S in each panel, without and with the free delay. No delay is free at {same}: "
            "there both schedules are one and the same run.",
            tuple(panel for panel in panels if panel.lines),
        )

    def _differs(self, size: int) -> bool:
        return Run.of(self.parameters("idfl", size, 0)) != Run.of(self.parameters("async", size, 0))

    def _panel(self, results: Results, seeds: Sequence[int], size: int) -> Panel:
        without, with_delay = (self.parameters(schedule, size, 0) for schedule in BOTH)
        lines = (
            run_line(results, without, seeds, label=f"S={size} async, d={staleness(without)}", dashed=True),
            run_line(results, with_delay, seeds, label=f"S={size} idfl, d={staleness(with_delay)}"),
        )
        return Panel(f"S={size}", "slot", "loss", drawn(lines))
