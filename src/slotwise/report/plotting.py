"""Figures of curves with matplotlib: what they show, as `FigureOptions` say, and their files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.base.errors import ConflictError, InputError
from slotwise.base.extras import require
from slotwise.base.files import check_writable, write_atomically
from slotwise.learning.task import metric_names
from slotwise.report.colours import Subject
from slotwise.report.curves import CurveFigure, NamedCurve, Panel, check_metric, coloured, loss_and_accuracy
from slotwise.report.figure_options import ALL, USUAL, FigureOptions
from slotwise.runs import SavedRun
from slotwise.runs.config import without_seeds
from slotwise.schedule.costs import Powers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_curves(figure: CurveFigure, out: Path, options: FigureOptions = USUAL) -> None:
    """Draw a figure to a .png, .svg or .pdf file, atomically; UserError if it cannot be written."""
    kind = picture_kind(out)
    check_writable(out)
    write_atomically(out, save_figure(plot_figure(figure, options), kind))


def check_style(style: str) -> None:
    """Raise an InputError if there is no such style."""
    from slotwise.report.figure_style import using_style  # noqa: PLC0415  (loads matplotlib)

    with using_style(style):
        pass


def picture_kind(out: Path) -> str:
    """Return ``png``, ``svg`` or ``pdf``, the suffix of the file name; InputError for another one."""
    kind = out.suffix.lstrip(".").lower()
    if kind not in ("png", "svg", "pdf"):
        raise InputError("out", out, "a file that ends in .png, .svg or .pdf")
    require("matplotlib")  # before long work
    return kind


def save_figure(figure: Figure, kind: str, dpi: float | None = None) -> bytes:
    """Return the content of a png, svg or pdf file, without dates so that equal figures give equal bytes."""
    from slotwise.report.figure_style import figure_file  # noqa: PLC0415  (loads matplotlib)

    return figure_file(figure, kind, dpi)


def plot_figure(
    figure: CurveFigure,
    options: FigureOptions = USUAL,
    *,
    ax: Axes | Sequence[Axes] | None = None,
    legend: bool = True,
) -> Figure:
    """Return a matplotlib figure that belongs to the caller alone, or that of the axes given.

    Raises:
        UserError: the figure does not have what the options ask for.
    """
    require("matplotlib")
    # Half a second that most commands do without.
    from slotwise.report.curve_axes import add_legend, draw_figure, draw_panels  # noqa: PLC0415
    from slotwise.report.figure_style import figure_of_axes, using_style  # noqa: PLC0415

    figure = options.applied(figure)
    if ax is None:
        with using_style(options.style):
            return draw_figure(figure, options, legend=legend)
    axes = _checked_axes(ax, figure, options)
    draw_panels(axes, figure, options.spread)
    if legend:
        add_legend(axes[-1], figure.lines)
    return figure_of_axes(axes[0])


def _checked_axes(ax: Axes | Sequence[Axes], figure: CurveFigure, options: FigureOptions) -> list[Axes]:
    """Return the axes to draw into, one for each panel; they keep the style of their figure."""
    options.refuse_own_figure()
    axes = list(ax) if isinstance(ax, Iterable) else [ax]
    if len(axes) != len(figure.panels):
        allowed = f"{len(figure.panels)}, one for each panel, or one with panel=loss"
        raise InputError("ax", f"{len(axes)} axes", allowed)
    return axes


def curves_of(
    runs: Sequence[SavedRun],
    powers: Powers | None = None,
    slot_seconds: float | None = None,
    *,
    merge_seeds: bool = False,
) -> list[NamedCurve]:
    """Return the curves of runs, with their folder name, or the path where several have the same name.

    With ``merge_seeds``, runs that differ in nothing but seeds are one curve.
    """
    return [
        NamedCurve(
            label,
            tuple(run.curve(powers) for run in group),
            Subject(group[0].config.schedule, group[0].config.channel.group_size),
            group[0].slot_seconds(slot_seconds) or nan,
        )
        for label, group in grouped_runs(runs, merge_seeds=merge_seeds).items()
    ]


def grouped_runs(runs: Sequence[SavedRun], *, merge_seeds: bool) -> dict[str, list[SavedRun]]:
    """Return the runs of each curve or row by its label; a path or a number tells equal labels apart."""
    groups: dict[str, list[SavedRun]] = {}
    for number, run in enumerate(runs):
        groups.setdefault(_line_key(run) if merge_seeds else str(number), []).append(run)
    names, labelled = [run.name for run in runs], dict[str, list[SavedRun]]()
    for group in groups.values():
        label = _label(group, names)
        labelled[label if label not in labelled else f"{label} ({len(labelled) + 1})"] = group
    return labelled


def _line_key(run: SavedRun) -> str:
    """Return the same text for runs that differ in seeds only."""
    return repr(sorted(without_seeds(run.config.options()).items()))


def _label(runs: Sequence[SavedRun], names: Sequence[str]) -> str:
    """Return schedule and group size, after the folder of a single run that is not named like them."""
    (first, *others) = runs
    schedule, size = first.config.schedule, first.config.channel.group_size_text
    shown = first.name if names.count(first.name) == 1 else str(first.path)
    prefix = "" if others or shown == schedule else f"{shown}: "
    return f"{prefix}{schedule} S={size}"


def curves_figure(
    curves: Sequence[NamedCurve], metric: str | None = None, options: FigureOptions = USUAL
) -> CurveFigure:
    """Return a figure of loss and ``metric`` against slots and of loss against rounds, or what is chosen.

    Raises:
        InputError: no curve has a value of the metric; the accuracy may be missing, as in a regression.
    """
    lines = coloured(curves)
    names = metric_names(point.metrics for line in lines for points in line.seeds for point in points)
    known = tuple(name for name in names if any(line.has(name) for line in lines))
    if options.panel != ALL:
        if metric is not None:
            raise ConflictError("metric", "panel", "the panel names the metric")
        check_metric(options.panel, "loss", "accuracy", *known, parameter="panel")
        return _figure(Panel("", options.across, options.panel, lines))
    shown = "accuracy" if metric is None else metric
    check_metric(shown, "accuracy", *known)
    if options.x is None:
        return _figure(*loss_and_accuracy(lines, shown))
    quantities = (up for up in ("loss", shown) if any(line.has(up) for line in lines))
    return _figure(*(Panel("", options.across, up, lines) for up in quantities))


def _figure(*panels: Panel) -> CurveFigure:
    return CurveFigure("curves", "", "", panels)
