"""The figure of a batch: curves of its combinations, and final values against its numeric axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan

from slotwise.base.errors import ConflictError, InputError
from slotwise.batch.axes import Axis, combination_name
from slotwise.batch.results import BatchResults, PointResult, mean_statistics
from slotwise.report.colours import MOST_LOOKS, LineLook, Subject, line_looks
from slotwise.report.curves import Across, CurveFigure, FinalPoint, Line, Panel, check_metric
from slotwise.report.figure_options import ALL, FINAL, USUAL, FigureOptions

MOST_PANELS = 8  # of curves
MOST_LINES = MOST_LOOKS // 2  # of a panel


def batch_figure(
    results: BatchResults,
    metric: str | None = None,
    options: FigureOptions = USUAL,
    slot_seconds: float | None = None,
) -> CurveFigure:
    """Return the figure of the loss or another metric, as far as it can be drawn: means over the seeds.

    The numeric axis with the most values is the horizontal one of the final values, and each of its values
    has a panel of curves. The cases and the other axes are the lines, in the same colours everywhere. Without
    a numeric axis, the curves are drawn against slots, rounds, updates and joules. One panel alone has a line
    for each combination, unless it is that of the final values.

    Raises:
        InputError: no run has the metric, or there is no numeric axis for the final values.
    """
    numeric = [axis for axis in results.axes if axis.is_numeric]
    across = max(numeric, key=lambda axis: len(axis.values), default=None)
    names = ("loss", "accuracy", *results.metrics)
    if options.panel not in (ALL, FINAL):
        if metric is not None:
            raise ConflictError("metric", "panel", "the panel names the metric")
        check_metric(options.panel, *names, parameter="panel")
        lines = _Lines(results, None, options.panel, slot_seconds)
        return _figure([Panel(lines.note, options.across, options.panel, lines.curves(results.rows))])
    shown = "loss" if metric is None else metric
    check_metric(shown, *names)
    lines = _Lines(results, across, shown, slot_seconds)
    if options.panel == FINAL:
        if across is None:
            raise InputError("panel", FINAL, "another panel: no axis of the batch has several numbers")
        if options.x is not None:
            raise ConflictError("x", "panel", f"final values are drawn against {across.title}")
        return _figure([replace(lines.final(across), title=lines.note)])
    if across is None:
        return _figure(_cost_panels(results, lines, options))
    return _figure([lines.final(across), *_value_panels(results, lines, across, options.across)])


def _figure(panels: Sequence[Panel]) -> CurveFigure:
    return CurveFigure("curves", "", "", tuple(panel for panel in panels if panel.lines))


def _cost_panels(results: BatchResults, lines: _Lines, options: FigureOptions) -> list[Panel]:
    """Return a panel for each horizontal axis, or for the one that was chosen."""
    costs: list[Across] = ["slot", "round", "updates"]
    if results.has_joules:
        costs.append("joules")
    curves = lines.curves(results.rows)
    chosen = costs if options.x is None else [options.across]
    panels = (Panel("", cost, lines.metric, curves) for cost in chosen)
    return [replace(panel, title=f"{panel.heading} {lines.note}" if lines.note else "") for panel in panels]


def _value_panels(results: BatchResults, lines: _Lines, axis: Axis, across: Across) -> list[Panel]:
    """Return a panel of curves for some values on an axis: evenly spread, with the first and the last."""
    place, values, count = results.axes.index(axis), axis.values, min(len(axis.values), MOST_PANELS)
    chosen = (values[number * (len(values) - 1) // (count - 1)] for number in range(count))
    return [
        Panel(
            axis.label(value),
            across,
            lines.metric,
            lines.curves([row for row in results.rows if row.values[place] == value]),
        )
        for value in chosen
    ]


class _Lines:
    """The lines of a figure: the rows of each, their looks, and which of many are drawn."""

    def __init__(
        self, results: BatchResults, without: Axis | None, metric: str, slot_seconds: float | None
    ) -> None:
        self.results, self.without, self.metric, self.slot_seconds = results, without, metric, slot_seconds
        groups = self.groups(results.rows)
        means = {label: mean_statistics(rows) for label, rows in groups.items()}
        losses = {label: mean.final_loss if mean else inf for label, mean in means.items()}
        drawn = sorted(losses, key=lambda label: losses[label])[:MOST_LINES]
        # In the order of the groups, not of the losses, which change while runs finish.
        shown = {label: rows for label, rows in groups.items() if label in drawn}
        looks = line_looks([_subject(rows, results) for rows in shown.values()])
        self.looks = dict(zip(shown, looks, strict=True))
        lowest = "lowest" if metric == "loss" else "lowest losses"
        self.note = f"(the {len(shown)} {lowest} of {len(groups)})" if len(shown) < len(groups) else ""

    def groups(self, rows: Sequence[PointResult]) -> dict[str, list[PointResult]]:
        """Return the rows of each line by its label."""
        kept = [number for number, axis in enumerate(self.results.axes) if axis is not self.without]
        axes = [self.results.axes[number] for number in kept]
        groups: dict[str, list[PointResult]] = {}
        for row in rows:
            values = [row.values[number] for number in kept]
            name = combination_name(row.case, axes, values).replace(",", ", ")
            if len(axes) == 1 and not row.case and isinstance(values[0], str):
                name = values[0]  # a word needs no name of its axis
            groups.setdefault(name or "all points", []).append(row)
        return groups

    def curves(self, rows: Sequence[PointResult]) -> tuple[Line, ...]:
        """Return the curves that have the metric, of the finished seeds, or of all if none is finished."""
        lines = []
        for label, group in self.groups(rows).items():
            ended = [row for row in group if row.outcome.statistics] or group
            started = [row for row in ended if row.outcome.curve]
            if label in self.looks and started:
                seeds = tuple(row.outcome.curve for row in started)
                lengths = {row.outcome.slot_seconds(self.slot_seconds) for row in started}
                length = lengths.pop() if len(lengths) == 1 else nan
                lines.append(Line(label, *self.looks[label], seeds, length))
        return tuple(line for line in lines if line.has(self.metric))

    def final(self, axis: Axis) -> Panel:
        """Return the panel of the final values against a numeric axis."""
        place, groups = self.results.axes.index(axis), self.groups(self.results.rows)
        every = (_final_line(label, groups[label], place, look) for label, look in self.looks.items())
        shown = tuple(line for line in every if line.has(self.metric))
        title = f"Final {self.metric} against {axis.title} {self.note}".strip()
        return Panel(title, "value", self.metric, shown, axis.title)


def _subject(rows: Sequence[PointResult], results: BatchResults) -> Subject:
    """Return the schedule and the group size that all points of a line share."""
    schedules = {_schedule(row, results) for row in rows} - {""}
    sizes = {row.outcome.subject.group_size for row in rows} - {0}
    return Subject(
        schedules.pop() if len(schedules) == 1 else "",
        sizes.pop() if len(sizes) == 1 else 0,
    )


def _schedule(row: PointResult, results: BatchResults) -> str:
    """Return the schedule that was asked for: idfl is trained as async where no delay is free."""
    for axis, value in zip(results.axes, row.values, strict=True):
        if axis.name == "schedule":
            return str(value)
    of_case = {other.outcome.subject.schedule for other in results.rows if other.case == row.case} - {""}
    return "idfl" if of_case == {"idfl", "async"} else row.outcome.subject.schedule


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
