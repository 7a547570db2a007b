"""Figures of curves for papers (matplotlib): PNG, PDF or SVG, as wide as two columns of text.

Figures are created without pyplot, whose global list of figures would keep them alive.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import AbstractContextManager
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from slotwise.base.errors import InputError
from slotwise.base.extras import require
from slotwise.base.files import check_writable, write_atomically
from slotwise.learning.task import metric_names
from slotwise.report.colours import STROKES, Subject
from slotwise.report.curves import (
    Band,
    CurveFigure,
    Line,
    LossRange,
    NamedCurve,
    Panel,
    check_metric,
    coloured,
    loss_and_accuracy,
)
from slotwise.runs import SavedRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, PANEL_HEIGHT, LEGEND_ROW = 7.2, 2.2, 0.19  # inches
LETTER, TITLE_LETTER = 0.068, 0.082  # inches: width of a letter in a legend, in a bold title
LEGEND_KEY = 0.5  # inches: a line sample and the gaps around it
MOST_LEGEND_COLUMNS = 6
DOTS_PER_INCH = 300
WIDE = 20  # ratio of the largest to the smallest value from which an axis is logarithmic
MARKERS = 5  # of a line
MOST_MARKS = 8  # values that were tried and fit below a panel
MOST_STEPS = 6  # between the ticks of slots, rounds, updates or joules, whose labels are wider
CUT_NOTE = "↑ higher losses not shown"
NOTE_SIZE = 6  # points
MOST_ACCURACY_STEPS = 5  # between the ticks of accuracies
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titleweight": "bold",
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7.5,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "slotwise",
}


def draw_curves(figure: CurveFigure, out: Path) -> None:
    """Draw a figure to a .png, .svg or .pdf file, atomically; UserError if it cannot be written."""
    kind = picture_kind(out)
    check_writable(out)
    write_atomically(out, save_figure(plot_figure(figure), kind))


def picture_kind(out: Path) -> str:
    """Return ``png``, ``svg`` or ``pdf``, the suffix of the file name; InputError for another one."""
    kind = out.suffix.lstrip(".").lower()
    if kind not in ("png", "svg", "pdf"):
        raise InputError("out", out, "a file that ends in .png, .svg or .pdf")
    require("matplotlib")  # before long work
    return kind


def curves_of(runs: Sequence[SavedRun]) -> list[NamedCurve]:
    """Return the curves of runs, with their folder name, or the path where several have the same name."""
    names = [run.name for run in runs]
    curves = []
    for run, name in zip(runs, names, strict=True):
        shown, schedule = name if names.count(name) == 1 else str(run.path), run.config.schedule
        prefix = "" if shown == schedule else f"{shown}: "
        label = f"{prefix}{schedule} S={run.config.channel.group_size_text}"
        curves.append(NamedCurve(label, (run.points,), Subject(schedule, run.config.channel.group_size)))
    return curves


def curves_figure(curves: Sequence[NamedCurve], metric: str = "accuracy") -> CurveFigure:
    """Return a figure of loss and ``metric`` against slots and of loss against rounds.

    Raises:
        InputError: no curve has a value of the metric; the accuracy may be missing, as in a regression.
    """
    lines = coloured(curves)
    names = metric_names(point.metrics for line in lines for points in line.seeds for point in points)
    check_metric(metric, "accuracy", *(name for name in names if any(line.has(name) for line in lines)))
    return CurveFigure("curves", "", "", loss_and_accuracy(lines, metric))


def save_figure(figure: Figure, kind: str, dpi: int = DOTS_PER_INCH) -> bytes:
    """Return the content of a png, svg or pdf file, without dates so that equal figures give equal bytes."""
    buffer = io.BytesIO()
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})
    with figure_style():
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=undated)
    return buffer.getvalue()


def figure_style() -> AbstractContextManager[None]:
    """Return a context in which figures are made and saved; matplotlib's global settings stay as they are."""
    require("matplotlib")
    import matplotlib as mpl  # noqa: PLC0415  (half a second that most commands do without)

    return mpl.rc_context(STYLE)


