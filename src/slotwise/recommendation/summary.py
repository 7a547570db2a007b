"""A recommendation as text: the table of the standings, and the sentences that follow it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from slotwise.recommendation.answer import Recommendation, Standing
from slotwise.recommendation.candidates import Candidate


def headings(answer: Recommendation) -> tuple[str, ...]:
    """Return the headings of the table; the first and the last column are text, the others numbers."""
    return ("", "delay", "rounds", "stale", answer.finding.question.metric.value_name, "at slot", "")


def row(answer: Recommendation, standing: Standing) -> tuple[str, ...]:
    """Return the cells of one candidate."""
    candidate = standing.candidate
    mark = "best" if standing is answer.best else "runner-up" if standing is answer.runner_up else ""
    return (
        candidate.label,
        _delay(candidate) or "–",
        f"{candidate.rounds:,.0f}",
        f"{candidate.mean_staleness:,.1f}",
        "–" if standing.mean is None else answer.finding.question.metric.text(standing.mean),
        "–" if standing.slot is None else f"{standing.slot:,}",
        "diverged" if standing.diverged else mark,
    )


def caption(answer: Recommendation) -> str:
    """Return the explanation of the columns."""
    metric, seeds = answer.finding.question.metric, len(answer.finding.seeds)
    span = f"until {metric.target}" if metric.target else "over the last quarter of the slots until then"
    count = "1 seed" if seeds == 1 else f"{seeds} seeds"
    return f"stale: mean age of an update, in rounds\n{metric.value_name}: {span}, mean of {count}"


def sentences(answer: Recommendation) -> Iterator[str]:
    """Yield what was ruled out, what to use, how sure that is, the cautions, the cost and the commands."""
    yield from _ruled_out(answer)
    finding, best = answer.finding, answer.best.candidate
    delay = f" and a delay of {_delay(best)}" if _delay(best) else ""
    yield (
        f"use {best.schedule} with a group size of {best.group_size:,}{delay}: {best.rounds:,.0f} rounds by "
        f"slot {finding.question.base.deadline:,}, updates {best.mean_staleness:,.1f} rounds old"
    )
    yield from _comparison(answer)
    yield from (f"but: {caution}" for caution in answer.cautions)
    yield (
        f"cost: {finding.search_steps:,} SGD steps; training everything: {finding.grid_steps:,} "
        f"({answer.share:.1%})"
    )
    if answer.train_command:
        yield f"train it: {answer.train_command}"
    if answer.resume_command:
        yield f"or finish its pilot: {answer.resume_command}"
    if answer.path:
        yield f"wrote {answer.path}/recommendation.json" + (", .png, .pdf" if finding.rungs else "")


def _delay(candidate: Candidate) -> str:
    if candidate.schedule != "idfl":
        return ""
    return "just in time" if candidate.delay is None else f"{candidate.delay:,}"


def _ruled_out(answer: Recommendation) -> Iterator[str]:
    """Yield the reasons, each once with all its candidates."""
    by_reason = defaultdict(list)
    for out in answer.finding.field.ruled_out:
        by_reason[out.reason].append(out.label)
    if by_reason:
        yield "ruled out by the exact schedule:"
        yield from (f"  {', '.join(labels)}: {reason}" for reason, labels in by_reason.items())
        yield ""


def _comparison(answer: Recommendation) -> Iterator[str]:
    """Yield how sure the choice is, or why there is no runner-up."""
    other, sure, text = answer.runner_up, answer.confidence, answer.finding.question.metric.text
    if other is None or sure is None:
        others = answer.standings[1:]
        diverged = sum(standing.diverged for standing in others)
        counts = {"diverged": diverged, "were eliminated before": len(others) - diverged}
        became = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        yield "the only candidate left" + (f"; of the others, {became}" if became else "")
        return
    means = [text(one.mean) for one in (answer.best, other) if one.mean is not None]
    line = f"compared with {other.candidate.label}"
    line += f" ({' versus '.join(means)})" if answer.best.mean is not None else ""
    line += f": better in {sure.seeds_won} of {sure.seeds} seeds"
    if sure.resamples_won is not None:
        line += f", in {sure.resamples_won:.0%} of resamples"
    yield f"{line}, judged at slot {answer.best.slot:,}"
    if sure.seeds == 1:
        yield "one seed says nothing about others"
