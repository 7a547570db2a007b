"""The figure of a batch: curves, and the final loss against a numeric axis if there is one.

The numeric axis with the most values is the horizontal one, and each of its values has a panel of curves. The
cases and the other axes are the lines, in the same colours everywhere. Lines are means over the seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slotwise.batch.axes import Axis, combination_name
from slotwise.batch.results import BatchResults, PointResult, mean_statistics
from slotwise.report.curves import COLOURS, Across, CurveFigure, FinalPoint, Line, Panel

MOST_PANELS = 8  # of curves
MOST_LINES = 2 * len(COLOURS)  # that can be told apart: solid and dashed
Groups = dict[str, list[PointResult]]


def batch_figure(results: BatchResults) -> CurveFigure:
    """Return the figure of all that can be drawn so far."""
    numeric = [axis for axis in results.axes if axis.is_numeric]
    across = max(numeric, key=lambda axis: len(axis.values), default=None)
    panels = _curve_panels(results) if across is None else _panels_along(results, across)
    return CurveFigure("curves", "", "", tuple(panel for panel in panels if panel.lines))


def _curve_panels(results: BatchResults) -> list[Panel]:
    """Return the loss against slots, rounds, updates and joules."""
    groups = _groups(results, results.rows)
    styles = _styles(groups)
    lines = _curve_lines(groups, styles)
    costs: dict[Across, str] = {"slot": "slots", "round": "rounds", "updates": "updates"}
    if results.has_joules:
        costs["joules"] = "joules"
    return [
        Panel(_title(f"Loss against {words}", groups, styles), across, "loss", lines)
        for across, words in costs.items()
    ]


def _panels_along(results: BatchResults, across: Axis) -> list[Panel]:
    """Return the final loss against an axis, then a panel of curves for each of its values."""
    place = results.axes.index(across)
    groups = _groups(results, results.rows, across)
    styles = _styles(groups)
    final = [_final_line(label, groups[label], place, styles[label]) for label in styles]
    title = _title(f"Final loss against {across.title}", groups, styles)
    panels = [Panel(title, "value", "loss", tuple(line for line in final if line.seeds), across.title)]
    for value in _spread(across.values):
        rows = [row for row in results.rows if row.values[place] == value]
        lines = _curve_lines(_groups(results, rows, across), styles)
        panels.append(Panel(across.label(value), "slot", "loss", lines))
    return panels


def _groups(results: BatchResults, rows: Sequence[PointResult], without: Axis | None = None) -> Groups:
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


def _styles(groups: Groups) -> dict[str, int]:
    """Return a number for each line that is drawn: all, or those with the lowest final losses."""
    means = {label: mean_statistics(rows) for label, rows in groups.items()}
    losses = {label: mean.final_loss if mean else float("inf") for label, mean in means.items()}
    drawn = sorted(losses, key=lambda label: losses[label])[:MOST_LINES]
    return {label: number for number, label in enumerate(label for label in groups if label in drawn)}


def _title(text: str, groups: Groups, styles: dict[str, int]) -> str:
    return text if len(styles) == len(groups) else f"{text} (the {len(styles)} lowest of {len(groups)})"


def _curve_lines(groups: Groups, styles: dict[str, int]) -> tuple[Line, ...]:
    """Return the curves of the finished seeds, or of all if none is finished."""
    lines = []
    for label, rows in groups.items():
        ended = [row for row in rows if row.statistics] or rows
        seeds = tuple(row.curve for row in ended if row.curve)
        if label in styles and seeds:
            lines.append(_line(label, styles[label], seeds))
    return tuple(lines)


def _final_line(label: str, rows: Sequence[PointResult], place: int, style: int) -> Line:
    """Return the final losses of each seed, at the values that all seeds have finished."""
    by_seed: dict[int, dict[float, FinalPoint]] = {}
    for row in rows:
        if row.statistics:
            value = float(row.values[place])
            point = FinalPoint(value, row.statistics.final_loss, row.statistics.final_accuracy)
            by_seed.setdefault(row.seed, {})[value] = point
    shared = sorted(set.intersection(*(set(points) for points in by_seed.values()))) if by_seed else []
    seeds = tuple(tuple(points[value] for value in shared) for points in by_seed.values() if shared)
    return _line(label, style, seeds)


def _line(label: str, style: int, seeds: tuple[Sequence[Any], ...]) -> Line:
    return Line(label, COLOURS[style % len(COLOURS)], style // len(COLOURS) % 2 == 1, seeds)


def _spread(values: Sequence[Any]) -> list[Any]:
    """Return all values, or some of them from the first to the last."""
    if len(values) <= MOST_PANELS:
        return list(values)
    return [values[number * (len(values) - 1) // (MOST_PANELS - 1)] for number in range(MOST_PANELS)]
