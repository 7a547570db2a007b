"""The picture of a recommendation: the curves of the pilots, the best and the runner-up in colour.

The others are grey and end at their rung. The axis of slots is logarithmic, so that the rungs, which double,
are equally far apart.
"""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slotwise.recommendation.answer import Recommendation, Standing
from slotwise.recommendation.candidates import rung_slot
from slotwise.report.curves import AXIS_TITLES, BLUE, VERMILLION, Colour, CurveFigure, Line, Panel, Up
from slotwise.report.plotting import STYLE, mark_losses

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT, TEXT_ROW = 7.2, 3.4, 0.12  # inches
DOTS_PER_INCH = 200
GREY = Colour("#9A9A9A", "#9A9A9A")
LABEL_GAP = 0.05  # smallest distance of two labels, as a share of the height
CLOSE = 1.4  # rungs closer than this factor have their texts on the left and on the right
FIRST_PART = 1 / 32  # start of the axis as a share of the deadline: half of the first rung


@dataclass(frozen=True)
class _Drawn:
    """The line of a candidate, with its width."""

    standing: Standing
    line: Line
    width: float


def draw_pilots(answer: Recommendation, kind: str) -> bytes:
    """Return the picture as a file of ``kind``, png or pdf; the same pilots give the same bytes."""
    import matplotlib as mpl  # noqa: PLC0415  (half a second that most commands do without)

    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        metadata: Any = {"pdf": {"CreationDate": None}}.get(kind, {})
        _figure(answer).savefig(buffer, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)
    return buffer.getvalue()


def _figure(answer: Recommendation) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    quantity, drawn = answer.finding.question.metric.quantity, _drawn(answer)
    longest = max(Counter(standing.slot for standing in answer.standings).values())
    figure = Figure(figsize=(WIDTH, HEIGHT + longest * TEXT_ROW), layout="constrained")
    axes = figure.subplots()
    for one in reversed(drawn):  # the best on top
        _draw(axes, one, quantity)
    _mark_axes(axes, answer, quantity, drawn)
    _label(axes, drawn, quantity)
    return figure


def _drawn(answer: Recommendation) -> list[_Drawn]:
    found = []
    begin = answer.finding.question.base.deadline * FIRST_PART
    for standing in answer.standings:
        curves = answer.finding.curves[standing.candidate]
        seeds = tuple(tuple(point for point in points if point.slot >= begin) for points in curves)
        colour, width = GREY, 0.9
        if standing is answer.best:
            colour, width = BLUE, 1.8
        elif standing is answer.runner_up:
            colour, width = VERMILLION, 1.4
        line = Line(standing.candidate.label, colour, False, seeds)
        if len(line.band("slot", "loss").places):  # neither diverged at once nor still at the first model
            found.append(_Drawn(standing, line, width))
    return found


def _draw(axes: Axes, one: _Drawn, quantity: Up) -> None:
    band = one.line.band("slot", quantity)
    axes.plot(band.places, band.mean, color=one.line.colour.light, linewidth=one.width)
    if len(one.line.seeds) > 1 and one.line.colour != GREY:
        colour = one.line.colour.light
        axes.fill_between(band.places, band.low, band.high, color=colour, alpha=0.15, linewidth=0)


def _mark_axes(axes: Axes, answer: Recommendation, quantity: Up, drawn: list[_Drawn]) -> None:
    deadline = answer.finding.question.base.deadline
    slots = [rung_slot(deadline, rung.sixteenths) for rung in answer.finding.rungs]
    axes.set_xscale("log", base=2)
    axes.set_xlim(max(1.0, deadline * FIRST_PART), deadline * 1.25)
    axes.set_xticks(slots, [_rung_text(answer, slot) for slot in slots], verticalalignment="top")
    axes.set_xticks([], minor=True)
    if len(slots) > 1 and slots[-1] < CLOSE * slots[-2]:
        before, last = axes.get_xticklabels()[-2:]
        before.set_horizontalalignment("right")
        last.set_horizontalalignment("left")
    axes.axvline(deadline, color="#8A8A8A", linewidth=0.7)
    axes.annotate("deadline", (deadline, 1.01), xycoords=("data", "axes fraction"), ha="center", fontsize=7)
    for slot in slots:
        axes.axvline(slot, color="#CFCFCF", linewidth=0.7, linestyle=":", zorder=0)
    axes.set_xlabel(
        f"{AXIS_TITLES['slot']} at which pilots were judged, of {deadline:,}, with those eliminated there"
    )
    axes.set_ylabel(AXIS_TITLES[quantity])
    axes.spines[["top", "right"]].set_visible(False)
    if quantity == "loss":
        axes.set_yscale("log")
        shown = tuple(one.line for one in drawn)
        mark_losses(axes, CurveFigure("", "", "", (Panel("", "slot", "loss", shown),)).losses)
    target = answer.finding.question.metric.target
    if target is not None:
        value = target.value * (100 if quantity == "accuracy" else 1)
        axes.axhline(value, color="#1A1A1A", linewidth=0.7, linestyle="--")


def _rung_text(answer: Recommendation, slot: int) -> str:
    """Return the slot, and below it the candidates whose lines end there."""
    out = [
        standing.candidate.label + (" diverged" if standing.diverged else "")
        for standing in answer.standings
        if standing.slot == slot and standing not in (answer.best, answer.runner_up)
    ]
    return "\n".join([f"{slot:,}", *out])


def _label(axes: Axes, drawn: list[_Drawn], quantity: Up) -> None:
    """Write the names of the best and the runner-up where their lines end."""
    named = [one for one in drawn if one.line.colour != GREY]
    bands = [one.line.band("slot", quantity) for one in named]
    ends = [(band.places[-1], band.mean[-1]) for band in bands]
    places = [axes.transAxes.inverted().transform(axes.transData.transform(end)) for end in ends]
    heights = _apart([float(height) for _, height in places])
    for one, (across, _), height in zip(named, places, heights, strict=True):
        axes.text(
            across + 0.008,
            height,
            one.line.label,
            transform=axes.transAxes,
            color=one.line.colour.light,
            fontweight="bold" if one.line.colour == BLUE else "normal",
            verticalalignment="center",
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
        )


def _apart(heights: list[float]) -> list[float]:
    """Return two heights with a gap between them, as shares of the height of the axes."""
    if len(heights) < 2 or abs(heights[0] - heights[1]) >= LABEL_GAP:
        return heights
    middle, sign = sum(heights) / 2, 1 if heights[0] >= heights[1] else -1
    return [middle + sign * LABEL_GAP / 2, middle - sign * LABEL_GAP / 2]
