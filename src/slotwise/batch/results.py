"""BatchResults: the tidy tables and the figure of a batch, as far as it has been trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from slotwise.base.errors import UserError
from slotwise.base.notebook import Displayable
from slotwise.batch.axes import Axis, combination_name, full_text
from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import Failure
from slotwise.learning.task import NO_METRICS, metric_names
from slotwise.report import notebook_display
from slotwise.report.colours import MOST_LOOKS, LineLook, Subject, line_looks
from slotwise.report.curves import (
    Across,
    CurveFigure,
    FinalPoint,
    Line,
    Panel,
    check_metric,
    metric_title,
)
from slotwise.runs import RunFolder, SavedRun
from slotwise.runs.data_identity import refuse_mixed_data
from slotwise.runs.saved_run import MeasuredPoint
from slotwise.schedule.costs import Powers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_PANELS = 8  # of curves
MOST_LINES = MOST_LOOKS // 2  # of a panel


class PointStatistics(NamedTuple):
    """The statistics of a finished run, or their means over several."""

    final_loss: float  # median training loss over the last tenth of the slots
    final_accuracy: float  # median test accuracy over the same, 0 to 1
    last_loss: float  # training loss of the last model
    last_accuracy: float
    rounds: float  # within the deadline
    updates: float  # applied
    lost: float  # uplinks
    sgd_steps: float  # of the applied updates
    mean_staleness: float  # of the updates, in rounds
    slots: float  # until the last round ended
    joules: float  # of all devices; NaN if their powers are not known
    seconds: float  # that the training took


class RunOutcome(NamedTuple):
    """A run as far as it was trained: its status, its evaluations, and its statistics once it is finished."""

    status: str
    curve: tuple[MeasuredPoint, ...] = ()
    statistics: PointStatistics | None = None
    final_metrics: Mapping[str, float] = NO_METRICS  # beside loss and accuracy, medians as theirs
    subject: Subject = Subject()  # schedule and group size; empty if the run is missing


class PointResult(NamedTuple):
    """A point: case, value on each axis, seed and run, and what came of the run so far."""

    case: str
    values: tuple[Any, ...]
    seed: int
    run: str
    outcome: RunOutcome


@dataclass(frozen=True)
class BatchResults(Displayable):
    """The results of a batch so far."""

    axes: tuple[Axis, ...]
    rows: tuple[PointResult, ...]  # one for each point
    has_joules: bool = False  # the powers of the devices are known
    failures: tuple[Failure, ...] = ()  # runs that failed or diverged in the call that made these results
    files: tuple[Path, ...] = ()  # the tables and figures that this call wrote

    @classmethod
    def read(cls, folder: BatchFolder | Path | str) -> BatchResults:
        """Read a folder; each run is read once, however many points share it.

        Raises:
            UserError: the folder is damaged, or its runs were trained on different data of the same source.
        """
        folder = folder if isinstance(folder, BatchFolder) else BatchFolder(Path(folder))
        document = folder.read_manifest()
        with folder.reading_manifest():
            axes = tuple(Axis(name, tuple(values)) for name, values in document["axes"].items())
            powers = Powers(**document["powers"]) if document["powers"] else None
            points = [(str(c), tuple(v), int(seed), str(run)) for c, v, seed, run in document["points"]]
            for _, values, _, run in points:
                # Such names could lead to a folder outside the batch.
                if len(values) != len(axes) or "/" in run or run in ("", ".", ".."):
                    raise ValueError
        refuse_mixed_data(folder.data_uses(run for _, _, _, run in points))
        runs = {name: read_run(folder.run(name), powers) for name in dict.fromkeys(p[3] for p in points)}
        return cls(axes, tuple(PointResult(*point, runs[point[3]]) for point in points), powers is not None)

    @property
    def is_finished(self) -> bool:
        """Return whether all points are."""
        return all(row.outcome.status == "finished" for row in self.rows)

    def problems(self, *, stopped: bool = False) -> dict[str, str]:
        """Return the reason or status of each unfinished run; after a stop, only of those that failed."""
        reasons = {failure.run.name: failure.reason for failure in self.failures}
        return {
            row.run: reasons.get(row.run, row.outcome.status)
            for row in self.rows
            if row.outcome.status != "finished"
            and (not stopped or row.run in reasons or row.outcome.status == "diverged")
        }

    def by_combination(self) -> dict[tuple[str, ...], list[PointResult]]:
        """Return the seeds of each combination by the name of its case and the texts of its values."""
        groups: dict[tuple[str, ...], list[PointResult]] = {}
        for row in self.rows:
            texts = [axis.text(value) for axis, value in zip(self.axes, row.values, strict=True)]
            groups.setdefault((row.case, *texts), []).append(row)
        return groups

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics that any point has beside loss and accuracy."""
        return metric_names(point.metrics for row in self.rows for point in row.outcome.curve)

    def columns(self) -> dict[str, list[Any]]:
        """Return the table of points by column; statistics are None until a point is finished.

        A further metric of the task, such as test_loss, has a column final_test_loss.
        """
        table = self._key_columns(self.rows)
        table["status"] = [row.outcome.status for row in self.rows]
        for number, name in enumerate(PointStatistics._fields):
            table[name] = [
                _known(row.outcome.statistics[number]) if row.outcome.statistics else None
                for row in self.rows
            ]
        for name in self.metrics:
            table[f"final_{name}"] = [_known(row.outcome.final_metrics.get(name, nan)) for row in self.rows]
        table["run"] = [row.run for row in self.rows]
        return table

    def curve_columns(self) -> dict[str, list[Any]]:
        """Return the table of evaluations by column; further metrics of the task are the last columns."""
        table = self._key_columns([row for row in self.rows for _ in row.outcome.curve])
        points = [point for row in self.rows for point in row.outcome.curve]
        for name in MeasuredPoint._fields[:-1]:
            table[name] = [_known(getattr(point, name)) for point in points]
        own = set(table)
        for name in self.metrics:
            column = f"task_{name}" if name in own else name  # a task may name a metric like a column or axis
            table[column] = [_known(point.metrics.get(name, nan)) for point in points]
        return table

    def _key_columns(self, rows: Sequence[PointResult]) -> dict[str, list[Any]]:
        table: dict[str, list[Any]] = {"case": [row.case for row in rows]}
        for number, axis in enumerate(self.axes):
            values = [row.values[number] for row in rows]
            table[axis.name] = [full_text(v) if isinstance(v, list | tuple) else v for v in values]
        table["seed"] = [row.seed for row in rows]
        return table

    def plot(self, *, metric: str = "loss") -> Figure:
        """Return the figure of the loss, the accuracy or another metric, as `curve_figure` describes it."""
        return notebook_display.plot(self.curve_figure(metric))

    def curve_figure(self, metric: str = "loss") -> CurveFigure:
        """Return the figure of `batch_figure`; raise a UserError if there is nothing to draw yet."""
        if not any(row.outcome.curve for row in self.rows):
            raise UserError("nothing has been evaluated yet; there is nothing to draw")
        figure = batch_figure(self, metric)
        if not figure.panels:
            raise UserError(f"no evaluation has a value of {metric}; there is nothing to draw")
        return figure


