"""The figure of a sweep: the final loss against a numeric axis, and the curves behind it.

The numeric axis with the most values is the horizontal one, and each of its values has a panel of curves.
What is left of the combinations are the lines, in the same colours everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from slotwise.batch.axes import Axis, combination_name
from slotwise.batch.table import PointResult, SweepResults
from slotwise.report.curves.panels import COLOURS, CurveFigure, FinalPoint, Line, Panel

MOST_PANELS = 8  # of curves
MOST_LINES = 2 * len(COLOURS)  # that can be told apart: solid and dashed
Labels = dict[str, list[PointResult]]


def sweep_figure(results: SweepResults) -> CurveFigure:
    """Everything that can be drawn so far."""
    across = max(
        (axis for axis in results.axes if axis.numeric), key=lambda axis: len(axis.values), default=None
    )
    panels = _curves_alone(results) if across is None else _against(results, across)
    return CurveFigure("curves", "", "", tuple(panel for panel in panels if panel.lines))


def _curves_alone(results: SweepResults) -> list[Panel]:
    groups = _grouped(results.axes, results.results)
    looks = _looks(groups)
    return [Panel(_title("Loss against slots", groups, looks), "slot", "loss", _curve_lines(groups, looks))]


def _against(results: SweepResults, across: Axis) -> list[Panel]:
    """The final loss against an axis, then a panel of curves for each of its values."""
    place = results.axes.index(across)
    rest = tuple(axis for axis in results.axes if axis is not across)
    groups = _grouped(rest, results.results, place)
    looks = _looks(groups)
    lines = [_final_line(label, groups[label], place, looks) for label in looks]
    final = tuple(line for line in lines if line.seeds)
    first = Panel(
        _title(f"Final loss against {across.title}", groups, looks), "value", "loss", final, across.title
    )
    return [first, *(_panel(across, value, rest, results, place, looks) for value in _spread(across.values))]


def _panel(
    across: Axis, value: Any, rest: Sequence[Axis], results: SweepResults, place: int, looks: dict[str, int]
) -> Panel:
    own = [result for result in results.results if result.point.values[place] == value]
    return Panel(across.label(value), "slot", "loss", _curve_lines(_grouped(rest, own, place), looks))


def _grouped(axes: Sequence[Axis], results: Sequence[PointResult], without: int | None = None) -> Labels:
    """The points of each line, by what is written in the legend."""
    groups: Labels = {}
    for result in results:
        values = [value for number, value in enumerate(result.point.values) if number != without]
        label = (
            combination_name(axes, values).replace(",", ", ") if len(axes) != 1 else _bare(axes[0], values[0])
        )
        groups.setdefault(label or "all points", []).append(result)
    return groups


def _bare(axis: Axis, value: Any) -> str:
    """A word speaks for itself; a number needs its name."""
    return value if isinstance(value, str) else axis.label(value)


def _looks(groups: Labels) -> dict[str, int]:
    """A number for each line that is drawn: all, or those with the lowest losses."""
    losses = {
        label: fmean(found)
        if (found := [r.figures.final_loss for r in results if r.figures])
        else float("inf")
        for label, results in groups.items()
    }
    drawn = sorted(losses, key=lambda label: losses[label])[:MOST_LINES]
    return {label: number for number, label in enumerate(label for label in groups if label in drawn)}


def _title(words: str, groups: Labels, looks: dict[str, int]) -> str:
    return words if len(looks) == len(groups) else f"{words} (the {len(looks)} lowest of {len(groups)})"


def _curve_lines(groups: Labels, looks: dict[str, int]) -> tuple[Line, ...]:
    lines = []
    for label, results in groups.items():
        ended = [result for result in results if result.figures] or results
        seeds = tuple(result.curve for result in ended if result.curve)
        if label in looks and seeds:
            lines.append(_line(label, looks[label], seeds))
    return tuple(lines)


def _final_line(label: str, results: Sequence[PointResult], place: int, looks: dict[str, int]) -> Line:
    """One seed after another along the axis; values that not all seeds have finished are left out."""
    by_seed: dict[int, dict[float, FinalPoint]] = {}
    for result in results:
        if result.figures:
            value = float(result.point.values[place])
            point = FinalPoint(value, result.figures.final_loss, result.figures.final_accuracy)
            by_seed.setdefault(result.point.seed, {})[value] = point
    shared = sorted(set.intersection(*(set(points) for points in by_seed.values()))) if by_seed else []
    seeds = tuple(tuple(points[value] for value in shared) for points in by_seed.values() if shared)
    return _line(label, looks[label], seeds)


def _line(label: str, number: int, seeds: tuple[Sequence[Any], ...]) -> Line:
    return Line(label, COLOURS[number % len(COLOURS)], number // len(COLOURS) % 2 == 1, seeds)


def _spread(values: Sequence[Any]) -> list[Any]:
    """All values, or some of them from the first to the last."""
    if len(values) <= MOST_PANELS:
        return list(values)
    return [values[number * (len(values) - 1) // (MOST_PANELS - 1)] for number in range(MOST_PANELS)]
