"""Evidence: the trained curves that the claims are judged on, and their final figures as texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypeVar

from slotwise.batch.job import Run, free_delay
from slotwise.learning import Point
from slotwise.paper.criteria import COLLAPSED
from slotwise.paper.experiments import Slots
from slotwise.report.number_text import counted, loss_text
from slotwise.runs import RunConfig, SavedRun
from slotwise.runs.saved_run import Status, final_accuracy, final_loss
from slotwise.schedule import Schedule

DIGITS = ".3g"
Statistic = Callable[[Sequence[Point]], float]
Value = TypeVar("Value")


@dataclass(frozen=True)
class Curve:
    """A run, its evaluations so far, and its run.json; all empty if the run is missing."""

    run: Run
    status: Status | Literal["missing"]
    points: Sequence[Point] = ()
    description: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        """True if the run is finished or diverged."""
        return self.status in ("finished", "diverged")

    @property
    def has_collapsed(self) -> bool:
        """True if the run diverged, or its model is little better than guessing at the end."""
        return self.status == "diverged" or self.final_accuracy < COLLAPSED

    @property
    def final_accuracy(self) -> float:
        """The median test accuracy over the last tenth of the slots."""
        return final_accuracy(self.points, self.run.config.deadline)

    @property
    def final_loss(self) -> float:
        """The median training loss over the last tenth of the slots, also of a collapsed run."""
        return final_loss(self.points, self.run.config.deadline)

    @property
    def comparable_loss(self) -> float:
        """The final loss; infinite for a collapsed run, which is worse than one that learns."""
        return inf if self.has_collapsed else self.final_loss

    def measured(self, statistic: Statistic) -> float:
        """Return a loss computed from the points; infinite for a collapsed run."""
        return inf if self.has_collapsed else statistic(self.points)


class Results:
    """The curves in a folder of run folders, each read once."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._curves: dict[Run, Curve] = {}

    def curve(self, run: Run) -> Curve:
        """Return the curve of a run; it has no points if the run is missing."""
        if run not in self._curves:
            self._curves[run] = self._read(run)
        return self._curves[run]

    def _read(self, run: Run) -> Curve:
        saved = SavedRun.find(self._runs / run.name)
        # The name of a run does not say all options: a folder with others is no evidence.
        if saved is None or saved.config != run.config:
            return Curve(run, "missing")
        return Curve(run, saved.status, saved.points, saved.description)

    def of_seeds(self, config: RunConfig, seeds: Sequence[int]) -> list[Curve]:
        """Return the curve of a run with each of the seeds."""
        return [self.curve(Run.of(config.with_options(seed=seed))) for seed in seeds]

    def ended_seeds(self, runs: Callable[[int], Iterable[Run]], seeds: Sequence[int]) -> Sequence[int]:
        """Return the seeds whose runs have all ended, or all of them if there is none."""
        return [seed for seed in seeds if all(self.curve(run).has_ended for run in runs(seed))] or seeds


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
        curves = self.results.of_seeds(config, self.seeds)
        for curve in curves:
            if not curve.has_ended:
                raise Missing(f"{curve.run.name} is {curve.status}")
        return curves

    @property
    def reaches_the_end(self) -> bool:
        """True if the runs have the paper's deadline, so that statements about the end can be judged."""
        paper = RunConfig.from_options({"data": self.base.dataset.data})
        return self.base.deadline >= paper.deadline

    def measured(self, schedule: Schedule, group_size: int, statistic: Statistic) -> list[float]:
        """Return a loss computed from the curve of each seed; infinite for a collapsed run."""
        return [curve.measured(statistic) for curve in self.curves(schedule, group_size)]

    def final(self, schedule: Schedule, group_size: int, slots: Slots | None = None) -> list[float]:
        """Return the final loss of each seed; infinite for a collapsed run."""
        return [curve.comparable_loss for curve in self.curves(schedule, group_size, slots)]

    def by_size(self, schedule: Schedule) -> list[dict[int, Curve]]:
        """Return the curves by group size, one table for each seed."""
        columns = {size: self.curves(schedule, size) for size in self.group_sizes}
        return [{size: curves[i] for size, curves in columns.items()} for i in range(len(self.seeds))]

    def measured_by_size(self, schedule: Schedule, statistic: Statistic) -> list[dict[int, float]]:
        """Return a loss by group size, one table for each seed; infinite for a collapsed run."""
        tables = self.by_size(schedule)
        return [{size: curve.measured(statistic) for size, curve in table.items()} for table in tables]

    def finals(self, schedule: Schedule) -> list[dict[int, float]]:
        """Return the final losses by group size, one table for each seed."""
        tables = self.by_size(schedule)
        return [{size: curve.comparable_loss for size, curve in table.items()} for table in tables]

    @property
    def histories(self) -> str:
        """The names of the folders of the runs, with an asterisk for what differs."""
        name = Run.of(self.base.with_options(schedule="async", group_size=self.group_sizes[0], seed=0)).name
        return re.sub(r"-async-S\d+-", "-*-S*-", name).removesuffix("0") + "*"

    def delayed_sizes(self) -> tuple[int, ...]:
        """Return the group sizes at which intentional delay changes anything."""
        bases = [self.base.with_options(group_size=size) for size in self.group_sizes]
        return tuple(base.channel.group_size for base in bases if free_delay(base.channel) > 0)

    def final_texts(self, schedule: Schedule, group_size: int, missing: str) -> tuple[str, str, str]:
        """Return final loss, final accuracy and staleness; ``missing`` stands for what is not known."""
        age = str(staleness(self.base.with_options(schedule=schedule, group_size=group_size)))
        try:
            curves = self.curves(schedule, group_size)
        except Missing:
            return missing, missing, age
        return final_loss_text(curves), final_accuracy_text(curves), age


