"""Tables of a batch or of runs for papers: means over seeds, time to a target, the best value of an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from statistics import fmean
from typing import Literal, NamedTuple

from slotwise.base.errors import InputError, MissingError, NoEffectError
from slotwise.batch.results import BatchResults, PointStatistics, RunOutcome
from slotwise.learning.target import Target
from slotwise.learning.task import metric_names
from slotwise.options.checks import Value, checked
from slotwise.report.curves import Spread
from slotwise.report.paper_table import Measured, MeasuredColumn, PaperTable
from slotwise.runs.saved_run import MeasuredPoint

HEADINGS = {
    "final_loss": "final loss",
    "final_accuracy": "final accuracy (%)",
    "last_accuracy": "last accuracy (%)",
    "seconds": "training time (s)",
    "sgd_steps": "SGD steps",
}
BY = {"loss": "final loss", "accuracy": "final accuracy", "target": "slots to the target"}


@dataclass(frozen=True, kw_only=True)
class TableOptions(Value):
    """Rows, columns and format of a table for papers.

    Attributes:
        columns: Statistics, such as final_loss, rounds or final_test_loss. Default: final loss and accuracy.
        target: accuracy=X or loss=X: slots until it is reached, with seconds and joules where they are known.
            Default: the target at which the runs stop, if they do.
        best: An axis of a batch: only its best value for each combination of the others.
        by: What is best: the lowest loss (the default), the highest accuracy or the target, met the soonest.
    """

    columns: tuple[str, ...] = ()
    target: str | None = None
    best: str | None = None
    by: Literal["loss", "accuracy", "target"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by is not None and self.best is None:
            raise NoEffectError("by", self.by, "without best")
        if self.by == "target" and self.target is None:
            raise MissingError("target", "given if by is target")

    @property
    def goal(self) -> Target | None:
        """The target to reach."""
        return None if self.target is None else Target.parse(self.target)


class Row(NamedTuple):
    """The seeds of one row, and its names in the first columns."""

    names: tuple[str, ...]
    outcomes: tuple[RunOutcome, ...]

    @property
    def finished(self) -> list[RunOutcome]:
        """The seeds that have ended well."""
        return [outcome for outcome in self.outcomes if outcome.statistics is not None]

    @property
    def diverged(self) -> int:
        """Number of seeds that diverged."""
        return sum(outcome.status == "diverged" for outcome in self.outcomes)


def batch_table(
    results: BatchResults, options: TableOptions, band: Spread | None, slot_seconds: float | None
) -> PaperTable:
    """Return a row for each combination of a batch, or for the best of each."""
    has_cases = any(row.case for row in results.rows)
    headings = (*(["case"] if has_cases else []), *(axis.title for axis in results.axes))
    rows = [
        Row(names[not has_cases :], tuple(row.outcome for row in points))
        for names, points in results.by_combination().items()
    ]
    return summary_table(headings, rows, options, band, slot_seconds)


def summary_table(
    headings: Sequence[str],
    rows: Sequence[Row],
    options: TableOptions,
    band: Spread | None = None,
    slot_seconds: float | None = None,
) -> PaperTable:
    """Return the table of some rows.

    Raises:
        UserError: there is no such statistic or axis, or an option without effect.
    """
    spread: Spread = checked("band", "std" if band is None else band, Spread)
    goal, notes = options.goal or _common_target(rows), []
    if slot_seconds is not None and goal is None:
        raise NoEffectError("slot_seconds", slot_seconds, "without target")
    if options.best is not None:
        place = _axis_place(headings, options.best)
        count = len({row.names[place] for row in rows})
        rows = _best(rows, place, options.by or "loss", goal)
        notes.append(f"best {headings[place]} of {count} by the mean {BY[options.by or 'loss']}")
    columns = _statistics(rows, options.columns)
    if goal is not None:
        columns += _to_target(rows, goal, slot_seconds)
        notes.append(f"time to the first evaluation with {goal}, of the seeds that reach it")
    seeds = tuple((len(row.finished), len(row.outcomes)) for row in rows)
    names = tuple(row.names for row in rows)
    return PaperTable(tuple(headings), names, seeds, tuple(columns), spread, tuple(notes))


def _common_target(rows: Sequence[Row]) -> Target | None:
    """Return the target that ends all runs, if they have the same."""
    configs = [outcome.config for row in rows for outcome in row.outcomes if outcome.config is not None]
    targets = {config.end.target for config in configs}
    return targets.pop() if len(targets) == 1 else None


def _axis_place(headings: Sequence[str], name: str) -> int:
    """Return the column of an axis, which may be written with dashes or underscores."""
    wanted = name.replace("_", "-")
    if wanted not in headings or wanted == "case":
        axes = ", ".join(heading for heading in headings if heading not in ("case", "run"))
        raise InputError("best", name, f"an axis of the batch: {axes}" if axes else "omitted without axes")
    return list(headings).index(wanted)


def _best(rows: Sequence[Row], place: int, by: str, goal: Target | None) -> list[Row]:
    """Return the best row of each combination of all but one axis; the first of equal ones."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(row.names[:place] + row.names[place + 1 :], []).append(row)
    return [min(group, key=lambda row: _score(row, by, goal)) for group in groups.values()]


