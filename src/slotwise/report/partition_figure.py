"""Pictures of a partition: samples of each label on each device, and sizes; for papers and for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slotwise.base.extras import require
from slotwise.data.label_counts import LabelCounts
from slotwise.report.figure_options import USUAL, FigureOptions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NUMBERED = 12  # devices whose numbers of samples are written into the cells
MOST_LABELS_NUMBERED = 20
MOST_TICKS = 10
SIZES_HEIGHT, LABEL_HEIGHT, MARGINS = 0.8, 0.19, 0.75  # inches
SHADES = "·░▒▓█"  # the first for none
UNBROKEN = "\N{NO-BREAK SPACE}"
BARS = "▁▂▃▄▅▆▇█"
TITLE_SHARE = 0.94  # of the width of the figure
COLOURS = "Blues"
LIGHTEST = 0.15  # share of the largest count by which the colours start above white
DARK = 0.6  # share of the largest count from which numbers are white


def partition_figure(counts: LabelCounts, options: FigureOptions = USUAL, ax: Axes | None = None) -> Figure:
    """Return a figure: the sizes of the devices as bars, and below them a map of label × device.

    In axes of your own only the map is drawn.
    """
    require("matplotlib")
    # Half a second that most commands do without.
    from slotwise.report.figure_grid import break_title, figure_width  # noqa: PLC0415
    from slotwise.report.figure_style import StyledFigure, figure_of_axes, using_style  # noqa: PLC0415

    if ax is not None:
        options.refuse_own_figure()
        _draw_map(ax, counts)
        return figure_of_axes(ax)
    labels, sizes = counts.counts.shape[1], counts.sizes
    unequal, map_height = sizes.min() < sizes.max(), min(max(labels, 5), 30) * LABEL_HEIGHT
    heights = (SIZES_HEIGHT, map_height) if unequal else (map_height,)
    with using_style(options.style):
        width = figure_width(options, wide=True)
        figure = StyledFigure(figsize=(width, sum(heights) + MARGINS), layout="constrained")
        cells = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
        title = counts.title if unequal else f"{counts.title}, {sizes[0]:,} samples each"
        # Lines end after commas: other spaces do not break.
        written = cells[0].set_title(re.sub("(?<!,) ", UNBROKEN, title))
        break_title(written, TITLE_SHARE * figure.bbox.width)
        written.set_text(written.get_text().replace(UNBROKEN, " "))
        for axes in cells[:-1]:
            _draw_sizes(axes, sizes)
        _draw_map(cells[-1], counts)
    return figure


def _draw_sizes(axes: Axes, sizes: NDArray[np.int64]) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    axes.bar(np.arange(1, len(sizes) + 1), sizes, width=0.8 if len(sizes) <= 60 else 1.0, color="#4a6fa5")
    axes.set_ylabel("samples")
    ticks = MaxNLocator(3, integer=True).tick_values(0, sizes.max())
    axes.set_yticks(ticks)
    axes.set_ylim(0, ticks[-1])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(bottom=False)


def _draw_map(axes: Axes, counts: LabelCounts) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    devices, labels = counts.counts.shape
    edges = np.arange(devices + 1) + 0.5, np.arange(labels + 1) - 0.5
    most = max(1, int(counts.counts.max()))
    # No samples are white, and few are not: the colours of the map start above its lightest.
    held = np.ma.masked_equal(counts.counts.T, 0)
    drawn = axes.pcolormesh(*edges, held, cmap=COLOURS, vmin=-LIGHTEST * most, vmax=most, rasterized=True)
    axes.set(xlabel="device", ylabel="label", xlim=(0.5, devices + 0.5), ylim=(labels - 0.5, -0.5))
    _mark_devices(axes, devices)
    axes.yaxis.set_major_locator(MaxNLocator(min(labels, 11), integer=True, steps=[1, 2, 5, 10]))
    if labels <= MOST_LABELS_NUMBERED:
        axes.set_yticks(range(labels))
    bar = axes.figure.colorbar(drawn, ax=axes, pad=0.01, aspect=30)
    bar.set_label("samples")
    ticks = np.asarray(MaxNLocator(4, integer=True).tick_values(0, most))
    bar.ax.set_ylim(min(1, most - 1), most)  # none is white, and no colour of the bar
    bar.set_ticks([1, *ticks[(ticks > 1) & (ticks <= most)]])
    bar.ax.yaxis.set_major_formatter("{x:,.0f}")
    if devices <= MOST_NUMBERED and labels <= MOST_LABELS_NUMBERED:
        _write_numbers(axes, counts.counts)


def _mark_devices(axes: Axes, devices: int) -> None:
    """Mark every device, or the first and about ten others at round numbers."""
    step = next(step for step in _round_numbers() if devices / step <= MOST_TICKS + 2)
    axes.set_xticks(sorted({1, *range(step, devices + 1, step)}))


def _round_numbers() -> Iterator[int]:
    factor = 1
    while True:
        yield from (factor, 2 * factor, 5 * factor)
        factor *= 10


def _write_numbers(axes: Axes, counts: NDArray[np.int64]) -> None:
    for (device, label), count in np.ndenumerate(counts):
        colour = "white" if count > DARK * counts.max() else "black"
        if count:
            text = axes.text(device + 1, label, f"{count:,}", ha="center", va="center", color=colour)
            text.set_fontsize(7)


def partition_text(counts: LabelCounts, width: int) -> str:
    """Return the map as text: numbers if they fit the width, otherwise a shade for each label and device."""
    lines = _numbers_text(counts)
    if max(map(len, lines)) > width:
        lines = _shades_text(counts, width)
    return "\n".join([counts.title, counts.describe(), "", *lines])


def _numbers_text(counts: LabelCounts) -> list[str]:
    """Return a line for each label and a column for each device."""
    table = [["device", *map(str, range(1, len(counts.counts) + 1))]]
    table += [
        [f"label {label}", *(f"{count:,}" if count else "·" for count in own)]
        for label, own in enumerate(counts.counts.T)
    ]
    table.append(["samples", *(f"{size:,}" for size in counts.sizes)])
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    first, *others = widths
    return [
        "  ".join(
            [row[0].ljust(first), *(cell.rjust(size) for cell, size in zip(row[1:], others, strict=True))]
        )
        for row in table
    ]


def _shades_text(counts: LabelCounts, width: int) -> list[str]:
    """Return bands of devices, one character each, with a line for each label and one for the sizes."""
    most, margin = max(1, int(counts.counts.max())), len(f"label {counts.counts.shape[1] - 1}") + 2
    # A cell that is not empty has a shade, however few samples it has.
    shades = np.ceil(counts.counts / most * (len(SHADES) - 1)).astype(int)
    bars = np.rint(counts.sizes / counts.sizes.max() * (len(BARS) - 1)).astype(int)
    lines: list[str] = []
    for first in range(0, len(shades), width - margin):
        band = slice(first, first + width - margin)
        last = min(band.stop, len(shades))
        lines.append(f"{'':{margin}}devices {first + 1:,} to {last:,}")
        lines += [
            f"{f'label {label}':{margin}}{''.join(SHADES[shade] for shade in own[band])}"
            for label, own in enumerate(shades.T)
        ]
        lines.append(f"{'samples':{margin}}{''.join(BARS[bar] for bar in bars[band])}")
        lines.append("")
    steps = [f"{most * step / (len(SHADES) - 1):,.0f}" for step in range(1, len(SHADES))]
    named = ", ".join(f"{shade} up to {step}" for shade, step in zip(SHADES[1:], steps, strict=True))
    return [*lines, f"{SHADES[0]} none, {named} samples; ▁ to █: sizes up to {counts.sizes.max():,}"]
