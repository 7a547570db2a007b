"""The Gantt chart as a matplotlib figure: the channel on top, a row for each device below.

The figure grows with the slots and devices it shows, so that a label that fits is legible at full size; one
that does not fit is omitted. pyplot's global figures are not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from slotwise.report.gantt.chart import (
    Activity,
    Interval,
    model_name,
    round_starts,
    shortest_uplink,
    ticks,
    transfer_label,
    transfers,
)
from slotwise.report.gantt.drawing import DIGIT, LEGEND_ORDER, LOOKS, Fit, Picture, fit

Numbers = NDArray[Any]
POINTS = 72  # per inch
PNG_DOTS = 150  # per inch
LEFT, RIGHT, BOTTOM, HEAD_LINE, ROUNDS, CHANNEL, GAP = 1.0, 0.3, 0.95, 0.24, 0.3, 0.5, 0.08  # inches
LARGEST_ZOOM = 1.8  # of the text around a large chart, which is viewed at a smaller scale
SMALLEST_FONT, LARGEST_FONT = 4.2, 9.0


STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "slotwise",
    "font.family": "DejaVu Sans",
}


def gantt_file(picture: Picture, file_format: Literal["svg", "png"]) -> bytes:
    """Return the content of a picture file; the same timeline gives the same bytes."""
    with mpl.rc_context(STYLE):
        file = BytesIO()
        metadata = {"Date": None} if file_format == "svg" else {}
        _Drawing(picture).figure().savefig(file, format=file_format, dpi=PNG_DOTS, metadata=metadata)
    return file.getvalue()


def gantt_figure(picture: Picture) -> Figure:
    """Return the chart as a figure that belongs to the caller alone."""
    with mpl.rc_context(STYLE):
        return _Drawing(picture).figure()


class _Drawing:
    """Measures of one figure in inches, and its parts."""

    def __init__(self, picture: Picture) -> None:
        self.picture, self.window = picture, picture.window
        narrowest = 8 if len(picture.kinds) <= 5 else 10.5  # room for the legend
        self.plot_width = float(np.clip(4.5 + 0.14 * self.window.slots, narrowest, 26))
        self.row_height = float(np.clip(9 / picture.devices, 0.125, 0.3))
        self.rows_height = self.row_height * picture.devices
        self.zoom = float(np.clip(self.plot_width / 12, 1, LARGEST_ZOOM))
        self.left, self.bottom, self.head_line = LEFT * self.zoom, BOTTOM * self.zoom, HEAD_LINE * self.zoom
        head = self.head_line * len(picture.head) + 0.3
        self.width = self.left + self.plot_width + RIGHT
        self.height = head + ROUNDS * self.zoom + CHANNEL + GAP + self.rows_height + self.bottom

    def figure(self) -> Figure:
        figure = Figure(figsize=(self.width, self.height), facecolor="white")
        FigureCanvasAgg(figure)
        channel = self._axes(figure, self.bottom + self.rows_height + GAP, CHANNEL)
        devices = self._axes(figure, self.bottom, self.rows_height)
        self._draw_head(figure)
        self._draw_channel(channel)
        self._draw_devices(devices)
        self._draw_rounds(channel, devices)
        self._draw_legend(figure)
        return figure

    def _axes(self, figure: Figure, bottom: float, height: float) -> Axes:
        place = (
            self.left / self.width,
            bottom / self.height,
            self.plot_width / self.width,
            height / self.height,
        )
        axes = figure.add_axes(place)
        axes.set_xlim(*self.window)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        return axes

    def _points(self, slots: float) -> float:
        """Return the length of ``slots`` slots in points, the unit of font sizes."""
        return slots * self.plot_width * POINTS / self.window.slots

    def _draw_head(self, figure: Figure) -> None:
        for line, text in enumerate(self.picture.head):
            top = 1 - (0.14 + line * self.head_line) / self.height
            weight = "bold" if line == 0 else "normal"
            size = 10.5 * self.zoom
            figure.text(0.12 / self.width, top, text, va="top", fontsize=size, weight=weight)

    def _draw_channel(self, axes: Axes) -> None:
        axes.set_ylim(0, 1)
        axes.set_yticks([0.5], ["channel"], fontsize=LARGEST_FONT * self.zoom, weight="bold")
        axes.set_xticks([])
        axes.add_patch(Rectangle((self.window.first, 0), self.window.slots, 1, color="#f1f1f1", lw=0))
        timeline = self.picture.timeline
        carried = transfers(timeline, self.window)
        uplink, broadcast = shortest_uplink(timeline), timeline.scenario.link_slots
        for kind in (Activity.SENDING, Activity.RECEIVING, Activity.LOST):
            shortest = broadcast if kind == Activity.RECEIVING else uplink
            self._draw_transfers(axes, kind, [one for one in carried if one.kind == kind], shortest)

    def _draw_transfers(self, axes: Axes, kind: Activity, carried: Sequence[Interval], shortest: int) -> None:
        """Draw blocks with labels of one size, which fits the longest label in the shortest block."""
        longest = max((len(transfer_label(one)) for one in carried), default=0)
        width = self._points(shortest)
        thickness = LOOKS[kind].thickness
        size = fit(longest, width, CHANNEL * POINTS * thickness, SMALLEST_FONT, LARGEST_FONT)
        clipped = [self.window.clip(one.start, one.end) for one in carried]
        left, right = np.array(clipped, dtype=float).reshape(-1, 2).T
        blocks = _blocks(left, right, np.full(len(left), 0.5), 0.5 * thickness)
        axes.add_collection(
            PolyCollection(blocks, fc=LOOKS[kind].colour, ec="white", lw=min(1.0, width / 12))
        )
        for one, visible in zip(carried, clipped, strict=True):
            if size and visible == (one.start, one.end):
                _write(axes, (one.start + one.end) / 2, 0.5, transfer_label(one), kind, size)

    def _draw_devices(self, axes: Axes) -> None:
        axes.set_ylim(self.picture.devices + 0.5, 0.5)
        size = min(LARGEST_FONT, self.row_height * POINTS * 0.72)
        numbers = range(1, self.picture.devices + 1)
        axes.set_yticks(list(numbers), [str(number) for number in numbers], fontsize=size)
        axes.set_ylabel("device", fontsize=LARGEST_FONT * self.zoom, labelpad=6)
        self._mark_slots(axes)
        for kind in self.picture.kinds:
            axes.add_collection(self._bars(kind))
        self._name_models(axes)

    def _mark_slots(self, axes: Axes) -> None:
        places = ticks(range(*self.window), self._points, lambda slot: self._number_width(slot) + 4)
        axes.set_xticks(places, [str(slot) for slot in places], fontsize=8 * self.zoom)
        axes.tick_params(axis="x", length=3)
        axes.set_xlabel("slot", fontsize=LARGEST_FONT * self.zoom)

    def _bars(self, kind: Activity) -> PolyCollection:
        rows = self.picture.visible.select(self.picture.visible.kind == kind)
        left = np.maximum(rows.start, self.window.first)
        right = np.minimum(rows.end, self.window.end)
        blocks = _blocks(left, right, rows.device, 0.43 * LOOKS[kind].thickness)
        return PolyCollection(blocks, facecolors=LOOKS[kind].colour, linewidths=0)

    def _name_models(self, axes: Axes) -> None:
        rows = self.picture.visible.select(self.picture.visible.kind == Activity.COMPUTING)
        for row in rows:
            first, last = self.window.clip(row.start, row.end)
            name = model_name(row.version)
            height = self.row_height * POINTS * 0.86
            size = fit(len(name), self._points(last - first), height, SMALLEST_FONT, LARGEST_FONT - 1)
            if size:
                _write(axes, (first + last) / 2, row.device, name, Activity.COMPUTING, size)

    def _draw_rounds(self, channel: Axes, devices: Axes) -> None:
        """Write a number above the first slot of a round, and draw a thin line down from there."""
        found = round_starts(self.picture.timeline, self.window)
        starts = {k: float(start) for k, start in found.items() if start >= self.window.first}
        for k in ticks(list(starts), lambda k: self._points(starts[k]), self._number_width):
            channel.annotate(
                f"{k}",
                (starts[k], 1),
                xytext=(3, 4),
                textcoords="offset points",
                fontsize=8 * self.zoom,
                annotation_clip=False,
            )
            channel.plot([starts[k]] * 2, [1, 1 + 0.28 * self.zoom], color="#444444", lw=0.7, clip_on=False)
            devices.axvline(starts[k], color="#444444", lw=0.5, alpha=0.55, zorder=3)
        channel.text(
            -8 / (self.plot_width * POINTS),
            1.12,
            "round",
            transform=channel.transAxes,
            ha="right",
            fontsize=LARGEST_FONT * self.zoom,
        )

    def _number_width(self, number: int) -> float:
        """Return the room of a number on an axis, in points."""
        return len(str(number)) * 8 * self.zoom * DIGIT + 8

    def _draw_legend(self, figure: Figure) -> None:
        thickness = 9 * self.zoom
        handles = [
            Line2D(
                [],
                [],
                color=look.colour,
                lw=thickness * look.thickness,
                solid_capstyle="butt",
                label=look.title,
            )
            for look in (LOOKS[kind] for kind in LEGEND_ORDER if kind in self.picture.kinds)
        ]
        figure.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=((self.left - 0.1) / self.width, 0.05 / self.height),
            ncol=len(handles),
            frameon=False,
            fontsize=8.5 * self.zoom,
        )


def _blocks(left: Numbers, right: Numbers, middle: Numbers, half: float) -> list[Numbers]:
    """Return the corners of rectangles ``half`` above and below their middle lines."""
    corners = [(left, middle - half), (left, middle + half), (right, middle + half), (right, middle - half)]
    return list(np.moveaxis(np.array(corners, dtype=float), 2, 0))


def _write(axes: Axes, x: float, y: float, text: str, kind: Activity, how: Fit) -> None:
    axes.text(
        x,
        y,
        text,
        ha="center",
        va="center_baseline" if not how.upright else "center",
        fontsize=how.size,
        color=LOOKS[kind].ink,
        rotation=90 if how.upright else 0,
    )