def _score(row: Row, by: str, goal: Target | None) -> tuple[float, float]:
    """Return what makes a row the best if it is the lowest: seeds that miss the target, then a mean."""
    finished = [one.statistics for one in row.outcomes if one.statistics is not None]
    if row.diverged or not finished:
        return inf, inf
    if by == "loss":
        return 0, fmean(one.final_loss for one in finished)
    if by == "accuracy":
        return 0, -fmean(one.final_accuracy for one in finished)
    reached = [] if goal is None else [p.slot for p in map(goal.reached, _curves(row)) if p is not None]
    return len(finished) - len(reached), fmean(reached) if reached else inf


def _curves(row: Row) -> list[Sequence[MeasuredPoint]]:
    return [outcome.curve for outcome in row.finished]


def _statistics(rows: Sequence[Row], names: Sequence[str]) -> list[MeasuredColumn]:
    """Return the columns of statistics; the accuracy is left out by default if there is none."""
    every = [outcome for row in rows for outcome in row.finished]
    metrics = metric_names(outcome.final_metrics for outcome in every)
    known = (*PointStatistics._fields, *(f"final_{name}" for name in metrics))
    for name in names:
        if name not in known:
            raise InputError("columns", name, f"statistics: {', '.join(known)}")
    shown = names or [f"final_{name}" for name in ("loss", "accuracy")]
    columns = [_column(rows, name) for name in shown]
    return [column for column in columns if names or any(cell.values for cell in column.cells)]


def _column(rows: Sequence[Row], name: str) -> MeasuredColumn:
    cells = []
    for row in rows:
        values = [_value(outcome, name) for outcome in row.finished]
        cells.append(Measured(tuple(value for value in values if not isnan(value)), len(values)))
    heading = HEADINGS.get(name, name.replace("_", " "))
    return MeasuredColumn(name, heading, tuple(cells), 100.0 if name.endswith("_accuracy") else 1.0)


def _value(outcome: RunOutcome, name: str) -> float:
    if name in PointStatistics._fields:
        return float(getattr(outcome.statistics, name))
    return outcome.final_metrics.get(name.removeprefix("final_"), nan)


def _to_target(rows: Sequence[Row], goal: Target, slot_seconds: float | None) -> list[MeasuredColumn]:
    """Return slots, seconds and joules until the target, of the seeds that reach it."""
    accuracy = f"to {100 * goal.value:g} % accuracy"
    group = accuracy if goal.quantity == "accuracy" else f"to a loss of {goal.value:g}"
    costs: dict[str, list[Measured]] = {"slots": [], "seconds": [], "joules": []}
    for row in rows:
        points = [(outcome, goal.reached(outcome.curve)) for outcome in row.finished]
        reached = [(outcome, point) for outcome, point in points if point is not None]
        values = {
            "slots": [float(point.slot) for _, point in reached],
            "seconds": [point.slot * outcome.slot_seconds(slot_seconds) for outcome, point in reached],
            "joules": [point.joules for _, point in reached],
        }
        for name, own in values.items():
            costs[name].append(Measured(tuple(own), len(row.finished) + row.diverged))
    return [
        MeasuredColumn(f"{name}_to_target", name, tuple(cells), group=group)
        for name, cells in costs.items()
        if name == "slots" or _is_known(cells)
    ]


def _is_known(cells: Sequence[Measured]) -> bool:
    """Return whether a cost is known wherever the target is reached."""
    values = [value for cell in cells for value in cell.values]
    return bool(values) and not any(map(isnan, values))