def read_run(folder: RunFolder, powers: Powers | None) -> RunOutcome:
    """Read a run; its joules are NaN without powers."""
    run = SavedRun.find(folder.path)
    if run is None:
        return RunOutcome("missing")
    curve, subject = run.curve(powers), Subject(run.config.schedule, run.config.channel.group_size)
    if run.status != "finished" or not curve:
        return RunOutcome(run.status, curve, subject=subject)
    schedule = run.schedule.totals
    totals = {name: value for name, value in schedule._asdict().items() if name in PointStatistics._fields}
    statistics = PointStatistics(
        final_loss=run.final_loss,
        final_accuracy=run.final_accuracy,
        last_loss=curve[-1].loss,
        last_accuracy=curve[-1].accuracy,
        sgd_steps=schedule.updates * run.config.training.local_steps,
        joules=curve[-1].joules,
        seconds=run.seconds,
        **totals,
    )
    return RunOutcome(run.status, curve, statistics, run.final_metrics, subject)


def mean_statistics(rows: Iterable[PointResult]) -> PointStatistics | None:
    """Return the means over the finished rows; None if none is finished."""
    finished = [row.outcome.statistics for row in rows if row.outcome.statistics]
    return PointStatistics(*map(fmean, zip(*finished, strict=True))) if finished else None


def _known(value: float) -> float | None:
    return None if isnan(value) else value


Groups = dict[str, list[PointResult]]


