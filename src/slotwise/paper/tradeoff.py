"""Computation against communication at S=1: what slow links cost in slots, and give in rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slotwise.batch.job import Run, distinct
from slotwise.paper.lines import drawn, run_line, staleness
from slotwise.paper.results import Results
from slotwise.report.curves.panels import BLUE, ORANGE, SKY, VERMILLION, CurveFigure, Line, Panel
from slotwise.runs import RunConfig
from slotwise.schedule import Schedule

BOTH: tuple[Schedule, ...] = ("async", "idfl")
PAIR_COLOURS = (BLUE, SKY, VERMILLION, ORANGE)  # a hue for each compute time, the lighter one for slow links


@dataclass(frozen=True, kw_only=True)
class Tradeoff:
    """S=1 on MNIST with fast and slow devices and links (the paper's last two figures).

    Attributes:
        slots: pairs of compute slots (tau_comp) and link slots (r), two curves each.
        deadline: T, slots.
        evaluate_every: slots between points of a curve; None is the run's own default.
    """

    slots: tuple[tuple[int, int], ...] = ((50, 1), (50, 5), (10, 1), (10, 5))
    deadline: int = 50_000
    evaluate_every: int | None = None

    name = "tradeoff"
    study = "mnist"

    def parameters(self, schedule: Schedule, compute_slots: int, link_slots: int, seed: int) -> RunConfig:
        """Of one curve."""
        return RunConfig.from_options(
            {
                "schedule": schedule,
                "group_size": 1,
                "compute_slots": compute_slots,
                "link_slots": link_slots,
                "deadline": self.deadline,
                "evaluate_every": self.evaluate_every,
                "seed": seed,
            }
        )

    def runs(self, seed: int) -> tuple[Run, ...]:
        """What has to be trained."""
        return distinct(
            [Run.of(self.parameters(schedule, *pair, seed)) for pair in self.slots for schedule in BOTH]
        )

    def figure(self, results: Results, seeds: Sequence[int]) -> CurveFigure:
        """Against slots and against rounds, as far as there are curves."""
        lines = drawn(
            [
                self._line(results, seeds, schedule, number)
                for number in range(len(self.slots))
                for schedule in BOTH
            ]
        )
        return CurveFigure(
            self.name,
            "Computation against communication at S=1: MNIST",
            "Compute slots of one local training, and r, the slots of one uplink or broadcast. "
            "Dashed: async; solid: idfl with the free delay.",
            (
                Panel("Loss against slots", "slot", "loss", lines),
                Panel("Loss against rounds", "round", "loss", lines),
            ),
        )

    def _line(self, results: Results, seeds: Sequence[int], schedule: Schedule, number: int) -> Line:
        compute, link = self.slots[number]
        parameters = self.parameters(schedule, compute, link, 0)
        label = f"{schedule}, compute {compute}, r={link}, d={staleness(parameters)}"
        colour = PAIR_COLOURS[number % len(PAIR_COLOURS)]
        return run_line(results, parameters, seeds, label=label, colour=colour, dashed=schedule == "async")
