"""Curves drawn with matplotlib: one panel into given axes, or a figure of several with a legend."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np

from slotwise.base.extras import importing
from slotwise.report.colours import DASHES, STROKES, Colour
from slotwise.report.curves import Band, CurveFigure, Line, LossRange, Panel, Spread
from slotwise.report.figure_grid import Grid, fitting_labels, small_size
from slotwise.report.figure_options import FigureOptions
from slotwise.report.figure_style import StyledFigure

with importing():
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator, MaxNLocator

WIDE = 10  # ratio of the largest to the smallest value from which an axis is logarithmic
MARKERS_PER_LINE = 5
MOST_MARKS = 8  # values that were tried and fit below a panel
MOST_STEPS = 6  # between the ticks of slots, rounds, updates or joules
STEP = 3.3  # width of such a step, in font sizes
CUT_NOTE = "↑ higher losses not shown"
MOST_ACCURACY_STEPS = 5  # between the ticks of accuracies


def draw_figure(figure: CurveFigure, options: FigureOptions, *, legend: bool = True) -> StyledFigure:
    """Return a figure with all panels, in the settings of matplotlib as they are now."""
    alike = len({panel.up for panel in figure.panels}) == 1
    grid = Grid.of(len(figure.panels), options, sharey=alike)
    draw_panels(grid.axes, figure, options.spread)
    # Room for a note below all titles, so that they stay in one line.
    noted = any(note.get_text() == CUT_NOTE for axes in grid.axes for note in axes.texts)
    for number, (axes, panel) in enumerate(zip(grid.axes, figure.panels, strict=True)):
        grid.set_title(number, panel.title, pad=1.5 * small_size() if noted else None)
        if alike and number % grid.columns and panel.up_title == figure.panels[number - 1].up_title:
            axes.set_ylabel("")
    if legend:
        grid.add_legend(_handles(figure.lines), figure.legend_title)
    return grid.figure


def draw_panels(axes: Sequence[Axes], figure: CurveFigure, spread: Spread) -> None:
    """Draw each panel into one of the axes; all loss axes have one range."""
    losses = figure.loss_range(spread)
    for one, panel in zip(axes, figure.panels, strict=True):
        _draw_panel(one, panel, losses, spread, line_styles(figure.lines))


def line_styles(lines: Sequence[Line]) -> dict[str, dict[str, Any]]:
    """Return colour, dashes and marker of each line by its label.

    Solid lines take the line styles of matplotlib's settings in turn, if these have any. Dashed lines have
    hollow markers.
    """
    cycled = mpl.rcParams["axes.prop_cycle"].by_key().get("linestyle", ["-"])
    solid = all(line.dash == DASHES[0] for line in lines)
    looks = {}
    for line, usual in zip(lines, islice(cycle(cycled), len(lines)), strict=True):
        strokes = STROKES[line.dash]
        dashes: Any = (0, strokes) if strokes else usual if solid else "-"
        face = line.colour.light if dashes in ("-", "solid") else "white"
        looks[line.label] = {"color": line.colour.light, "linestyle": dashes, "marker": line.colour.marker}
        looks[line.label] |= {"markerfacecolor": face}
    return looks


def add_legend(axes: Axes, lines: Sequence[Line]) -> None:
    """Add a legend inside axes that belong to the user."""
    axes.legend(handles=_handles(lines))


def _handles(lines: Sequence[Line]) -> list[Line2D]:
    looks = line_styles(lines)
    return [Line2D([], [], label=line.label, **looks[line.label]) for line in lines]


def _marked(number: int, lines: int, points: int, across: str) -> int | tuple[int, int]:
    """Return which points of a line get a marker: all values that were tried, or a few, not below others'."""
    if across == "value":
        return 1
    every = max(1, points // MARKERS_PER_LINE)
    return (number * every // max(1, lines), every)


def _draw_panel(
    axes: Axes, panel: Panel, losses: LossRange, spread: Spread, looks: dict[str, dict[str, Any]]
) -> None:
    for number, line in enumerate(panel.lines):
        band = line.band(panel.across, panel.up, spread)
        if panel.has_log_rounds:  # round 0 is infinitely far to the left
            band = Band(*(values[band.places > 0] for values in band))
        marked = _marked(number, len(panel.lines), len(band.places), panel.across)
        axes.plot(band.places, band.mean, markevery=marked, label=line.label, **looks[line.label])
        if len(line.seeds) > 1:
            _draw_band(axes, band, line.colour, most=100 if panel.up == "accuracy" else None)
    axes.set(xlabel=panel.across_title, ylabel=panel.up_title)
    _set_places(axes, panel)
    if panel.up == "loss" and losses.low > 0:  # losses of a user's own task may be negative
        axes.set_yscale("log")
        mark_losses(axes, losses)
        highest = (line.band(panel.across, "loss", spread).high.max(initial=0) for line in panel.lines)
        if losses.cut and max(highest, default=0) > losses.high:
            style: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": small_size()}
            axes.text(1, 1.01, CUT_NOTE, transform=axes.transAxes, **style)
    elif panel.up == "accuracy":
        # The axis is extended to the outermost ticks: a curve that ends at 98 % is seen below 100 %.
        low, high = axes.get_ylim()
        ticks = MaxNLocator(MOST_ACCURACY_STEPS, steps=(1, 2, 5, 10))
        axes.set_yticks(ticks.tick_values(max(low, 0), min(high, 100)))


def _draw_band(axes: Axes, band: Band, colour: Colour, most: float | None) -> None:
    """Draw the spread over the seeds; not above the highest possible value, or below 0 if there is one."""
    low, high = (band.low, band.high) if most is None else np.clip((band.low, band.high), 0, most)
    axes.fill_between(band.places, low, high, color=colour.light, alpha=0.18, linewidth=0)


def _set_places(axes: Axes, panel: Panel) -> None:
    """Set scale and ticks of the horizontal axis."""
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
        steps = min(MOST_STEPS, fitting_labels(axes, STEP))
        axes.xaxis.set_major_locator(MaxNLocator(steps, steps=(1, 2, 5, 10)))
    # 50000 is shown as 50k: panels are narrow.
    axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k" if abs(x) >= 1000 else f"{x:g}")


def mark_losses(axes: Axes, losses: LossRange) -> None:
    """Set the range of a loss axis, with ticks at powers of ten; in a short range also at 2 and 5."""
    room = (losses.high / losses.low) ** 0.05 if losses.high > losses.low else 2.0
    low, high = losses.low / room, losses.high if losses.cut else losses.high * room
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if losses.high < 200 * losses.low else (1,)))
    if sum(low <= place <= high for place in axes.yaxis.get_majorticklocs()) < 2:
        # A range as short as 2.3 to 3.3 has none of these ticks, so it gets those of a linear axis.
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=(1, 2, 5, 10)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
