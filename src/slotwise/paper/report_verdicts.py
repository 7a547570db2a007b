"""The verdicts in the report: how every group size ended, the claims, and the readings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from slotwise.paper.claims import Judgement, Part, Verdict, judge, verdict_of
from slotwise.paper.criteria import DEFINITIONS
from slotwise.paper.evidence import Evidence, Missing, Results
from slotwise.paper.experiments import BOTH, DATA_TITLES, Reading, Readings
from slotwise.paper.figures import staleness
from slotwise.paper.rules import BELOW, idfl_against_async, mean_text
from slotwise.report.page import Content, Html, Section, badge, definitions, details, html, paragraph, table
from slotwise.runs.run_folder import final_accuracy
from slotwise.schedule import Schedule

VERDICTS: tuple[Verdict, ...] = ("held", "not held", "not decided")
CLASSES = 10
GUESSING = 1.2 / CLASSES  # accuracy up to which a model is reported as no better than guessing


def summary_section(evidence: Iterable[Evidence]) -> Section:
    """Return the final losses and accuracies of async and idfl side by side, for each data set."""
    parts = tuple(part for one in evidence for part in (_sentence(one), _final_table(one), *_guessing(one)))
    return Section("short", "In short", parts)


def _sentence(evidence: Evidence) -> Html:
    """Say what intentional delay changes, size by size, whatever came out."""
    parts = []
    for size in evidence.delayed_sizes():
        try:
            parts.append(idfl_against_async(evidence, size)[1])
        except Missing as missing:
            parts.append(f"S={size}: not known, {missing}")
    where = f"{DATA_TITLES[evidence.base.dataset.data]}, T={evidence.base.deadline:,}"
    opening = f"<strong>Final loss with and without intentional delay ({where}):</strong> "
    return paragraph(Html(opening + html("; ".join(parts)) + "."))


def _final_table(evidence: Evidence) -> Html:
    columns = [f"#{schedule} {name}" for name in ("accuracy", "d") for schedule in BOTH]
    headings = ("#S", "#async loss", "#idfl loss", "idfl is", *columns)
    return table(headings, [_final_row(evidence, size) for size in evidence.group_sizes])


def _final_row(evidence: Evidence, size: int) -> Sequence[Content]:
    losses, accuracies, ages = [], [], []
    for schedule in BOTH:
        config = evidence.base.with_options(schedule=schedule, group_size=size)
        ages.append(str(staleness(config)))
        try:
            losses.append(mean_text(evidence.final(schedule, size)))
            accuracies.append(f"{_accuracy(evidence, schedule, size):.1%}")
        except Missing:
            losses.append("–")
            accuracies.append("–")
    return (str(size), *losses, _comparison(evidence, size), *accuracies, *ages)


def _comparison(evidence: Evidence, size: int) -> Content:
    if size not in evidence.delayed_sizes():
        return "the same run"
    try:
        truth, _ = idfl_against_async(evidence, size)
    except Missing:
        return "not known yet"
    return badge(BELOW[truth])


def _accuracy(evidence: Evidence, schedule: Schedule, size: int) -> float:
    curves = evidence.curves(schedule, size)
    return float(np.mean([final_accuracy(curve.points, evidence.base.deadline) for curve in curves]))


def _guessing(evidence: Evidence) -> Iterator[Html]:
    """Yield a note that names the runs that learned nothing, if there are any."""
    found = []
    for size in evidence.group_sizes:
        for schedule in BOTH if size in evidence.delayed_sizes() else BOTH[:1]:
            try:
                if _accuracy(evidence, schedule, size) < GUESSING:
                    found.append(f"{schedule} S={size}")
            except Missing:
                continue
    if found:
        yield paragraph(
            f"Near {1 / CLASSES:.0%} accuracy a model is as good as guessing among {CLASSES} classes: "
            f"{', '.join(found)}.",
            "quiet",
        )


def claims_section(judgements: Sequence[Judgement], notes: Iterable[str]) -> Section:
    """Return a table of all claims in the paper's order, each with its verdict, rules and figures."""
    ordered = sorted(judgements, key=lambda judgement: (judgement.number, judgement.data != "MNIST"))
    counts = Counter(judgement.verdict for judgement in ordered)
    summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    return Section(
        "claims",
        "The paper's claims",
        (
            paragraph(f"{summary}. The rules were written down before the runs they judge were looked at."),
            *(paragraph(note, "note") for note in notes),
            table(("Claim", "Verdict", "Statement by statement"), map(_claim_row, ordered), "claims"),
            details("Definitions", definitions(DEFINITIONS)),
        ),
    )


def _claim_row(judgement: Judgement) -> Sequence[Content]:
    claim = Html(f"<b>{judgement.number} · {judgement.data}</b><br>{html(judgement.claim)}")
    parts = "".join(f"<li>{_statement(part)}</li>" for part in judgement.parts)
    return claim, badge(judgement.verdict), Html(f"<ul>{parts}</ul>")


def _statement(part: Part) -> str:
    figures = "".join(f'<span class="figures">{html(line)}</span>' for line in part.figures)
    return f'{html(badge(verdict_of(part.truth)))} {figures}<span class="rule">Rule: {html(part.rule)}</span>'


def readings_section(experiment: Readings, results: Results, seeds: Sequence[int]) -> Section:
    """Return a table of the verdicts that each reading of the paper leads to."""
    rows = [_reading_row(experiment, reading, results, seeds) for reading in experiment.readings()]
    sizes = ", ".join(map(str, experiment.group_sizes))
    return Section(
        "readings",
        "The readings",
        (
            paragraph(
                "The paper leaves three things open: the scale of the inputs, whether a local update is "
                "the sum or the mean of its gradients, and the width of the network. The table shows which "
                f"claims hold under each reading, at T={experiment.deadline:,} with S={sizes}. The first "
                "row is the default everywhere else on this page, whatever comes out here."
            ),
            table(("inputs", "update", "network", *(f"claim {n}" for n in (1, 2, 3, 4, 6))), rows),
        ),
    )


def _reading_row(
    experiment: Readings, reading: Reading, results: Results, seeds: Sequence[int]
) -> Sequence[Content]:
    base = experiment.config(reading, "async", experiment.group_sizes[0], experiment.slots[0])
    slow = tuple(slots for slots in experiment.slots if slots[1] > 1)
    evidence = Evidence(base, experiment.group_sizes, slow, seeds, results)
    verdicts = (badge(judgement.verdict) for judgement in judge(evidence))
    network = "–".join(str(width) for widths in reading.network for width in widths)
    inputs = {"standard": "standardised", "unit": "0 to 1"}[reading.input_scale]
    return inputs, reading.update, network, *verdicts