def batch_figure(results: BatchResults, metric: str = "loss") -> CurveFigure:
    """Return the figure of the loss or another metric, as far as it can be drawn: means over the seeds.

    The numeric axis with the most values is the horizontal one of the final values, and each of its values
    has a panel of curves. The cases and the other axes are the lines, in the same colours everywhere. Without
    a numeric axis, the curves are drawn against slots, rounds, updates and joules.

    Raises:
        InputError: no run has the metric.
    """
    check_metric(metric, "loss", "accuracy", *results.metrics)
    numeric = [axis for axis in results.axes if axis.is_numeric]
    across = max(numeric, key=lambda axis: len(axis.values), default=None)
    groups = _groups(results, results.rows, across)
    means = {label: mean_statistics(rows) for label, rows in groups.items()}
    losses = {label: mean.final_loss if mean else inf for label, mean in means.items()}
    drawn = sorted(losses, key=lambda label: losses[label])[:MOST_LINES]
    # In the order of the groups, not of the losses, which change while runs finish.
    shown_groups = {label: rows for label, rows in groups.items() if label in drawn}
    looks = line_looks([_subject(rows) for rows in shown_groups.values()])
    styles = dict(zip(shown_groups, looks, strict=True))
    lowest = "lowest" if metric == "loss" else "lowest losses"
    note = f" (the {len(styles)} {lowest} of {len(groups)})" if len(styles) < len(groups) else ""
    if across is None:
        lines = _curve_lines(groups, styles, metric)
        costs: dict[Across, str] = {"slot": "slots", "round": "rounds", "updates": "updates"}
        if results.has_joules:
            costs["joules"] = "joules"
        panels = [
            Panel(f"{metric_title(metric)} against {name}{note}", cost, metric, lines)
            for cost, name in costs.items()
        ]
    else:
        place, values = results.axes.index(across), across.values
        final = [_final_line(label, groups[label], place, look) for label, look in styles.items()]
        shown = tuple(line for line in final if line.has(metric))
        panels = [Panel(f"Final {metric} against {across.title}{note}", "value", metric, shown, across.title)]
        count = min(len(values), MOST_PANELS)
        # Evenly spread, with the first and the last value; a numeric axis has at least two.
        for value in (values[number * (len(values) - 1) // (count - 1)] for number in range(count)):
            rows = [row for row in results.rows if row.values[place] == value]
            lines = _curve_lines(_groups(results, rows, across), styles, metric)
            panels.append(Panel(across.label(value), "slot", metric, lines))
    return CurveFigure("curves", "", "", tuple(panel for panel in panels if panel.lines))


def _groups(results: BatchResults, rows: Sequence[PointResult], without: Axis | None) -> Groups:
    """Return the rows of each line by its label."""
    axes = [axis for axis in results.axes if axis is not without]
    groups: Groups = {}
    for row in rows:
        values = [v for axis, v in zip(results.axes, row.values, strict=True) if axis is not without]
        name = combination_name(row.case, axes, values).replace(",", ", ")
        if len(axes) == 1 and not row.case and isinstance(values[0], str):
            name = values[0]  # a word needs no name of its axis
        groups.setdefault(name or "all points", []).append(row)
    return groups


def _subject(rows: Sequence[PointResult]) -> Subject:
    """Return the schedule and the group size that all runs of a line share."""
    schedules = {row.outcome.subject.schedule for row in rows} - {""}
    sizes = {row.outcome.subject.group_size for row in rows} - {0}
    return Subject(
        schedules.pop() if len(schedules) == 1 else "",
        sizes.pop() if len(sizes) == 1 else 0,
    )


def _curve_lines(groups: Groups, styles: dict[str, LineLook], metric: str) -> tuple[Line, ...]:
    """Return the curves that have the metric, of the finished seeds, or of all if none is finished."""
    lines = []
    for label, rows in groups.items():
        ended = [row for row in rows if row.outcome.statistics] or rows
        seeds = tuple(row.outcome.curve for row in ended if row.outcome.curve)
        if label in styles and seeds:
            lines.append(Line(label, styles[label].colour, styles[label].dash, seeds))
    return tuple(line for line in lines if line.has(metric))


def _final_line(label: str, rows: Sequence[PointResult], place: int, look: LineLook) -> Line:
    """Return the final values of each seed, at the values that all seeds have finished."""
    by_seed: dict[int, dict[float, FinalPoint]] = {}
    for row in rows:
        if row.outcome.statistics:
            value = float(row.values[place])
            loss, accuracy = row.outcome.statistics.final_loss, row.outcome.statistics.final_accuracy
            by_seed.setdefault(row.seed, {})[value] = FinalPoint(
                value, loss, accuracy, row.outcome.final_metrics
            )
    shared = sorted(set.intersection(*(set(points) for points in by_seed.values()))) if by_seed else []
    seeds = tuple(tuple(points[value] for value in shared) for points in by_seed.values() if shared)
    return Line(label, look.colour, look.dash, seeds)
