"""Curves of one or several runs: global loss and accuracy against slots, loss against rounds."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from slotwise.learning import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curves = Mapping[str, Sequence[Point]]

# Okabe and Ito's palette, told apart by colour-blind readers; dashes tell it in greyscale.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")
BARS = "▁▂▃▄▅▆▇█"


def draw_curves(curves: Curves, kind: str) -> bytes:
    """The picture as a file of ``kind``: png, svg or pdf."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (half a second that most commands do without)

    figure = Figure(figsize=(12, 3.8), layout="constrained")
    by_slot, accuracy, by_round = figure.subplots(1, 3)
    for number, (name, points) in enumerate(curves.items()):
        style = {
            "color": COLOURS[number % len(COLOURS)],
            "linestyle": DASHES[number // len(COLOURS) % len(DASHES)],
        }
        slots, rounds = [p.slot for p in points], [p.round for p in points]
        losses = [p.loss for p in points]
        by_slot.plot(slots, losses, label=name, **style)
        accuracy.plot(slots, [100 * p.accuracy for p in points], **style)
        by_round.plot(rounds, losses, **style)
    _label(by_slot, "time slots", "global loss")
    _label(accuracy, "time slots", "test accuracy (%)")
    _label(by_round, "training rounds", "global loss")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=160)
    return buffer.getvalue()


def _label(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    if "loss" in y:
        axes.set_yscale("log")


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """A curve in one line of text, from its lowest to its highest value."""
    if not values:
        return ""
    step = max(1.0, len(values) / width)
    chosen = [values[min(len(values) - 1, int(i * step))] for i in range(min(width, len(values)))]
    low, high = min(chosen), max(chosen)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in chosen)