def mean_text(values: Sequence[float]) -> str:
    """Return the mean over the seeds that did not collapse (infinite, or NaN) as text, and how many did."""
    known = [value for value in values if isfinite(value)]
    if not known:
        return "collapsed"
    return _noted(loss_text(fmean(known), DIGITS), _collapsed(len(values) - len(known), len(values)))


def final_loss_text(curves: Sequence[Curve]) -> str:
    """Return the mean final loss of the seeds that did not collapse, with the lowest and the highest.

    If all collapsed, it says so, with the mean loss of those that did not diverge.
    """
    known = [curve.final_loss for curve in curves if not curve.has_collapsed]
    if known:
        spread = f"{loss_text(min(known), DIGITS)} to {loss_text(max(known), DIGITS)}"
        collapsed = _collapsed(len(curves) - len(known), len(curves))
        return _noted(loss_text(fmean(known), DIGITS), spread if len(known) > 1 else "", collapsed)
    ends = [curve.final_loss for curve in curves if curve.status == "finished"]
    return f"collapsed, {loss_text(fmean(ends), DIGITS)}" if ends else "diverged"


def final_accuracy_text(curves: Sequence[Curve]) -> str:
    """Return the mean final accuracy of the same seeds as `final_loss_text`, lowest and highest."""
    learned = [curve for curve in curves if not curve.has_collapsed]
    shown = learned or [curve for curve in curves if curve.status == "finished"]
    if not shown:
        return "diverged"
    found, left = [curve.final_accuracy for curve in shown], len(curves) - len(shown)
    without = _collapsed(left, len(curves)) if learned else f"{counted(left, 'seed')} diverged" * bool(left)
    spread = f"{100 * min(found):.1f} to {100 * max(found):.1f}"
    return _noted(f"{fmean(found):.1%}", spread if len(found) > 1 else "", without)


def staleness(config: RunConfig) -> int:
    """Return d, the staleness of updates once every device has sent: G−1, less the delay of idfl; sync 0."""
    if config.schedule == "sync":
        return 0
    delay = free_delay(config.channel) if config.schedule == "idfl" else 0
    return config.channel.groups - 1 - delay


def _collapsed(collapsed: int, seeds: int) -> str:
    return f"{collapsed} of {seeds} seeds collapsed" if collapsed else ""


def _noted(text: str, *notes: str) -> str:
    """Return a text followed by the notes that are not empty, in brackets."""
    given = ", ".join(filter(None, notes))
    return f"{text} ({given})" if given else text
