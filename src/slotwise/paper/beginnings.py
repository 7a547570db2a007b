"""The beginnings of published runs, trained again: whether this machine computes the same curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite

from slotwise.learning import Point
from slotwise.paper.evidence import Curve, Results
from slotwise.paper.experiments import PAPER, selected
from slotwise.paper.reproduction import Manifest
from slotwise.report.colours import BLACK, SCHEDULE_COLOURS
from slotwise.report.curves import CurveFigure, Line, Panel
from slotwise.report.number_text import counted
from slotwise.report.page import Content, Html, Section, badge, curve_figure, html, paragraph, table

AGREEMENT = 0.01  # of the loss: far above rounding, far below what another schedule or seed changes
HEADINGS = (
    *("run", "#slots", "#evaluations compared", "result", "#agree up to slot"),
    *("#largest difference of the loss", "#of the accuracy"),
)
SAME_OPTIONS = (
    "Runs with the options and seeds of published ones, and with a shorter deadline: up to there a run is "
    "the beginning of the published one. Losses and accuracies are compared at every evaluation."
)
ROUNDING = (
    "Processors add numbers in different orders, which rounds differently. Such differences grow as the "
    "training goes on, most where the loss jumps: after some thousand slots the curves of one run on two "
    "kinds of processors part as those of two seeds do."
)


@dataclass(frozen=True)
class Beginning:
    """A published run, and its first slots as this machine trained them."""

    published: Curve
    trained: Curve

    @property
    def deadline(self) -> int:
        """Slots that were trained."""
        return self.trained.run.config.deadline

    @cached_property
    def pairs(self) -> Sequence[tuple[Point, Point]]:
        """The evaluations of the same slot, trained and published."""
        known = {point.slot: point for point in self.published.points}
        return [(point, known[point.slot]) for point in self.trained.points if point.slot in known]

    @property
    def is_equal(self) -> bool:
        """True if losses and accuracies are equal to the last bit."""
        return bool(self.pairs) and all(a.loss == b.loss and a.accuracy == b.accuracy for a, b in self.pairs)

    @property
    def largest_difference(self) -> float:
        """The largest difference of the losses, as a part of the published one."""
        return max((_difference(*pair) for pair in self.pairs), default=0.0)

    @property
    def largest_accuracy_difference(self) -> float:
        """The largest difference of the test accuracies."""
        return max((abs(a.accuracy - b.accuracy) for a, b in self.pairs), default=0.0)

    @property
    def agrees_until(self) -> int:
        """Slot of the last evaluation before losses differ by more than 1 %; 0 if they do from the start."""
        slots = [0]
        for pair in self.pairs:
            if _difference(*pair) > AGREEMENT:
                break
            slots.append(pair[0].slot)
        return slots[-1]

    @property
    def result(self) -> str:
        """The comparison in a word or two."""
        if self.is_equal:
            return "equal"
        return "same curve" if self.agrees_until else "different"


def _difference(trained: Point, published: Point) -> float:
    difference = abs(trained.loss - published.loss) / published.loss
    return difference if isfinite(difference) else inf


def find_beginnings(manifest: Manifest, trained: Results, published: Results) -> tuple[Beginning, ...]:
    """Return the runs of a quick look beside the published runs that they are beginnings of."""
    found = []
    for experiment in manifest.experiments():
        for whole in selected(PAPER, [experiment.name]):
            for seed in manifest.seeds(experiment.study):
                runs = zip(whole.runs(seed), experiment.runs(seed), strict=True)
                found += [Beginning(published.curve(long), trained.curve(short)) for long, short in runs]
    return tuple(one for one in found if one.trained.points)


def beginnings_sentence(beginnings: Sequence[Beginning]) -> Html:
    """Return in a sentence what this machine computed, and how it compares with what was published."""
    slots, runs = max(one.deadline for one in beginnings), counted(len(beginnings), "run")
    compared = sum(len(one.pairs) for one in beginnings)
    start = f"Your machine computed the first {slots:,} slots of {runs} behind these curves again: "
    if all(one.is_equal for one in beginnings):
        return _marked("equal", f"{start}the same curves, all {compared} evaluations equal to the last bit.")
    worst = max(one.largest_difference for one in beginnings)
    until = min(one.agrees_until for one in beginnings)
    if not until:
        return _marked("different", f"{start}losses differ by up to {100 * worst:.2g} %, and from the start.")
    text = (
        f"the same curves, within 1 % up to slot {until:,}; later losses differ by up to {100 * worst:.2g} %."
    )
    return _marked("same curve", start + text)


def beginnings_figure(beginnings: Sequence[Beginning]) -> CurveFigure:
    """Return one panel for each group size, with what was published and, on top of it, what was trained."""
    cases: dict[tuple[int, str], list[Beginning]] = {}
    for one in beginnings:
        config = one.trained.run.config
        cases.setdefault((config.channel.group_size, config.schedule), []).append(one)
    published: dict[int, list[Line]] = {}
    trained: dict[int, list[Line]] = {}
    for (size, schedule), seeds in cases.items():
        known = tuple([point for _, point in one.pairs] for one in seeds)
        here = tuple(one.trained.points for one in seeds)
        published.setdefault(size, []).append(Line(schedule, SCHEDULE_COLOURS[schedule], "solid", known))
        trained.setdefault(size, []).append(Line("this machine", BLACK, "dashed", here))
    seeds_used = sorted({one.trained.run.config.seed for one in beginnings})
    named = f"seed{'s' * (len(seeds_used) > 1)} {', '.join(map(str, seeds_used))}"
    return CurveFigure(
        "beginnings",
        "This machine's curves on top of the published ones",
        f"In colour: the published runs with {named}. Black, dashed: the same runs, trained here.",
        tuple(
            Panel(f"S={size}", "slot", "loss", (*lines, *trained[size])) for size, lines in published.items()
        ),
    )


def beginnings_section(beginnings: Sequence[Beginning], figure: CurveFigure) -> Section:
    """Return the curves over each other, and a table with the largest differences of every run."""
    equal = all(one.is_equal for one in beginnings)
    parts: list[Content] = [
        paragraph(SAME_OPTIONS),
        *([] if equal else [paragraph(ROUNDING, "quiet")]),
        curve_figure(figure),
        table(HEADINGS, [_row(one) for one in beginnings]),
    ]
    return Section("here", "Computed on this machine", tuple(parts))


def _row(one: Beginning) -> Sequence[Content]:
    differences = ("0", "0")
    if not one.is_equal:
        differences = (f"{one.largest_difference:.2g}", f"{one.largest_accuracy_difference:.2g}")
    compared = str(len(one.pairs))
    slots = (f"{one.deadline:,}", compared, badge(one.result), f"{one.agrees_until:,}")
    return (one.published.run.name, *slots, *differences)


def _marked(result: str, sentence: str) -> Html:
    return paragraph(Html(f"{html(badge(result))} {html(sentence)}"))
