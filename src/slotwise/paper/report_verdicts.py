"""The verdicts in the report: how every group size ended, the claims, and the readings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from slotwise.data import TITLES
from slotwise.paper.claims import BELOW, VERDICTS, Judgement, idfl_against_async, judge, mean_text
from slotwise.paper.criteria import DEFINITIONS
from slotwise.paper.evidence import Evidence, Missing, Results
from slotwise.paper.experiments import BOTH, Readings
from slotwise.paper.figures import staleness
from slotwise.report.page import Content, Html, Section, badge, definitions, details, html, paragraph, table
from slotwise.runs.run_folder import final_accuracy

CLASSES = 10
GUESSING = 1.2 / CLASSES  # accuracy up to which a model is reported as no better than guessing


def summary_section(evidence: Iterable[Evidence]) -> Section:
    """Return the final losses and accuracies of async and idfl side by side, for each data set."""
    return Section("short", "In short", tuple(part for one in evidence for part in _summary(one)))


def _summary(evidence: Evidence) -> Iterator[Content]:
    """Yield what intentional delay changes, size by size, and the runs that learned nothing."""
    delayed, deadline = evidence.delayed_sizes(), evidence.base.deadline
    sentences, rows, guessing = [], [], []
    for size in evidence.group_sizes:
        comparison: Content = "the same run"
        if size in delayed:
            try:
                truth, sentence = idfl_against_async(evidence, size)
                comparison = badge(BELOW[truth])
            except Missing as missing:
                comparison, sentence = "not known yet", f"S={size}: not known, {missing}"
            sentences.append(sentence)
        losses, accuracies, ages = [], [], []
        for schedule in BOTH:
            ages.append(str(staleness(evidence.base.with_options(schedule=schedule, group_size=size))))
            try:
                curves = evidence.curves(schedule, size)
            except Missing:
                losses.append("–")
                accuracies.append("–")
                continue
            losses.append(mean_text(evidence.final(schedule, size)))
            accuracy = float(np.mean([final_accuracy(curve.points, deadline) for curve in curves]))
            accuracies.append(f"{accuracy:.1%}")
            if accuracy < GUESSING and (schedule == "async" or size in delayed):
                guessing.append(f"{schedule} S={size}")
        rows.append((str(size), *losses, comparison, *accuracies, *ages))
    where = f"{TITLES[evidence.base.dataset.data]}, T={deadline:,}"
    opening = f"<strong>Final loss with and without intentional delay ({where}):</strong> "
    yield paragraph(Html(opening + html("; ".join(sentences)) + "."))
    columns = [f"#{schedule} {name}" for name in ("accuracy", "d") for schedule in BOTH]
    yield table(("#S", "#async loss", "#idfl loss", "idfl is", *columns), rows)
    if guessing:
        yield paragraph(
            f"Near {1 / CLASSES:.0%} accuracy a model is as good as guessing among {CLASSES} classes: "
            f"{', '.join(guessing)}.",
            "quiet",
        )


def claims_section(judgements: Sequence[Judgement], notes: Iterable[str]) -> Section:
    """Return a table of all claims in the paper's order, each with its verdict, rules and figures."""
    ordered = sorted(judgements, key=lambda judgement: (judgement.number, judgement.data != "MNIST"))
    counts = Counter(judgement.verdict for judgement in ordered)
    summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS.values() if counts[verdict])
    parts = (
        paragraph(f"{summary}. The rules were written down before the runs they judge were looked at."),
        *(paragraph(note, "note") for note in notes),
        table(("Claim", "Verdict", "Statement by statement"), map(_claim_row, ordered), "claims"),
        details("Definitions", definitions(DEFINITIONS)),
    )
    return Section("claims", "The paper's claims", parts)


def _claim_row(judgement: Judgement) -> Sequence[Content]:
    claim = Html(f"<b>{judgement.number} · {judgement.data}</b><br>{html(judgement.claim)}")
    items = []
    for part in judgement.parts:
        figures = "".join(f'<span class="figures">{html(line)}</span>' for line in part.figures)
        rule = f'<span class="rule">Rule: {html(part.rule)}</span>'
        items.append(f"<li>{html(badge(VERDICTS[part.truth]))} {figures}{rule}</li>")
    return claim, badge(judgement.verdict), Html(f"<ul>{''.join(items)}</ul>")


def readings_section(experiment: Readings, results: Results, seeds: Sequence[int]) -> Section:
    """Return a table of the verdicts that each reading of the paper leads to."""
    rows: list[Sequence[Content]] = []
    slow = tuple(slots for slots in experiment.slots if slots[1] > 1)
    for reading in experiment.readings():
        base = experiment.read_as(reading, "async", experiment.group_sizes[0], experiment.slots[0])
        judgements = judge(Evidence(base, experiment.group_sizes, slow, seeds, results))
        network = "–".join(str(width) for widths in reading.network for width in widths)
        inputs = {"standard": "standardised", "unit": "0 to 1"}[reading.input_scale]
        verdicts = (badge(judgement.verdict) for judgement in judgements)
        rows.append((inputs, reading.update, network, *verdicts))
    sizes = ", ".join(map(str, experiment.group_sizes))
    introduction = paragraph(
        "The paper leaves three things open: the scale of the inputs, whether a local update is the sum or "
        "the mean of its gradients, and the width of the network. The table shows which claims hold under "
        f"each reading, at T={experiment.deadline:,} with S={sizes}. The first row is the default everywhere "
        "else on this page, whatever comes out here."
    )
    headings = ("inputs", "update", "network", *(f"claim {n}" for n in (1, 2, 3, 4, 6)))
    return Section("readings", "The readings", (introduction, table(headings, rows)))
