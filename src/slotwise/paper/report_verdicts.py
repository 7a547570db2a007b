"""The verdicts in the report: how every group size ended, the statements, and the readings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from slotwise.data import TITLES
from slotwise.paper.claims import BELOW, STATEMENTS, VERDICTS, Judgement, Verdict, idfl_against_async, judge
from slotwise.paper.criteria import DEFINITIONS
from slotwise.paper.evidence import Evidence, Missing
from slotwise.paper.experiments import BOTH, Reading
from slotwise.paper.result_text import final_accuracy_text, final_loss_text, staleness
from slotwise.report.number_text import counted
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
            losses.append(final_loss_text(evidence, schedule, size))
            accuracies.append(final_accuracy_text(evidence, schedule, size))
            collapsed = sum(map(evidence.has_collapsed, curves))
            if collapsed and (schedule == "async" or size in delayed):
                guessing.append(f"{schedule} S={size} ({collapsed} of {len(curves)} seeds)")
        rows.append((str(size), *losses, comparison, *accuracies, *ages))
    where = f"{TITLES[evidence.base.dataset.data]}, T={deadline:,}"
    opening = f"<strong>Final training loss with and without intentional delay ({where}):</strong> "
    yield paragraph(Html(opening + html("; ".join(sentences)) + "."))
    columns = [f"#{name}, {schedule}" for name in ("test accuracy", "d") for schedule in BOTH]
    yield table(("#S", *(f"#training loss, {schedule}" for schedule in BOTH), "idfl is", *columns), rows)
    seeds = len(evidence.seeds)
    means = f"; means of those of {seeds} seeds that did not collapse, lowest and highest in brackets"
    yield paragraph(
        f"Medians over the last tenth of the slots{means if seeds > 1 else ''}. d, the staleness, is the "
        "number of rounds between the model that an update started from and the model it is applied to.",
        "quiet",
    )
    if guessing:
        yield paragraph(
            f"Collapsed (diverged, or with an accuracy near the {1 / CLASSES:.0%} of guessing among "
            f"{CLASSES} classes): {', '.join(guessing)}.",
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
        many = counted(seeds, "seed")
        if seeds < self.evidence.requested_seeds:
            many = f"{seeds} of {self.evidence.requested_seeds} seeds, the others are not finished"
        return f"{TITLES[self.data]}{iid}, T={base.deadline:,}, S={sizes}, {many}"

    @property
    def label(self) -> str:
        """The letter of the reading, and how its runs differ from the paper's case."""
        base = self.evidence.base
        parts = ["IID"] if base.dataset.partition == "iid" else []
        parts += [] if self.evidence.reaches_the_end else [f"T={base.deadline:,}"]
        return " ".join((f"({self.reading.letter})", ", ".join(parts))).strip()

    def figures(self) -> Content:
        """Return a list, at first hidden, of the statements with verdict, figures and rule."""
        items = []
        for one in self.judgements:
            figures = "".join(f'<span class="figures">{html(line)}</span>' for line in one.figures)
            rule = f'<span class="rule">Rule: {html(one.rule)}</span>'
            items.append(f"<li><b>{one.statement.name}</b> {html(badge(one.verdict))} {figures}{rule}</li>")
        listed = Html(f'<ul class="statements">{"".join(items)}</ul>')
        runs = paragraph(f"Curves: runs/{self.evidence.histories}/history.csv", "quiet")
        return details(f"Figures and rules: reading ({self.reading.letter}), {self.case}", listed, runs)


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
            sentence = f"{one.label} {one.reading.title}: {_counts(one)}. {one.case}."
            if not one.evidence.reaches_the_end:
                sentence += " Shorter than in the paper: statements about the end stay open."
            parts.append(paragraph(sentence))
        rows = [
            (found[0].statement.name, found[0].statement.text, *(badge(one.verdict) for one in found))
            for found in zip(*(one.judgements for one in own), strict=True)
        ]
        headings = ("", "Statement", *(one.label for one in own))
        parts += [table(headings, rows, "claims"), *(one.figures() for one in own)]
    parts.append(details("Definitions", definitions(DEFINITIONS)))
    return Section("claims", "The paper's statements", tuple(parts))


def _counts(judged: Judged) -> str:
    return _counts_text(judgement.verdict for judgement in judged.judgements)


def _counts_text(verdicts: Iterable[Verdict]) -> str:
    counts = Counter(verdicts)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS.values() if counts[verdict])


def readings_section(judged: Sequence[Judged]) -> Section:
    """Return the verdicts on every statement under every reading, and how many hold for each figure."""
    statements = STATEMENTS[judged[0].data]
    letters = [one.label for one in judged]
    rows: list[Sequence[Content]] = [
        (found[0].statement.name, found[0].statement.text, *map(_cell, found))
        for found in zip(*(one.judgements for one in judged), strict=True)
    ]
    figures = tuple(dict.fromkeys(statement.figure for statement in statements))
    by_figure = [(figure, *(_about(one, figure) for one in judged)) for figure in figures]
    parts = (
        paragraph(
            "The paper leaves open what is averaged, whether a local update is the sum or the mean of its "
            "gradients, and the scale of the inputs. The first reading is the paper's equation and the "
            "default everywhere else, whatever comes out here."
        ),
        definitions([(one.label, one.reading.title) for one in judged]),
        paragraph(
            f"All have the same runs: {judged[0].case}. So they can be compared with each other; with more "
            "group sizes and seeds, as above, verdicts on (a) and (c) can be others."
        ),
        table(("", "Statement", *letters), rows, "claims"),
        paragraph("The same, counted by the paper's figure that the statements are about:"),
        table(("Figure", *letters), by_figure),
        *(one.figures() for one in judged),
    )
    return Section("readings", "The readings", parts)


def _cell(judgement: Judgement) -> Html:
    """Return the verdict with its short figure."""
    return Html(f'{html(badge(judgement.verdict))} <span class="figures">{html(judgement.figures[0])}</span>')


def _about(judged: Judged, figure: str) -> str:
    """Return how many statements about a figure of the paper hold and do not hold under a reading."""
    return _counts_text(one.verdict for one in judged.judgements if one.statement.figure == figure)
