"""Curves of one or several runs: global loss and accuracy against slots, loss against rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slotwise.learning import Point
from slotwise.report.curve_figures import draw_figure
from slotwise.report.curve_lines import COLOURS, CurveFigure, Line, loss_and_accuracy

BARS = "▁▂▃▄▅▆▇█"


def draw_curves(curves: Mapping[str, Sequence[Point]], kind: str) -> bytes:
    """The picture as a file of ``kind``: png, svg or pdf."""
    lines = tuple(
        Line(name, COLOURS[number % len(COLOURS)], number // len(COLOURS) % 2 == 1, (points,))
        for number, (name, points) in enumerate(curves.items())
    )
    return draw_figure(CurveFigure("curves", "", "", loss_and_accuracy(lines)), kind)


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """A curve in one line of text, from its lowest to its highest value."""
    if not values:
        return ""
    step = max(1.0, len(values) / width)
    chosen = [values[min(len(values) - 1, int(i * step))] for i in range(min(width, len(values)))]
    low, high = min(chosen), max(chosen)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in chosen)
