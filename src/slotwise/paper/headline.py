"""The first sentences of the report: what intentional delay does, and whether the paper's statements hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from slotwise.data import TITLES
from slotwise.paper.evidence import Evidence, Missing, mean_text
from slotwise.paper.experiments import Schedules
from slotwise.paper.report_verdicts import Judged
from slotwise.report.number_text import counted
from slotwise.report.page import Content, Html, html, paragraph

IDEA = (
    "With intentional delay (idfl), a device waits for a fresher model whenever waiting costs no slot of the "
    "channel."
)
BEST = "4c"  # the statement about the best group sizes


def headline(judged: Sequence[Judged]) -> Iterator[Content]:
    """Yield the idea with its figures, and how many of the paper's statements hold for each data set.

    ``judged`` is of the default reading, the paper's equation.
    """
    losses = "".join(sentence for one in judged for sentence in _losses(one.evidence))
    yield paragraph(Html(f"<strong>{html(IDEA)}</strong>{html(losses)}"))
    if judged:
        yield paragraph(" ".join(sentence for one in judged for sentence in _statements(one)))


def _losses(evidence: Evidence) -> Iterator[str]:
    """Yield the final losses of the three schedules at the group sizes of the first figure."""
    sizes = [size for size in Schedules.group_sizes if size in evidence.group_sizes]
    try:
        losses = {s: [mean_text(evidence.final(s, size)) for size in sizes] for s in Schedules.schedules}
    except Missing:
        return
    if sizes:
        at = " and ".join(f"S={size}" for size in sizes)
        sync, without, with_delay = (" and ".join(texts) for texts in losses.values())
        yield (
            f" On {_case(evidence)} the final training loss at {at} is {with_delay} with it, {without} "
            f"without it (asynchronous FL), and {sync} with synchronous FL."
        )


def _statements(one: Judged) -> Iterator[str]:
    """Yield how many statements hold, and the best group sizes."""
    verdicts = Counter(found.truth for found in one.judgements)
    opened = f" and {verdicts[None]} stay open (runs collapsed, or seeds disagree)" if verdicts[None] else ""
    yield (
        f"Of the paper's {len(one.judgements)} statements on {_case(one.evidence)} {verdicts[True]} hold, "
        f"{verdicts[False]} do not{opened}."
    )
    yield from (f"B{found.figures[0][1:]}." for found in one.judgements if found.statement.name == BEST)


def _case(evidence: Evidence) -> str:
    base = evidence.base
    slots = f"{base.channel.devices} devices, {base.deadline:,} slots, {counted(len(evidence.seeds), 'seed')}"
    return f"{TITLES[base.dataset.data]} ({slots})"
