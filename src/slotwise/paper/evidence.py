"""Evidence: the curves the claims are judged on, and how their figures are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slotwise.batch.job import free_delay
from slotwise.paper.judgement import lowest
from slotwise.paper.results import Curve, Results, seed_curves
from slotwise.runs import RunConfig
from slotwise.runs.statistics import final_loss
from slotwise.schedule import Schedule


class Missing(Exception):
    """A figure cannot be had: the message says which run is missing, unfinished or diverged."""


@dataclass(frozen=True)
class Evidence:
    """The curves of one reading of the paper.

    Attributes:
        base: what all runs have in common: data, deadline, slots, network.
        group_sizes: those that were run, ascending.
        slow_links: (compute slots, slow link slots) of the S=1 runs that are compared with link slots of 1.
        seeds: those that were run.
        results: where the curves are.
    """

    base: RunConfig
    group_sizes: tuple[int, ...]
    slow_links: tuple[tuple[int, int], ...]
    seeds: Sequence[int]
    results: Results

    def curves(
        self, schedule: Schedule, group_size: int, slots: tuple[int, int] | None = None
    ) -> list[Curve]:
        """One for each seed, all finished; ``slots`` are compute and link slots other than the base's.

        Raises:
            Missing: one is not finished.
        """
        compute, link = slots or (self.base.channel.compute_slots, self.base.channel.link_slots)
        parameters = self.base.with_options(
            schedule=schedule, group_size=group_size, compute_slots=compute, link_slots=link
        )
        curves = seed_curves(self.results, parameters, self.seeds)
        for curve in curves:
            if not curve.finished:
                state = "not there" if curve.status == "missing" else curve.status
                raise Missing(f"{curve.run.name} is {state}")
        return curves

    def final(self, schedule: Schedule, group_size: int, slots: tuple[int, int] | None = None) -> list[float]:
        """Final losses, one for each seed."""
        curves = self.curves(schedule, group_size, slots)
        return [final_loss(curve.points, self.base.deadline) for curve in curves]

    def finals(self, schedule: Schedule) -> list[dict[int, float]]:
        """Final losses by group size, one table for each seed."""
        columns = {size: self.final(schedule, size) for size in self.group_sizes}
        return [{size: column[i] for size, column in columns.items()} for i in range(len(self.seeds))]

    def delayed_sizes(self) -> tuple[int, ...]:
        """The group sizes for which intentional delay changes anything."""
        return tuple(
            size
            for size in self.group_sizes
            if free_delay(self.base.with_options(group_size=size).channel) > 0
        )


def mean_text(values: Sequence[float]) -> str:
    """The mean over the seeds, to four digits or to the unit."""
    mean = float(np.mean(values))
    return f"{mean:.4g}" if abs(mean) < 1000 else f"{mean:,.0f}"


def best_text(finals: Sequence[dict[int, float]]) -> str:
    """The best group size of each seed, ties joined by a slash."""
    found = ["/".join(map(str, lowest(losses))) for losses in finals]
    return found[0] if len(set(found)) == 1 else ", ".join(found) + " (by seed)"


def sizes_text(schedule: Schedule, finals: Sequence[dict[int, float]]) -> str:
    """The mean final loss of every group size."""
    parts = (f"S={size} {mean_text([losses[size] for losses in finals])}" for size in finals[0])
    return f"{schedule}: " + ", ".join(parts)