def clear_frame(axes: Axes) -> None:
    """Draw a faint grid, and no frame above and on the right."""
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def plot_figure(figure: CurveFigure, *, legend: bool = True) -> Figure:
    """Return a matplotlib figure that belongs to the caller alone."""
    require("matplotlib")
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.lines import Line2D  # noqa: PLC0415

    columns = 2 if len(figure.panels) == 4 else min(3, len(figure.panels))
    rows = ceil(len(figure.panels) / columns)
    labels = {line.label: fill(line.label, int((WIDTH - LEGEND_KEY) / LETTER)) for line in figure.lines}
    longest = max((len(row) for label in labels.values() for row in label.split("\n")), default=0)
    fitting = int(WIDTH / (LEGEND_KEY + LETTER * longest))
    legend_columns = max(1, min(MOST_LEGEND_COLUMNS, fitting))
    tallest = max((label.count("\n") + 1 for label in labels.values()), default=1)
    legend_rows = tallest * ceil(len(labels) / legend_columns) if legend else 0
    height = rows * PANEL_HEIGHT + legend_rows * LEGEND_ROW + 0.1
    all_alike = len({panel.up for panel in figure.panels}) == 1
    with figure_style():
        drawn = Figure(figsize=(WIDTH, height), layout="constrained")
        grid = drawn.subplots(rows, columns, squeeze=False, sharey=all_alike)
        for axes, panel in zip(grid.flat, figure.panels, strict=False):
            _draw_panel(axes, panel, figure.losses)
            # Room for the note below all titles, so that they stay in one line.
            pad = 2 * NOTE_SIZE if figure.losses.cut else None
            width = int(WIDTH / columns / TITLE_LETTER)
            axes.set_title(fill(panel.title, width, break_on_hyphens=False), pad=pad)
        for axes in grid.flat[len(figure.panels) :]:
            axes.set_visible(False)
        for axes in grid[:, 1:].flat if all_alike else ():
            axes.set_ylabel("")
        if legend:
            handles = [Line2D([], [], label=labels[line.label], **_look(line)) for line in figure.lines]
            drawn.legend(handles=handles, loc="outside lower center", ncols=legend_columns, frameon=False)
    return drawn


def _look(line: Line) -> dict[str, Any]:
    """Return colour, dashes and marker of a line; the markers of dashed lines are hollow."""
    face = line.colour.light if line.dash == "solid" else "white"
    look = {"color": line.colour.light, "linestyle": (0, STROKES[line.dash]) if STROKES[line.dash] else "-"}
    return look | {"marker": line.colour.marker, "markersize": 3.5, "markerfacecolor": face}


def _marked(number: int, lines: int, points: int, across: str) -> int | tuple[int, int]:
    """Return which points of a line get a marker: all values that were tried, or a few, not below others'."""
    if across == "value":
        return 1
    every = max(1, points // MARKERS)
    return (number * every // max(1, lines), every)


def _draw_panel(axes: Axes, panel: Panel, losses: LossRange) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    for number, line in enumerate(panel.lines):
        band = line.band(panel.across, panel.up)
        if panel.has_log_rounds:  # round 0 is infinitely far to the left
            band = Band(*(values[band.places > 0] for values in band))
        marked = _marked(number, len(panel.lines), len(band.places), panel.across)
        axes.plot(band.places, band.mean, markevery=marked, **_look(line))
        if len(line.seeds) > 1:
            colour = line.colour.light
            axes.fill_between(band.places, band.low, band.high, color=colour, alpha=0.18, linewidth=0)
    axes.set_xlabel(panel.across_title)
    axes.set_ylabel(panel.up_title)
    clear_frame(axes)
    if panel.across == "value":
        # A tick at every value that was tried, on a logarithmic axis if they grow by factors.
        values = sorted({float(v) for line in panel.lines for v in line.band("value", panel.up).places})
        if values and values[0] > 0 and values[-1] >= WIDE * values[0]:
            axes.set_xscale("log")
        axes.set_xticks(values if len(values) <= MOST_MARKS else values[:: -(-len(values) // MOST_MARKS)])
        axes.set_xticks([], minor=True)
    elif panel.has_log_rounds:
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(MOST_STEPS, steps=(1, 2, 5, 10)))
    # 50000 is shown as 50k: three panels are narrow.
    axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k" if abs(x) >= 1000 else f"{x:g}")
    if panel.up == "loss" and losses.low > 0:  # losses of a user's own task may be negative
        axes.set_yscale("log")
        mark_losses(axes, losses)
        highest = (line.band(panel.across, "loss").high.max(initial=0) for line in panel.lines)
        if losses.cut and max(highest, default=0) > losses.high:
            note = axes.text(1, 1.01, CUT_NOTE, ha="right", va="bottom", transform=axes.transAxes)
            note.set_fontsize(NOTE_SIZE)
    elif panel.up == "accuracy":
        # The axis is extended to the outermost ticks: a curve that ends at 98 % is seen below 100 %.
        low, high = axes.get_ylim()
        ticks = MaxNLocator(MOST_ACCURACY_STEPS, steps=(1, 2, 5, 10))
        axes.set_yticks(ticks.tick_values(max(low, 0), min(high, 100)))


def mark_losses(axes: Axes, losses: LossRange) -> None:
    """Set the range of a loss axis, with ticks at powers of ten; in a short range also at 2 and 5."""
    from matplotlib.ticker import LogLocator, MaxNLocator  # noqa: PLC0415

    room = (losses.high / losses.low) ** 0.05 if losses.high > losses.low else 2.0
    low, high = losses.low / room, losses.high if losses.cut else losses.high * room
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if losses.high < 200 * losses.low else (1,)))
    if sum(low <= place <= high for place in axes.yaxis.get_majorticklocs()) < 2:
        # A range as short as 2.3 to 3.3 has none of these ticks, so it gets those of a linear axis.
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=(1, 2, 5, 10)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
