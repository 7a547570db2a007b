"""Where every group size ended: final loss and accuracy of async and idfl side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slotwise.paper.evidence import Evidence, Missing, mean_text
from slotwise.paper.lines import data_title, staleness
from slotwise.paper.rules import BOTH, idfl_against_async
from slotwise.report.page import Content, Html, badge, html, paragraph, table
from slotwise.runs.statistics import final_accuracy, final_loss
from slotwise.schedule import Schedule

CLASSES = 10
GUESSING = 1.2 / CLASSES


@dataclass(frozen=True)
class Ending:
    """How one run ended, as means over the seeds; dashes where it is not finished."""

    staleness: str
    loss: str
    accuracy: str


def final_figures(evidence: Evidence) -> tuple[Html, ...]:
    """The sentence that says it, the table behind it, and which runs have learned nothing."""
    return _sentence(evidence), _table(evidence), *_guessing(evidence)


def _sentence(evidence: Evidence) -> Html:
    """What intentional delay gives, size by size, whatever came out."""
    parts = []
    for size in evidence.delayed_sizes():
        try:
            parts.append(idfl_against_async(evidence, size)[1])
        except Missing as missing:
            parts.append(f"S={size}: not known, {missing}")
    where = f"{data_title(evidence.base.dataset.data)}, T={evidence.base.deadline:,}"
    words = f"<strong>Final loss with and without intentional delay ({where}):</strong> "
    return paragraph(Html(words + html("; ".join(parts)) + "."))


def _table(evidence: Evidence) -> Html:
    figures = [f"#{schedule} {name}" for name in ("accuracy", "d") for schedule in BOTH]
    headings = ("#S", "#async loss", "#idfl loss", "idfl is", *figures)
    return table(headings, [_row(evidence, size) for size in evidence.group_sizes])


def _guessing(evidence: Evidence) -> Iterator[Html]:
    runs = [(schedule, size) for size in evidence.group_sizes for schedule in _schedules(evidence, size)]
    lost = [f"{schedule} S={size}" for schedule, size in runs if _guesses(evidence, schedule, size)]
    if lost:
        yield paragraph(
            f"Near {1 / CLASSES:.0%} accuracy a model is as good as guessing among {CLASSES} classes: "
            f"{', '.join(lost)}.",
            "quiet",
        )


def _schedules(evidence: Evidence, size: int) -> Sequence[Schedule]:
    return BOTH if size in evidence.delayed_sizes() else BOTH[:1]


def _guesses(evidence: Evidence, schedule: Schedule, size: int) -> bool:
    try:
        curves = evidence.curves(schedule, size)
    except Missing:
        return False
    accuracies = [final_accuracy(curve.points, evidence.base.deadline) for curve in curves]
    return float(np.mean(accuracies)) < GUESSING


def _row(evidence: Evidence, size: int) -> Sequence[Content]:
    without, with_delay = _ending(evidence, "async", size), _ending(evidence, "idfl", size)
    return (
        str(size),
        without.loss,
        with_delay.loss,
        _comparison(evidence, size),
        without.accuracy,
        with_delay.accuracy,
        without.staleness,
        with_delay.staleness,
    )


def _comparison(evidence: Evidence, size: int) -> Content:
    if size not in evidence.delayed_sizes():
        return "the same run"
    try:
        truth, _ = idfl_against_async(evidence, size)
    except Missing:
        return "not known yet"
    return badge({True: "below", False: "not below", None: "not decided"}[truth])


def _ending(evidence: Evidence, schedule: Schedule, size: int) -> Ending:
    parameters = evidence.base.with_options(schedule=schedule, group_size=size)
    age = str(staleness(parameters))
    try:
        curves = evidence.curves(schedule, size)
    except Missing:
        return Ending(age, "–", "–")
    deadline = evidence.base.deadline
    losses = [final_loss(curve.points, deadline) for curve in curves]
    accuracy = np.mean([final_accuracy(curve.points, deadline) for curve in curves])
    return Ending(age, mean_text(losses), f"{accuracy:.1%}")
