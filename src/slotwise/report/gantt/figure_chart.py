"""The Gantt chart as a matplotlib figure: the channel on top, a row for each device below.

The figure grows with the slots and devices it shows, so that a label that fits is legible at full size; one
that does not fit is omitted. pyplot's global figures are not touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from math import ceil
from typing import Any

import numpy as np

from slotwise.base.errors import NoEffectError
from slotwise.base.extras import importing
from slotwise.report.figure_grid import along_rows, figure_width, small_size
from slotwise.report.figure_options import USUAL, FigureOptions
from slotwise.report.figure_style import StyledFigure, figure_file, figure_of_axes, using_style
from slotwise.report.gantt.chart import ticks
from slotwise.report.gantt.drawing import DIGIT, LOOKS, Bar, Picture

with importing():
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

POINTS = 72  # per inch
PNG_DOTS = 150  # per inch
LEFT, RIGHT, BOTTOM, HEAD_LINE, ROUNDS, CHANNEL, GAP = 1.0, 0.3, 0.95, 0.24, 0.3, 0.5, 0.08  # inches
PAPER_BOTTOM, PAPER_CHANNEL, PAPER_RIGHT = 0.75, 0.3, 0.1  # of a figure of a given width
LARGEST_ZOOM = 1.8  # of the text around a large chart, which is viewed at a smaller scale
SMALLEST_FONT, TICK_FONT, LARGEST_FONT = 4.2, 8.0, 9.0
LEGEND_ROW = 0.3  # inches
BAR = 0.86  # height of a bar in its row
LINE = "#444444"


def gantt_file(picture: Picture, kind: str) -> bytes:
    """Return the content of a picture file; the same timeline gives the same bytes."""
    return figure_file(gantt_figure(picture), kind, PNG_DOTS)


def gantt_figure(picture: Picture, options: FigureOptions = USUAL, ax: Axes | None = None) -> Figure:
    """Return the chart as a figure that belongs to the caller alone, or draw it into axes of the caller's.

    Without a style or a width, the figure grows with the slots it shows. Otherwise it has no lines of text
    above the chart: the caption of a figure says them.
    """
    for field in fields(options):
        value = getattr(options, field.name)
        if field.name not in ("style", "width") and value != field.default:
            raise NoEffectError(field.name, value, "for a timeline")
    if ax is not None:
        options.refuse_own_figure()
        _Drawing(replace(picture, is_bare=True), size=_size_of(ax)).draw_into(ax)
        return figure_of_axes(ax)
    if options.style is None and options.width is None:
        return _Drawing(picture).figure()
    with using_style(options.style):
        width = figure_width(options, wide=True)
        return _Drawing(replace(picture, is_bare=True), width=width).figure()


def _size_of(axes: Axes) -> tuple[float, float]:
    """Return width and height of axes, in inches."""
    box = axes.get_window_extent()
    return box.width / axes.figure.dpi, box.height / axes.figure.dpi


class _Drawing:
    """Measures of one figure in inches, and its parts. Inside the axes, x is in slots and y in inches."""

    def __init__(
        self, picture: Picture, *, width: float | None = None, size: tuple[float, float] | None = None
    ) -> None:
        self.picture, self.window = picture, picture.window
        narrowest = 8 if len(picture.kinds) <= 5 else 10.5  # room for the legend
        self.plot_width = float(np.clip(4.5 + 0.14 * self.window.slots, narrowest, 26))
        self.row_height = float(np.clip(9 / picture.devices, 0.125, 0.3))
        self.zoom = float(np.clip(self.plot_width / 12, 1, LARGEST_ZOOM))
        self.smallest, self.tall, right = SMALLEST_FONT, CHANNEL, RIGHT
        if width is not None or size is not None:
            self.zoom, self.smallest = small_size() / TICK_FONT, small_size()
            self.tall, right = PAPER_CHANNEL, PAPER_RIGHT
        if width is not None:
            self.plot_width = width - LEFT * self.zoom - right
            self.row_height = float(np.clip(2.4 / picture.devices, 0.04, 0.2))
        if size is not None:
            self.plot_width = size[0]
            rows = size[1] - GAP - self.tall - ROUNDS * self.zoom
            self.row_height = max(0.02, rows / picture.devices)
        self.rows_height = self.row_height * picture.devices
        bottom = BOTTOM if width is None else PAPER_BOTTOM
        self.left, self.bottom, self.head_line = LEFT * self.zoom, bottom * self.zoom, HEAD_LINE * self.zoom
        self.channel = self.rows_height + GAP + self.tall / 2  # y of its middle
        self.plot_height = self.channel + self.tall / 2 + ROUNDS * self.zoom
        self.width = self.left + self.plot_width + right
        above = 0.05 if picture.is_bare else 0.3 + self.head_line * len(picture.head)
        self.height = self.bottom + self.plot_height + above
        self.slot = self.plot_width * POINTS / self.window.slots  # points

    def figure(self) -> Figure:
        figure = StyledFigure(figsize=(self.width, self.height), facecolor="white")
        place = (self.left, self.bottom, self.plot_width, self.plot_height)
        axes = figure.add_axes(tuple(np.divide(place, (self.width, self.height) * 2)))
        self._draw(axes)
        self._draw_head_and_legend(figure)
        return figure

    def draw_into(self, axes: Axes) -> None:
        """Draw the chart into axes of the caller's, with its legend below them."""
        self._draw(axes)
        style: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.5 / self.plot_height)}
        axes.legend(**along_rows(self._handles(), 2), frameon=False, fontsize=self._tick_font, **style)

    def _draw(self, axes: Axes) -> None:
        axes.set(xlim=self.window, ylim=(0, self.plot_height))
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        self._draw_axes(axes)
        channel = (self.window.first, self.channel - self.tall / 2)
        axes.add_patch(Rectangle(channel, self.window.slots, self.tall, color="#f1f1f1", lw=0))
        carried = self.picture.channel_bars(self.slot, self.tall * POINTS, self.smallest, LARGEST_FONT)
        self._draw_bars(axes, carried, self.tall, on_channel=True)
        height = self.row_height * BAR
        bars = self.picture.device_bars(self.slot, height * POINTS, self.smallest, LARGEST_FONT - 1)
        self._draw_bars(axes, bars, height, on_channel=False)
        # A number above the first slot of a round, and a thin line down from there.
        top = self.channel + self.tall / 2
        offset: dict[str, Any] = {"xytext": (3, 4), "textcoords": "offset points"}
        starts = self.picture.round_starts(lambda slot: slot * self.slot, self._number_width)
        for k, start in starts.items():
            axes.annotate(f"{k}", (start, top), fontsize=self._tick_font, **offset)
            axes.plot([start] * 2, [top, top + 0.14 * self.zoom], color=LINE, lw=0.7, ls="-", clip_on=False)
            axes.plot([start] * 2, [0, self.rows_height], color=LINE, lw=0.5, ls="-", alpha=0.55, zorder=3)

    @property
    def _tick_font(self) -> float:
        """Size of numbers on the axes, in points."""
        return TICK_FONT * self.zoom

    def _row(self, device: int) -> float:
        return self.rows_height - (device - 0.5) * self.row_height

    def _number_width(self, number: int) -> float:
        """Return the room of a number on an axis, in points."""
        return len(str(number)) * 8 * self.zoom * DIGIT + 8

    def _draw_axes(self, axes: Axes) -> None:
        devices, font = range(1, self.picture.devices + 1), LARGEST_FONT * self.zoom
        size = max(self.smallest, min(LARGEST_FONT, self.row_height * POINTS * 0.72))
        # Every device has a number, or as many as have room.
        step = ceil(1.15 * size / (self.row_height * POINTS)) if self.smallest > SMALLEST_FONT else 1
        shown = [n for n in devices if n == 1 or (n % step == 0 and n - 1 >= step)]
        axes.set_yticks([self._row(n) for n in shown], [str(n) for n in shown], fontsize=size)
        axes.tick_params(axis="y", length=0)
        axes.set_ylabel("device", fontsize=font, y=self.rows_height / 2 / self.plot_height, labelpad=6)
        room = self._number_width
        slots = ticks(range(*self.window), lambda slot: slot * self.slot, lambda slot: room(slot) + 4)
        axes.set_xticks(slots, [str(slot) for slot in slots], fontsize=self._tick_font)
        axes.set_xlabel("slot", fontsize=font)
        style: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "fontsize": font}
        first, top = self.window.first, self.channel + self.tall / 2
        axes.annotate("round", (first, top), xytext=(-8, 4), **style)
        axes.annotate("channel", (first, self.channel), xytext=(-8, 0), va="center", weight="bold", **style)

    def _draw_bars(self, axes: Axes, bars: Iterable[Bar], height: float, *, on_channel: bool) -> None:
        """Draw bars with their labels; all of one activity are one collection, which is fast."""
        corners: dict[int, list[list[tuple[float, float]]]] = {kind: [] for kind in LOOKS}
        for one, first, end, label, fit, middle, share in bars:
            look, y = LOOKS[one.kind], self._row(one.device)
            if on_channel:
                y = self.channel + self.tall * (0.5 - middle)
            thickness = height * share * look.thickness
            low, high = y - thickness / 2, y + thickness / 2
            corners[one.kind].append([(first, low), (first, high), (end, high), (end, low)])
            if fit:
                style: dict[str, Any] = {"fontsize": fit.size, "color": look.ink, "ha": "center"}
                style |= {"rotation": 90, "va": "center"} if fit.upright else {"va": "center_baseline"}
                axes.text((first + end) / 2, y, label, **style)
        edge = min(1.0, self.slot / 12) if on_channel else 0.0
        for kind, look in LOOKS.items():
            axes.add_collection(PolyCollection(corners[kind], fc=look.colour, ec="white", lw=edge))

    def _draw_head_and_legend(self, figure: Figure) -> None:
        for line, text in enumerate(() if self.picture.is_bare else self.picture.head):
            top = 1 - (0.14 + line * self.head_line) / self.height
            weight, size = "bold" if line == 0 else "normal", 10.5 * self.zoom
            figure.text(0.12 / self.width, top, text, va="top", fontsize=size, weight=weight)
        handles = self._handles()
        place = (0.1 / self.width, 0.05 / self.height)
        style: dict[str, Any] = {"frameon": False, "fontsize": 8.5 * self.zoom, "loc": "lower left"}
        for columns in range(len(handles), 0, -1):
            legend = figure.legend(**along_rows(handles, columns), bbox_to_anchor=place, **style)
            if legend.get_window_extent().x1 <= figure.bbox.x1:
                break
            legend.remove()
        more = legend.get_window_extent().height / figure.dpi - LEGEND_ROW * self.zoom
        if more > 0:  # the legend has several rows: the figure grows, and its parts keep their sizes
            self._grow(figure, more)

    def _grow(self, figure: Figure, more: float) -> None:
        """Make the figure higher below its axes, which keep their size."""
        figure.set_size_inches(self.width, self.height + more)
        for axes in figure.axes:
            place = (self.left, self.bottom + more, self.plot_width, self.plot_height)
            axes.set_position(tuple(np.divide(place, (self.width, self.height + more) * 2)))

    def _handles(self) -> list[Line2D]:
        return [
            Line2D(
                [],
                [],
                color=look.colour,
                lw=9 * self.zoom * look.thickness,
                label=look.title,
                solid_capstyle="butt",
            )
            for look in (LOOKS[kind] for kind in self.picture.kinds)
        ]
