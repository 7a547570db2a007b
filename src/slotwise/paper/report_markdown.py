"""results.md: final losses and verdicts of a reproduction as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slotwise.data import TITLES
from slotwise.paper.criteria import COLLAPSED
from slotwise.paper.evidence import Evidence, Missing
from slotwise.paper.experiments import BOTH
from slotwise.paper.report_remedies import HOW as HOW_REMEDIES
from slotwise.paper.report_remedies import RemediesTable
from slotwise.paper.report_verdicts import Judged
from slotwise.paper.result_text import final_accuracy_text, final_loss_text, staleness
from slotwise.schedule import Schedule

HOW = f"""\
# Results of a reproduction

Written by `slotwise reproduce` from the histories in `runs/`; do not edit. report.html has the same figures
with curves, rules and definitions.

Losses are training losses, accuracies are test accuracies: medians over the last tenth of the slots, then
the mean of the seeds that did not collapse, with the lowest and the highest in brackets. d is the staleness
of the updates, in rounds. A collapsed run has a final accuracy under {COLLAPSED:.0%}, or diverged."""
SAME_TERMS = """\
All readings with the same group sizes, slow links and seed, so that they can be compared with each other.
With fewer group sizes and seeds, (a) and (c) can have other verdicts here than above."""


def results_markdown(
    judged: Sequence[Judged], readings: Sequence[Judged], remedies: Sequence[RemediesTable]
) -> str:
    """Return the tables of every study, of all readings on the same terms, and of the remedies."""
    lines = [HOW]
    for data in dict.fromkeys(one.data for one in judged):
        own = [one for one in judged if one.data == data]
        lines += ["", f"## {TITLES[data]}: the paper's statements", "", *_statements(own)]
        for one in own:
            lines += ["", f"## {TITLES[data]}, {one.label}: {one.reading.title}", "", *_details(one)]
    if readings:
        lines += ["", "## The readings", "", SAME_TERMS, "", *_statements(readings)]
        for one in readings:
            lines += ["", f"### {one.label} {one.reading.title}", "", *_details(one)]
    for table in remedies:
        lines += ["", "## Remedies", "", HOW_REMEDIES, "", _row(table.headings), _rule(len(table.headings))]
        lines += [*map(_row, table.rows), "", table.verdict]
    return "\n".join(lines) + "\n"


def _details(one: Judged) -> Iterator[str]:
    """Yield the final losses of a reading, and the figures behind its verdicts."""
    yield from (f"{one.case}; `runs/{one.evidence.histories}`.", "", *_finals(one.evidence), "")
    for found in one.judgements:
        yield f"- {found.statement.name}, {found.verdict}: {'; '.join(found.figures)}"


def _statements(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield a table with a row for each statement and a column for each reading and case."""
    yield _row(["", "statement", *(one.label for one in judged)])
    yield _rule(2 + len(judged))
    for found in zip(*(one.judgements for one in judged), strict=True):
        statement = found[0].statement
        yield _row([statement.name, statement.text, *(one.verdict for one in found)])


def _finals(evidence: Evidence) -> Iterator[str]:
    """Yield a table of final losses and accuracies with a column for each group size."""
    yield _row(["", *(f"S={size}" for size in evidence.group_sizes)])
    yield _rule(1 + len(evidence.group_sizes))
    for title, cell in (("loss", final_loss_text), ("accuracy", final_accuracy_text), ("d", _staleness)):
        for schedule in BOTH:
            cells = []
            for size in evidence.group_sizes:
                try:
                    cells.append(cell(evidence, schedule, size))
                except Missing:
                    cells.append("not trained")
            yield _row([f"{schedule}, {title}", *cells])


def _staleness(evidence: Evidence, schedule: Schedule, size: int) -> str:
    return str(staleness(evidence.base.with_options(schedule=schedule, group_size=size)))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rule(columns: int) -> str:
    return "|" + "---|" * columns
