"""The curves of one schedule: global loss and accuracy against slots, loss against rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from slotwise.batch.job import Run
from slotwise.data import DataName
from slotwise.paper.lines import data_title, drawn, run_line
from slotwise.paper.results import Results
from slotwise.report.curves.panels import CurveFigure, loss_and_accuracy
from slotwise.runs import RunConfig

TITLES = {
    "async": "Asynchronous, without intentional delay",
    "idfl": "With intentional delay (idfl)",
}


@dataclass(frozen=True, kw_only=True)
class ScheduleCurves:
    """Algorithm 1 or 2 with every group size (the figures "Performance of asynchronous FL" and "… of IDFL").

    Attributes:
        schedule: without intentional delay, or with it.
        data: the data set; everything not said here is the paper's case for it.
        group_sizes: S, one curve each.
        deadline: T, slots.
        evaluate_every: slots between points of a curve; None is the run's own default.
    """

    schedule: Literal["async", "idfl"]
    data: DataName = "mnist"
    group_sizes: tuple[int, ...] = (1, 5, 10, 25, 50, 100)
    deadline: int = 50_000
    evaluate_every: int | None = None

    @property
    def name(self) -> str:
        """As on the command line."""
        return f"{self.schedule}-{self.data}"

    @property
    def study(self) -> str:
        """The experiments that share runs with this one."""
        return self.data

    def parameters(self, group_size: int, seed: int) -> RunConfig:
        """Of one curve."""
        return RunConfig.from_options(
            {
                "data": self.data,
                "schedule": self.schedule,
                "group_size": group_size,
                "deadline": self.deadline,
                "evaluate_every": self.evaluate_every,
                "seed": seed,
            }
        )

    def runs(self, seed: int) -> tuple[Run, ...]:
        """What has to be trained."""
        return tuple(Run.of(self.parameters(size, seed)) for size in self.group_sizes)

    def figure(self, results: Results, seeds: Sequence[int]) -> CurveFigure:
        """The curves there are so far."""
        lines = drawn([run_line(results, self.parameters(size, 0), seeds) for size in self.group_sizes])
        return CurveFigure(
            self.name,
            f"{TITLES[self.schedule]}: {data_title(self.data)}",
            "S devices send in a round; d is the staleness of their updates, in rounds.",
            loss_and_accuracy(lines),
        )
