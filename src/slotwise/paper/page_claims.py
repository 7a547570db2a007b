"""The claims on the page: a table of verdicts, each with its rules and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from slotwise.paper.claims import Judgement, Part, Verdict, in_words
from slotwise.paper.judgement import DEFINITIONS
from slotwise.report.page import Content, Html, Section, badge, definitions, details, html, paragraph, table

VERDICTS: tuple[Verdict, ...] = ("held", "not held", "not decided")


def claims_section(judgements: Sequence[Judgement], notes: Iterable[str]) -> Section:
    """All claims in the paper's order."""
    ordered = sorted(judgements, key=lambda judgement: (judgement.number, judgement.data != "MNIST"))
    counts = Counter(judgement.verdict for judgement in ordered)
    summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    rows = [_row(judgement) for judgement in ordered]
    return Section(
        "claims",
        "The paper's claims",
        (
            paragraph(f"{summary}. The rules were written down before the runs they judge were looked at."),
            *(paragraph(note, "note") for note in notes),
            table(("Claim", "Verdict", "Statement by statement"), rows, "claims"),
            details("What the words mean", definitions(DEFINITIONS)),
        ),
    )


def _row(judgement: Judgement) -> Sequence[Content]:
    claim = Html(f"<b>{judgement.number} · {judgement.data}</b><br>{html(judgement.claim)}")
    parts = "".join(f"<li>{_part(part)}</li>" for part in judgement.parts)
    return claim, badge(judgement.verdict), Html(f"<ul>{parts}</ul>")


def _part(part: Part) -> str:
    figures = "".join(f'<span class="figures">{html(line)}</span>' for line in part.figures)
    return f'{html(badge(in_words(part.truth)))} {figures}<span class="rule">Rule: {html(part.rule)}</span>'
