"""The verdicts in the report: how every group size ended, the statements, and the readings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slotwise.data import TITLES
from slotwise.paper.claims import BELOW, STATEMENTS, VERDICTS, Judgement, idfl_against_async, judge, mean_text
from slotwise.paper.criteria import COLLAPSED, DEFINITIONS
from slotwise.paper.evidence import Evidence, Missing
from slotwise.paper.experiments import BOTH, MODELS, UPDATES, Reading
from slotwise.paper.figures import staleness
from slotwise.report.page import (
    Content,
    Html,
    Section,
    badge,
    definitions,
    details,
    heading,
    html,
    paragraph,
    table,
)
from slotwise.runs.run_folder import final_accuracy

CLASSES = 10


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
            if accuracy < COLLAPSED and (schedule == "async" or size in delayed):
                guessing.append(f"{schedule} S={size}")
        rows.append((str(size), *losses, comparison, *accuracies, *ages))
    where = f"{TITLES[evidence.base.dataset.data]}, T={deadline:,}"
    opening = f"<strong>Final loss with and without intentional delay ({where}):</strong> "
    yield paragraph(Html(opening + html("; ".join(sentences)) + "."))
    columns = [f"#{schedule} {name}" for name in ("accuracy", "d") for schedule in BOTH]
    yield table(("#S", "#async loss", "#idfl loss", "idfl is", *columns), rows)
    if guessing:
        yield paragraph(
            f"Collapsed, with an accuracy near the {1 / CLASSES:.0%} of guessing among {CLASSES} classes: "
            f"{', '.join(guessing)}.",
            "quiet",
        )


@dataclass(frozen=True)
class Judged:
    """The runs of one reading of the paper, and the verdicts on them."""

    reading: Reading
    evidence: Evidence

    @property
    def data(self) -> str:
        """Name of the data set."""
        return self.evidence.base.dataset.data

    @cached_property
    def judgements(self) -> tuple[Judgement, ...]:
        """The verdict on every statement about the data set."""
        return judge(self.evidence)

    @property
    def case(self) -> str:
        """Data set, its partition if it is not the paper's, deadline, group sizes and seeds."""
        base, seeds = self.evidence.base, len(self.evidence.seeds)
        iid = ", IID devices" if base.dataset.partition == "iid" else ""
        sizes = ", ".join(map(str, self.evidence.group_sizes))
        many = f"{seeds} seed{'s' * (seeds > 1)}"
        return f"{TITLES[self.data]}{iid}, T={base.deadline:,}, S={sizes}, {many}"

    def figures(self) -> Content:
        """Return a list, at first hidden, of the statements with verdict, figures and rule."""
        items = []
        for one in self.judgements:
            figures = "".join(f'<span class="figures">{html(line)}</span>' for line in one.figures)
            rule = f'<span class="rule">Rule: {html(one.rule)}</span>'
            items.append(f"<li><b>{one.statement.name}</b> {html(badge(one.verdict))} {figures}{rule}</li>")
        listed = Html(f'<ul class="statements">{"".join(items)}</ul>')
        return details(f"Figures and rules: reading ({self.reading.letter}), {self.case}", listed)


def statements_section(judged: Sequence[Judged], notes: Iterable[str]) -> Section:
    """Return the paper's statements, the verdict on each under each reading, and the figures behind it."""
    parts: list[Content] = [
        paragraph(
            "What the paper says, judged under each reading of what the server averages. The rules are fixed "
            "in code and the same for all readings; docs/results says which runs are older than they are."
        ),
        *(paragraph(note, "note") for note in notes),
    ]
    for data in dict.fromkeys(one.data for one in judged):
        own = [one for one in judged if one.data == data]
        parts.append(heading(TITLES[data]))
        for one in own:
            sentence = f"({one.reading.letter}) {one.reading.title}: {_counts(one)}."
            parts.append(paragraph(f"{sentence} {one.case}."))
        rows = [
            (found[0].statement.name, found[0].statement.text, *(badge(one.verdict) for one in found))
            for found in zip(*(one.judgements for one in own), strict=True)
        ]
        headings = ("", "Statement", *(f"({one.reading.letter})" for one in own))
        parts += [table(headings, rows, "claims"), *(one.figures() for one in own)]
    parts.append(details("Definitions", definitions(DEFINITIONS)))
    return Section("claims", "The paper's statements", tuple(parts))


def _counts(judged: Judged) -> str:
    counts = Counter(judgement.verdict for judgement in judged.judgements)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS.values() if counts[verdict])


def readings_section(judged: Sequence[Judged]) -> Section:
    """Return a table of the verdicts on every statement under every reading."""
    parts: list[Content] = [
        paragraph(
            "The paper leaves open what is averaged, whether a local update is the sum or the mean of its "
            "gradients, and the scale of the inputs. Rows are readings, columns the statements above. The "
            "first row is the paper's equation and the default everywhere else, whatever comes out here."
        )
    ]
    for data in dict.fromkeys(one.data for one in judged):
        own = [one for one in judged if one.data == data]
        rows: list[Sequence[Content]] = []
        for one in own:
            verdicts = (badge(judgement.verdict) for judgement in one.judgements)
            rows.append((f"({one.reading.letter}) {one.reading.title}", one.case, *verdicts))
        names = (statement.name for statement in STATEMENTS[data])
        parts += [heading(TITLES[data]), table(("Reading", "Runs", *names), rows)]
        parts += [one.figures() for one in own if one.reading not in (UPDATES, MODELS)]
    return Section("readings", "The readings", tuple(parts))
