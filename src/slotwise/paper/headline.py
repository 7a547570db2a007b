"""The first sentences of the report: what intentional delay does, and whether the paper's statements hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from slotwise.data import TITLES
from slotwise.paper.evidence import Evidence, Missing, mean_text
from slotwise.paper.experiments import Schedules
from slotwise.paper.report_verdicts import Judged
from slotwise.report.number_text import counted
from slotwise.report.page import Html, html, paragraph, table

IDEA = (
    "With intentional delay (idfl), a device waits for a fresher model whenever waiting costs no slot of the "
    "channel, so that updates are less outdated."
)
HEADINGS = ("devices a round", "#synchronous (sync)", "#asynchronous (async)", "#intentional delay (idfl)")
BEST = "4c"  # the statement about the best group sizes


def idea(judged: Sequence[Judged]) -> Iterator[Html]:
    """Yield what intentional delay does, and the final losses of the three schedules where they are known.

    ``judged`` is of the default reading, the paper's equation.
    """
    known = [(one.evidence, rows) for one in judged if (rows := _losses(one.evidence))]
    effects = "".join(_effect(evidence, list(rows)) for evidence, rows in known)
    yield paragraph(Html(f"<strong>{html(IDEA)}</strong>{html(effects)}"))
    for _, rows in known:
        yield table(HEADINGS, [(f"S={size}", *losses) for size, losses in rows.items()])


def verdicts(judged: Sequence[Judged]) -> Html:
    """Return how many of the paper's statements hold, and the best group sizes."""
    counts = "; ".join(map(_counts, judged))
    best = [found.figures[0] for one in judged for found in one.judgements if found.statement.name == BEST]
    sizes = "".join(f" B{text[1:]}." for text in best)
    held = {found.truth for one in judged for found in one.judgements}
    answer = "Yes" if held == {True} else "In part" if True in held else "No"
    equation = "Under the paper's equation, averaged updates"
    text = f"{answer}. {equation}: {counts}.{sizes}"
    return paragraph(Html(f"<strong>Do the paper's statements hold?</strong> {html(text)}"))


def _losses(evidence: Evidence) -> dict[int, list[str]]:
    """Return the final losses of the three schedules at the group sizes of the first figure, if known."""
    sizes = [size for size in Schedules.group_sizes if size in evidence.group_sizes]
    try:
        return {s: [mean_text(evidence.final(one, s)) for one in Schedules.schedules] for s in sizes}
    except Missing:
        return {}


def _effect(evidence: Evidence, sizes: Sequence[int]) -> str:
    """Return where intentional delay lowers the loss, and of what case the losses are."""
    lower = [size for size in sizes if _lowers_with_every_seed(evidence, size)]
    effect = f" It lowers the final training loss at {_listed(lower)} with every seed." if lower else ""
    return f"{effect} Final training losses ({_case(evidence)}; means without collapsed runs):"


def _listed(sizes: Sequence[int]) -> str:
    return " and ".join(f"S={size}" for size in sizes)


def _lowers_with_every_seed(evidence: Evidence, size: int) -> bool:
    """Return whether idfl ends below async with each seed; a collapsed run has a loss, too."""
    pairs = zip(evidence.curves("idfl", size), evidence.curves("async", size), strict=True)
    return all(idfl.final_loss < without.final_loss for idfl, without in pairs)


def _counts(one: Judged) -> str:
    verdicts = Counter(found.truth for found in one.judgements)
    seeds = counted(len(one.evidence.seeds), "seed")
    return (
        f"{TITLES[one.data]} ({seeds}): {verdicts[True]} of {len(one.judgements)} hold, {verdicts[False]} do "
        f"not, {verdicts[None]} not decided"
    )


def _case(evidence: Evidence) -> str:
    base = evidence.base
    slots = f"{base.channel.devices} devices, {base.deadline:,} slots, {counted(len(evidence.seeds), 'seed')}"
    return f"{TITLES[base.dataset.data]}, {slots}"
