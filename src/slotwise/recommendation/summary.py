"""A recommendation as text (a table of the standings and sentences), and the picture of its pilots."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from slotwise.recommendation.answer import Recommendation, Standing
from slotwise.recommendation.candidates import Candidate, rung_slot
from slotwise.report.curves import AXIS_TITLES, BLUE, VERMILLION, Colour, CurveFigure, Line, Panel, Up
from slotwise.report.plotting import figure_style, mark_losses, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT, TEXT_ROW = 7.2, 3.4, 0.12  # inches
DOTS_PER_INCH = 200
GREY = Colour("#9A9A9A", "#9A9A9A")
LINE_WIDTHS = {BLUE: 1.8, VERMILLION: 1.4, GREY: 0.9}  # the best, the runner-up, the others
LABEL_GAP = 0.05  # smallest distance of two labels, as a share of the height
CLOSE = 1.4  # rungs closer than this factor have their texts on the left and on the right
FIRST_PART = 1 / 32  # start of the axis as a share of the deadline: half of the first rung


def headings(answer: Recommendation) -> tuple[str, ...]:
    """Return the headings of the table; the first and the last column are text, the others numbers."""
    return ("", "delay", "rounds", "stale", answer.finding.question.metric.value_name, "at slot", "")


def row(answer: Recommendation, standing: Standing) -> tuple[str, ...]:
    """Return the cells of one candidate."""
    candidate = standing.candidate
    mark = "best" if standing is answer.best else "runner-up" if standing is answer.runner_up else ""
    return (
        candidate.label,
        _delay(candidate) or "–",
        f"{candidate.rounds:,.0f}",
        f"{candidate.mean_staleness:,.1f}",
        "–" if standing.mean is None else answer.finding.question.metric.text(standing.mean),
        "–" if standing.slot is None else f"{standing.slot:,}",
        "diverged" if standing.diverged else mark,
    )


def caption(answer: Recommendation) -> str:
    """Return the explanation of the columns."""
    metric, seeds = answer.finding.question.metric, len(answer.finding.seeds)
    span = f"until {metric.target}" if metric.target else "over the last quarter of the slots until then"
    count = "1 seed" if seeds == 1 else f"{seeds} seeds"
    return f"stale: mean age of an update, in rounds\n{metric.value_name}: {span}, mean of {count}"


def sentences(answer: Recommendation) -> Iterator[str]:
    """Yield what was ruled out, what to use, how sure that is, the cautions, the cost and the commands."""
    by_reason = defaultdict(list)
    for out in answer.finding.field.ruled_out:
        by_reason[out.reason].append(out.label)
    if by_reason:
        yield "ruled out by the exact schedule:"
        yield from (f"  {', '.join(labels)}: {reason}" for reason, labels in by_reason.items())
        yield ""
    finding, best = answer.finding, answer.best.candidate
    delay = f" and a delay of {_delay(best)}" if _delay(best) else ""
    yield (
        f"use {best.schedule} with a group size of {best.group_size:,}{delay}: {best.rounds:,.0f} rounds by "
        f"slot {finding.question.base.deadline:,}, updates {best.mean_staleness:,.1f} rounds old"
    )
    yield from _comparison(answer)
    yield from (f"but: {caution}" for caution in answer.cautions)
    everything = f"training everything: {finding.grid_steps:,} ({answer.share:.1%})"
    yield f"cost: {finding.search_steps:,} SGD steps; {everything}"
    if answer.train_command:
        yield f"train it: {answer.train_command}"
    if answer.resume_command:
        yield f"or finish its pilot: {answer.resume_command}"
    if answer.path:
        yield f"wrote {answer.path}/recommendation.json" + (", .png, .pdf" if finding.rungs else "")


def _delay(candidate: Candidate) -> str:
    if candidate.schedule != "idfl":
        return ""
    return "just in time" if candidate.delay is None else f"{candidate.delay:,}"


def _comparison(answer: Recommendation) -> Iterator[str]:
    """Yield how sure the choice is, or why there is no runner-up."""
    other, sure, text = answer.runner_up, answer.confidence, answer.finding.question.metric.text
    if other is None or sure is None:
        others = answer.standings[1:]
        diverged = sum(standing.diverged for standing in others)
        counts = {"diverged": diverged, "were eliminated before": len(others) - diverged}
        became = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        yield "the only candidate left" + (f"; of the others, {became}" if became else "")
        return
    means = [text(one.mean) for one in (answer.best, other) if one.mean is not None]
    line = f"compared with {other.candidate.label}"
    line += f" ({' versus '.join(means)})" if answer.best.mean is not None else ""
    line += f": better in {sure.seeds_won} of {sure.seeds} seeds"
    if sure.resamples_won is not None:
        line += f", in {sure.resamples_won:.0%} of resamples"
    yield f"{line}, judged at slot {answer.best.slot:,}"
    if sure.seeds == 1:
        yield "one seed says nothing about others"


def draw_pilots(answer: Recommendation, kind: str) -> bytes:
    """Return the curves of the pilots as a file of ``kind``, png or pdf; the same pilots give the same bytes.

    The best and the runner-up are in colour; the others are grey and end at their rung. The axis of slots is
    logarithmic, so that the rungs, which double, are equally far apart.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415  (half a second that most commands do without)

    question = answer.finding.question
    quantity, begin = question.metric.quantity, question.base.deadline * FIRST_PART
    longest = max(Counter(standing.slot for standing in answer.standings).values())
    lines = []
    for standing in answer.standings:
        curves = answer.finding.curves[standing.candidate]
        seeds = tuple(tuple(point for point in points if point.slot >= begin) for points in curves)
        colour = {answer.best: BLUE, answer.runner_up: VERMILLION}.get(standing, GREY)
        line = Line(standing.candidate.label, colour, False, seeds)
        if len(line.band("slot", "loss").places):  # neither diverged at once nor still at the first model
            lines.append(line)
    with figure_style():
        figure = Figure(figsize=(WIDTH, HEIGHT + longest * TEXT_ROW), layout="constrained")
        axes = figure.subplots()
        for line in reversed(lines):  # the best on top
            band, shade = line.band("slot", quantity), line.colour.light
            axes.plot(band.places, band.mean, color=shade, linewidth=LINE_WIDTHS[line.colour])
            if len(line.seeds) > 1 and line.colour != GREY:
                axes.fill_between(band.places, band.low, band.high, color=shade, alpha=0.15, linewidth=0)
        _mark_axes(axes, answer, quantity, lines)
        _label(axes, [line for line in lines if line.colour != GREY], quantity)
    return save_figure(figure, kind, DOTS_PER_INCH)


