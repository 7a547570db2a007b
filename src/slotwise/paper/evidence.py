"""Evidence: the trained curves that the claims are judged on, read from a folder of runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any, Literal

from slotwise.batch.job import Run, free_delay
from slotwise.learning import Point
from slotwise.paper.criteria import COLLAPSED
from slotwise.paper.experiments import Slots
from slotwise.runs import RunConfig, SavedRun
from slotwise.runs.saved_run import Status, final_accuracy, final_loss
from slotwise.schedule import Schedule

ENDED = frozenset({"finished", "diverged"})


@dataclass(frozen=True)
class Curve:
    """The status of a run and its evaluations so far."""

    run: Run
    status: Status | Literal["missing"]
    points: Sequence[Point] = ()


class Results:
    """The curves in a folder of run folders, each read once."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._curves: dict[Run, Curve] = {}

    def curve(self, run: Run) -> Curve:
        """Return the curve of a run; it has no points if the run is missing."""
        if run not in self._curves:
            saved = SavedRun.find(self._runs / run.name)
            # The name of a run does not say all options: a folder with others is no evidence.
            if saved is None or saved.config != run.config:
                self._curves[run] = Curve(run, "missing")
            else:
                self._curves[run] = Curve(run, saved.status, saved.points)
        return self._curves[run]

    def description(self, run: Run) -> dict[str, Any]:
        """Return the run.json of a run; empty if it is missing."""
        saved = SavedRun.find(self._runs / run.name)
        return {} if saved is None else dict(saved.description)


def seed_curves(results: Results, config: RunConfig, seeds: Sequence[int]) -> list[Curve]:
    """Return the curve of a run with each of the seeds."""
    return [results.curve(Run.of(config.with_options(seed=seed))) for seed in seeds]


def has_collapsed(curve: Curve, deadline: int) -> bool:
    """Return whether a run diverged, or its model is little better than guessing at the end."""
    return curve.status == "diverged" or final_accuracy(curve.points, deadline) < COLLAPSED


def ended_seeds(
    results: Results, runs: Callable[[int], Iterable[Run]], seeds: Sequence[int]
) -> Sequence[int]:
    """Return the seeds whose runs have all ended, or all of them if there is none."""
    ended = [seed for seed in seeds if all(results.curve(run).status in ENDED for run in runs(seed))]
    return ended or seeds


class Missing(Exception):
    """A needed run is missing or unfinished; the message names it."""


@dataclass(frozen=True)
class Evidence:
    """The curves of one reading of the paper."""

    base: RunConfig  # common to all runs: data, deadline, slots, network
    group_sizes: tuple[int, ...]  # ascending
    slow_links: tuple[Slots, ...]  # of the S=1 runs that are compared with those with link slots of 1
    seeds: Sequence[int]
    results: Results
    requested_seeds: int = 0  # more than there are in ``seeds`` if some runs have not ended

    def curves(self, schedule: Schedule, group_size: int, slots: Slots | None = None) -> list[Curve]:
        """Return the whole curve of each seed, or raise Missing; ``slots`` if not those of the base.

        The curve of a run that diverged ends where it did.
        """
        compute, link = slots or (self.base.channel.compute_slots, self.base.channel.link_slots)
        config = self.base.with_options(
            schedule=schedule, group_size=group_size, compute_slots=compute, link_slots=link
        )
        curves = seed_curves(self.results, config, self.seeds)
        for curve in curves:
            if curve.status not in ENDED:
                raise Missing(f"{curve.run.name} is {curve.status}")
        return curves

    @property
    def reaches_the_end(self) -> bool:
        """True if the runs have the paper's deadline, so that statements about the end can be judged."""
        paper = RunConfig.from_options({"data": self.base.dataset.data})
        return self.base.deadline >= paper.deadline

    def has_collapsed(self, curve: Curve) -> bool:
        """Return whether a run diverged, or its model is little better than guessing at the end."""
        return has_collapsed(curve, self.base.deadline)

    def final(self, schedule: Schedule, group_size: int, slots: Slots | None = None) -> list[float]:
        """Return the final losses, one for each seed; NaN for a collapsed run."""
        curves = self.curves(schedule, group_size, slots)
        return self.unless_collapsed(curves, lambda points: final_loss(points, self.base.deadline))

    def unless_collapsed(
        self, curves: Iterable[Curve], statistic: Callable[[Sequence[Point]], float]
    ) -> list[float]:
        """Return a statistic of each curve; NaN for a collapsed run."""
        return [nan if self.has_collapsed(curve) else statistic(curve.points) for curve in curves]

    def finals(self, schedule: Schedule) -> list[dict[int, float]]:
        """Return the final losses by group size, one table for each seed."""
        columns = {size: self.final(schedule, size) for size in self.group_sizes}
        return [{size: column[i] for size, column in columns.items()} for i in range(len(self.seeds))]

    @property
    def histories(self) -> str:
        """The names of the folders of the runs, with an asterisk for what differs."""
        name = Run.of(self.base.with_options(schedule="async", group_size=self.group_sizes[0], seed=0)).name
        return re.sub(r"-async-S\d+-", "-*-S*-", name).removesuffix("0") + "*"

    def delayed_sizes(self) -> tuple[int, ...]:
        """Return the group sizes at which intentional delay changes anything."""
        bases = [self.base.with_options(group_size=size) for size in self.group_sizes]
        return tuple(base.channel.group_size for base in bases if free_delay(base.channel) > 0)
