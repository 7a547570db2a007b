"""Evidence: the trained curves that the claims are judged on, read from a folder of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from slotwise.batch.job import Run, free_delay
from slotwise.learning import Point
from slotwise.paper.experiments import Slots
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.run_folder import Status, final_loss
from slotwise.schedule import Schedule


@dataclass(frozen=True)
class Curve:
    """The status of a run and its evaluations so far."""

    run: Run
    status: Status | Literal["missing"]
    points: Sequence[Point] = ()

    @property
    def finished(self) -> bool:
        """True if the run reached its deadline."""
        return self.status == "finished"


class Results(Protocol):
    """A source of curves: a folder, or a test."""

    def curve(self, run: Run) -> Curve:
        """Return the curve of a run; it has no points if the run is missing."""


class FolderResults:
    """The curves in a folder of run folders, each read once."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self.curve = cache(self._curve)

    def description(self, run: Run) -> dict[str, Any]:
        """Return the run.json of a run; empty if it is missing."""
        folder = RunFolder(self._runs / run.name)
        return folder.description() if folder.is_run else {}

    def _curve(self, run: Run) -> Curve:
        folder = RunFolder(self._runs / run.name)
        if not folder.is_run:
            return Curve(run, "missing")
        return Curve(run, folder.status, tuple(folder.points()))


def seed_curves(results: Results, config: RunConfig, seeds: Sequence[int]) -> list[Curve]:
    """Return the curve of a run with each of the seeds."""
    return [results.curve(Run.of(config.with_options(seed=seed))) for seed in seeds]


class Missing(Exception):
    """A needed run is missing, unfinished or diverged; the message names it."""


@dataclass(frozen=True)
class Evidence:
    """The curves of one reading of the paper.

    Attributes:
        base: what all runs have in common: data, deadline, slots, network.
        group_sizes: S of the runs, ascending.
        slow_links: compute slots and slow link slots of the S=1 runs that are compared with link slots of 1.
        seeds: seeds of the runs.
        results: where the curves come from.
    """

    base: RunConfig
    group_sizes: tuple[int, ...]
    slow_links: tuple[Slots, ...]
    seeds: Sequence[int]
    results: Results

    def curves(self, schedule: Schedule, group_size: int, slots: Slots | None = None) -> list[Curve]:
        """Return the finished curves, one for each seed.

        Args:
            schedule: async or idfl.
            group_size: S.
            slots: compute and link slots, if they are not those of the base.

        Raises:
            Missing: a run is not finished.
        """
        compute, link = slots or (self.base.channel.compute_slots, self.base.channel.link_slots)
        config = self.base.with_options(
            schedule=schedule, group_size=group_size, compute_slots=compute, link_slots=link
        )
        curves = seed_curves(self.results, config, self.seeds)
        for curve in curves:
            if not curve.finished:
                raise Missing(f"{curve.run.name} is {curve.status}")
        return curves

    def final(self, schedule: Schedule, group_size: int, slots: Slots | None = None) -> list[float]:
        """Return the final losses, one for each seed."""
        curves = self.curves(schedule, group_size, slots)
        return [final_loss(curve.points, self.base.deadline) for curve in curves]

    def finals(self, schedule: Schedule) -> list[dict[int, float]]:
        """Return the final losses by group size, one table for each seed."""
        columns = {size: self.final(schedule, size) for size in self.group_sizes}
        return [{size: column[i] for size, column in columns.items()} for i in range(len(self.seeds))]

    def delayed_sizes(self) -> tuple[int, ...]:
        """Return the group sizes at which intentional delay changes anything."""
        channels = {size: self.base.with_options(group_size=size).channel for size in self.group_sizes}
        return tuple(size for size, channel in channels.items() if free_delay(channel) > 0)
