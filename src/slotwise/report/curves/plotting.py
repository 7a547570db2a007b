"""Figures of curves for papers (matplotlib): PNG, PDF or SVG, as wide as two columns of text.

Figures are created without pyplot, whose global list of figures would keep them alive.
"""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from math import ceil
from textwrap import fill
from typing import TYPE_CHECKING, Any

from slotwise.report.curves.panels import AXIS_TITLES, CurveFigure, Line, LossRange, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, PANEL_HEIGHT, LEGEND_ROW = 7.2, 2.2, 0.19  # inches
LETTER, TITLE_LETTER = 0.068, 0.082  # inches: width of a letter in a legend, in a bold title
LEGEND_KEY = 0.5  # inches: a line sample and the gaps around it
MOST_LEGEND_COLUMNS = 6
DOTS_PER_INCH = 300
DASHES = (0, (4, 1.6))
WIDE = 20  # ratio of the largest to the smallest value from which an axis is logarithmic
MOST_MARKS = 8  # ticks that fit below a panel
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


def draw_figure(figure: CurveFigure, kind: str) -> bytes:
    """Return the content of a file of ``kind``: png, svg or pdf."""
    return save_figure(plot_figure(figure), kind)


def save_figure(figure: Figure, kind: str, dpi: int = DOTS_PER_INCH) -> bytes:
    """Return a figure as the content of a file, without dates so that equal figures give equal bytes."""
    buffer = io.BytesIO()
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})
    with figure_style():
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=undated)
    return buffer.getvalue()


def figure_style() -> AbstractContextManager[None]:
    """Return a context in which figures are made and saved; matplotlib's global settings stay as they are."""
    import matplotlib as mpl  # noqa: PLC0415  (half a second that most commands do without)

    return mpl.rc_context(STYLE)


def clear_frame(axes: Axes) -> None:
    """Draw a faint grid, and no frame above and on the right."""
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def plot_figure(figure: CurveFigure, *, legend: bool = True) -> Figure:
    """Return a matplotlib figure that belongs to the caller alone."""
    with figure_style():
        return _plot(figure, legend=legend)


def _plot(figure: CurveFigure, *, legend: bool) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    columns = 2 if len(figure.panels) == 4 else min(3, len(figure.panels))
    rows = ceil(len(figure.panels) / columns)
    labels = {line.label: fill(line.label, int((WIDTH - LEGEND_KEY) / LETTER)) for line in figure.lines}
    longest = max((len(row) for label in labels.values() for row in label.split("\n")), default=0)
    fitting = int(WIDTH / (LEGEND_KEY + LETTER * longest))
    legend_columns = max(1, min(MOST_LEGEND_COLUMNS, fitting))
    tallest = max((label.count("\n") + 1 for label in labels.values()), default=1)
    legend_rows = tallest * ceil(len(labels) / legend_columns) if legend else 0
    height = rows * PANEL_HEIGHT + legend_rows * LEGEND_ROW + 0.1
    drawn = Figure(figsize=(WIDTH, height), layout="constrained")
    grid = drawn.subplots(rows, columns, squeeze=False, sharey=_all_alike(figure))
    for axes, panel in zip(grid.flat, figure.panels, strict=False):
        _draw_panel(axes, panel, figure.losses)
        axes.set_title(fill(panel.title, int(WIDTH / columns / TITLE_LETTER)))
    for axes in grid.flat[len(figure.panels) :]:
        axes.set_visible(False)
    for axes in grid[:, 1:].flat if _all_alike(figure) else ():
        axes.set_ylabel("")
    if legend:
        handles = [_handle(line, labels[line.label]) for line in figure.lines]
        drawn.legend(handles=handles, loc="outside lower center", ncols=legend_columns, frameon=False)
    return drawn


def _all_alike(figure: CurveFigure) -> bool:
    return len({panel.up for panel in figure.panels}) == 1


def _draw_panel(axes: Axes, panel: Panel, losses: LossRange) -> None:
    for line in panel.lines:
        _draw_line(axes, line, panel)
    axes.set_xlabel(panel.across_title)
    axes.set_ylabel(AXIS_TITLES[panel.up])
    clear_frame(axes)
    if panel.across == "value":
        _mark_values(axes, panel)
    else:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(_thousands)
    if panel.up == "loss":
        axes.set_yscale("log")
        mark_losses(axes, losses)


def _mark_values(axes: Axes, panel: Panel) -> None:
    """Put a tick at every value that was tried, on a logarithmic axis if they grow by factors."""
    values = sorted({float(v) for line in panel.lines for v in line.band("value", panel.up).places})
    if values and values[0] > 0 and values[-1] >= WIDE * values[0]:
        axes.set_xscale("log")
    axes.set_xticks(values if len(values) <= MOST_MARKS else values[:: -(-len(values) // MOST_MARKS)])
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(_thousands)


def mark_losses(axes: Axes, losses: LossRange) -> None:
    """Set the range of a loss axis, with ticks at powers of ten; in a short range also at 2 and 5."""
    from matplotlib.ticker import LogLocator  # noqa: PLC0415

    room = (losses.high / losses.low) ** 0.05 if losses.high > losses.low else 2.0
    axes.set_ylim(losses.low / room, losses.high if losses.cut else losses.high * room)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if losses.high < 200 * losses.low else (1,)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")


def _draw_line(axes: Axes, line: Line, panel: Panel) -> None:
    band = line.band(panel.across, panel.up)
    style: Any = DASHES if line.dashed else "-"
    marker: Any = "o" if panel.across == "value" else None
    axes.plot(band.places, band.mean, color=line.colour.light, linestyle=style, marker=marker, markersize=3)
    if len(line.seeds) > 1:
        axes.fill_between(band.places, band.low, band.high, color=line.colour.light, alpha=0.18, linewidth=0)


def _handle(line: Line, label: str) -> object:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    style: Any = DASHES if line.dashed else "-"
    return Line2D([], [], color=line.colour.light, linestyle=style, label=label)


def _thousands(value: float, position: float) -> str:
    """Format 50000 as ``50k``: three panels are narrow."""
    del position
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"
