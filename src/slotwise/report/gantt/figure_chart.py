"""The Gantt chart as a matplotlib figure: the channel on top, a row for each device below.

The figure grows with the slots and devices it shows, so that a label that fits is legible at full size; one
that does not fit is omitted. pyplot's global figures are not touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from slotwise.base.extras import importing
from slotwise.report.figure_options import USUAL, FigureOptions
from slotwise.report.figure_style import StyledFigure, figure_file
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
LARGEST_ZOOM = 1.8  # of the text around a large chart, which is viewed at a smaller scale
SMALLEST_FONT, LARGEST_FONT = 4.2, 9.0
BAR = 0.86  # height of a bar in its row
LINE = "#444444"


def gantt_file(picture: Picture, kind: str) -> bytes:
    """Return the content of a picture file; the same timeline gives the same bytes."""
    return figure_file(gantt_figure(picture), kind, PNG_DOTS)


def gantt_figure(picture: Picture, options: FigureOptions = USUAL, ax: Axes | None = None) -> Figure:
    """Return the chart as a figure that belongs to the caller alone."""
    del options, ax
    return _Drawing(picture).figure()


class _Drawing:
    """Measures of one figure in inches, and its parts. Inside the axes, x is in slots and y in inches."""

    def __init__(self, picture: Picture) -> None:
        self.picture, self.window = picture, picture.window
        narrowest = 8 if len(picture.kinds) <= 5 else 10.5  # room for the legend
        self.plot_width = float(np.clip(4.5 + 0.14 * self.window.slots, narrowest, 26))
        self.row_height = float(np.clip(9 / picture.devices, 0.125, 0.3))
        self.rows_height = self.row_height * picture.devices
        self.zoom = float(np.clip(self.plot_width / 12, 1, LARGEST_ZOOM))
        self.left, self.bottom, self.head_line = LEFT * self.zoom, BOTTOM * self.zoom, HEAD_LINE * self.zoom
        self.channel = self.rows_height + GAP + CHANNEL / 2  # y of its middle
        self.plot_height = self.channel + CHANNEL / 2 + ROUNDS * self.zoom
        self.width = self.left + self.plot_width + RIGHT
        self.height = self.bottom + self.plot_height + self.head_line * len(picture.head) + 0.3
        self.slot = self.plot_width * POINTS / self.window.slots  # points

    def figure(self) -> Figure:
        figure = StyledFigure(figsize=(self.width, self.height), facecolor="white")
        place = (self.left, self.bottom, self.plot_width, self.plot_height)
        axes = figure.add_axes(tuple(np.divide(place, (self.width, self.height) * 2)))
        axes.set(xlim=self.window, ylim=(0, self.plot_height))
        axes.spines[:].set_visible(False)
        self._draw_axes(axes)
        channel = (self.window.first, self.channel - CHANNEL / 2)
        axes.add_patch(Rectangle(channel, self.window.slots, CHANNEL, color="#f1f1f1", lw=0))
        carried = self.picture.channel_bars(self.slot, CHANNEL * POINTS, SMALLEST_FONT, LARGEST_FONT)
        self._draw_bars(axes, carried, CHANNEL, on_channel=True)
        height = self.row_height * BAR
        bars = self.picture.device_bars(self.slot, height * POINTS, SMALLEST_FONT, LARGEST_FONT - 1)
        self._draw_bars(axes, bars, height, on_channel=False)
        # A number above the first slot of a round, and a thin line down from there.
        top = self.channel + CHANNEL / 2
        offset: dict[str, Any] = {"xytext": (3, 4), "textcoords": "offset points"}
        starts = self.picture.round_starts(lambda slot: slot * self.slot, self._number_width)
        for k, start in starts.items():
            axes.annotate(f"{k}", (start, top), fontsize=8 * self.zoom, **offset)
            axes.plot([start] * 2, [top, top + 0.14 * self.zoom], color=LINE, lw=0.7, clip_on=False)
            axes.plot([start] * 2, [0, self.rows_height], color=LINE, lw=0.5, alpha=0.55, zorder=3)
        self._draw_head_and_legend(figure)
        return figure

    def _row(self, device: int) -> float:
        return self.rows_height - (device - 0.5) * self.row_height

    def _number_width(self, number: int) -> float:
        """Return the room of a number on an axis, in points."""
        return len(str(number)) * 8 * self.zoom * DIGIT + 8

    def _draw_axes(self, axes: Axes) -> None:
        devices, font = range(1, self.picture.devices + 1), LARGEST_FONT * self.zoom
        size = min(LARGEST_FONT, self.row_height * POINTS * 0.72)
        axes.set_yticks([self._row(n) for n in devices], [str(n) for n in devices], fontsize=size)
        axes.tick_params(axis="y", length=0)
        axes.set_ylabel("device", fontsize=font, y=self.rows_height / 2 / self.plot_height, labelpad=6)
        room = self._number_width
        slots = ticks(range(*self.window), lambda slot: slot * self.slot, lambda slot: room(slot) + 4)
        axes.set_xticks(slots, [str(slot) for slot in slots], fontsize=8 * self.zoom)
        axes.set_xlabel("slot", fontsize=font)
        style: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "fontsize": font}
        first, top = self.window.first, self.channel + CHANNEL / 2
        axes.annotate("round", (first, top), xytext=(-8, 4), **style)
        axes.annotate("channel", (first, self.channel), xytext=(-8, 0), va="center", weight="bold", **style)

    def _draw_bars(self, axes: Axes, bars: Iterable[Bar], height: float, *, on_channel: bool) -> None:
        """Draw bars with their labels; all of one activity are one collection, which is fast."""
        corners: dict[int, list[list[tuple[float, float]]]] = {kind: [] for kind in LOOKS}
        for one, first, end, label, fit, middle, share in bars:
            look, y = LOOKS[one.kind], self._row(one.device)
            if on_channel:
                y = self.channel + CHANNEL * (0.5 - middle)
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
        for line, text in enumerate(self.picture.head):
            top = 1 - (0.14 + line * self.head_line) / self.height
            weight, size = "bold" if line == 0 else "normal", 10.5 * self.zoom
            figure.text(0.12 / self.width, top, text, va="top", fontsize=size, weight=weight)
        handles = []
        for look in (LOOKS[kind] for kind in self.picture.kinds):
            width = 9 * self.zoom * look.thickness
            handles += [Line2D([], [], color=look.colour, lw=width, label=look.title, solid_capstyle="butt")]
        place = ((self.left - 0.1) / self.width, 0.05 / self.height)
        style: dict[str, Any] = {"frameon": False, "fontsize": 8.5 * self.zoom, "ncol": len(handles)}
        figure.legend(handles=handles, loc="lower left", bbox_to_anchor=place, **style)