def _mark_axes(axes: Axes, answer: Recommendation, quantity: Up, lines: list[Line]) -> None:
    deadline = answer.finding.question.base.deadline
    slots = [rung_slot(deadline, rung.sixteenths) for rung in answer.finding.rungs]
    texts = {slot: f"{slot:,}" for slot in slots}  # and below it the candidates whose lines end there
    for standing in answer.standings:
        if standing.slot is not None and standing not in (answer.best, answer.runner_up):
            texts[standing.slot] += f"\n{standing.candidate.label}{' diverged' if standing.diverged else ''}"
    axes.set_xscale("log", base=2)
    axes.set_xlim(max(1.0, deadline * FIRST_PART), deadline * 1.25)
    axes.set_xticks(slots, [texts[slot] for slot in slots], verticalalignment="top")
    axes.set_xticks([], minor=True)
    if len(slots) > 1 and slots[-1] < CLOSE * slots[-2]:
        before, last = axes.get_xticklabels()[-2:]
        before.set_horizontalalignment("right")
        last.set_horizontalalignment("left")
    axes.axvline(deadline, color="#8A8A8A", linewidth=0.7)
    axes.annotate("deadline", (deadline, 1.01), xycoords=("data", "axes fraction"), ha="center", fontsize=7)
    for slot in slots:
        axes.axvline(slot, color="#CFCFCF", linewidth=0.7, linestyle=":", zorder=0)
    judged = f"at which pilots were judged, of {deadline:,}, with those eliminated there"
    axes.set_xlabel(f"{AXIS_TITLES['slot']} {judged}")
    axes.set_ylabel(AXIS_TITLES[quantity])
    axes.spines[["top", "right"]].set_visible(False)
    if quantity == "loss":
        axes.set_yscale("log")
        panel = Panel("", "slot", "loss", tuple(lines))
        mark_losses(axes, CurveFigure("", "", "", (panel,)).losses)
    target = answer.finding.question.metric.target
    if target is not None:
        value = target.value * (100 if quantity == "accuracy" else 1)
        axes.axhline(value, color="#1A1A1A", linewidth=0.7, linestyle="--")


def _label(axes: Axes, lines: list[Line], quantity: Up) -> None:
    """Write the names of the best and the runner-up where their lines end."""
    bands = [line.band("slot", quantity) for line in lines]
    ends = [(band.places[-1], band.mean[-1]) for band in bands]
    places = [axes.transAxes.inverted().transform(axes.transData.transform(end)) for end in ends]
    heights = [float(height) for _, height in places]
    if len(heights) == 2 and abs(heights[0] - heights[1]) < LABEL_GAP:
        middle, half = sum(heights) / 2, LABEL_GAP / 2 if heights[0] >= heights[1] else -LABEL_GAP / 2
        heights = [middle + half, middle - half]
    for line, (across, _), height in zip(lines, places, heights, strict=True):
        axes.text(
            across + 0.008,
            height,
            line.label,
            transform=axes.transAxes,
            color=line.colour.light,
            fontweight="bold" if line.colour == BLUE else "normal",
            verticalalignment="center",
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
        )
