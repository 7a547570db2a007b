"""results.md: final losses, accuracies and verdicts of a reproduction as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slotwise.data import TITLES
from slotwise.paper.chains import chains_text
from slotwise.paper.criteria import COLLAPSED
from slotwise.paper.evidence import Evidence, Missing
from slotwise.paper.experiments import BOTH, MODELS
from slotwise.paper.report_verdicts import REMEDIES, Judged, RemediesTable, statement_rows
from slotwise.report.page import Content
from slotwise.schedule import Schedule

MARKDOWN = f"""\
# Results of a reproduction

Written by `slotwise reproduce` from the histories in `runs/`; do not edit. report.html has the same figures
with curves, rules and definitions.

Losses are training losses, accuracies are test accuracies: medians over the last tenth of the slots, then
the mean of the seeds that did not collapse, with the lowest and the highest in brackets. d is the staleness
of the updates, in rounds. A collapsed run has a final accuracy under {COLLAPSED:.0%}, or diverged."""
SAME_TERMS = """\
All readings with the same group sizes, slow links and seed, so that they can be compared with each other.
With fewer group sizes and seeds, (a) and (c) can have other verdicts here than above."""

CHAINS = """\
Loss by chain of models: median over the d + 1 chains of all seeds, lowest and highest, and how many chains
were evaluated in the last tenth of the slots (the fewest of a seed)."""


def results_markdown(
    judged: Sequence[Judged], readings: Sequence[Judged], remedies: Sequence[RemediesTable]
) -> str:
    """Return the tables of every study, of all readings on the same terms, and of the remedies."""
    lines = [MARKDOWN]
    for data in dict.fromkeys(one.data for one in judged):
        own = [one for one in judged if one.data == data]
        lines += ["", f"## {TITLES[data]}: the paper's statements", "", *_statements(own)]
        for one in own:
            lines += ["", f"## {TITLES[data]}, {one.label}: {one.reading.title}", "", *_details(one)]
    if readings:
        lines += ["", "## The readings", "", SAME_TERMS, "", *_statements(readings)]
        for one in readings:
            lines += ["", f"### {one.label} {one.reading.title}", "", *_details(one)]
    for found in remedies:
        lines += ["", "## Remedies", "", REMEDIES, "", _row(found.headings), _rule(len(found.headings))]
        lines += [*map(_row, found.rows), "", found.verdict]
    return "\n".join(lines) + "\n"


def _details(one: Judged) -> Iterator[str]:
    """Yield the final losses of a reading, and the figures behind its verdicts."""
    yield from (f"{one.case}; `runs/{one.evidence.histories}`.", "", *_finals(one.evidence), "")
    if one.reading.aggregation == MODELS.aggregation:
        yield from (CHAINS, "", *_chains(one.evidence), "")
    yield from (_row(["", "verdict", "finding", "figures"]), _rule(4))
    for found in one.judgements:
        short, *figures = found.figures
        yield _row([found.statement.name, found.verdict, short, "; ".join(figures)])


def _statements(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield a table with a row for each statement and a column for each reading and case."""
    yield _row(["", "statement", *(one.label for one in judged)])
    yield _rule(2 + len(judged))
    yield from map(_row, statement_rows(judged, lambda one: one.verdict))


def _finals(evidence: Evidence) -> Iterator[str]:
    """Yield a table of final losses and accuracies with a column for each group size."""
    sizes = evidence.group_sizes
    yield _row(["", *(f"S={size}" for size in sizes)])
    yield _rule(1 + len(sizes))
    cells = {schedule: [evidence.final_texts(schedule, s, "not trained") for s in sizes] for schedule in BOTH}
    for place, title in enumerate(("loss", "accuracy", "d")):
        for schedule in BOTH:
            yield _row([f"{schedule}, {title}", *(texts[place] for texts in cells[schedule])])


def _chains(evidence: Evidence) -> Iterator[str]:
    """Yield a table of final losses in which every chain of models counts once."""
    yield _row(["", *(f"S={size}" for size in evidence.group_sizes)])
    yield _rule(1 + len(evidence.group_sizes))
    for schedule in BOTH:
        yield _row([schedule, *(_chains_text(evidence, schedule, size) for size in evidence.group_sizes)])


def _chains_text(evidence: Evidence, schedule: Schedule, size: int) -> str:
    try:
        return chains_text(evidence.curves(schedule, size))
    except Missing:
        return "not trained"


def _row(cells: Sequence[Content]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _rule(columns: int) -> str:
    return "|" + "---|" * columns
