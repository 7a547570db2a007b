"""A recommendation as text (a table of the standings and sentences), and the picture of its pilots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from slotwise.recommendation.answer import Recommendation, Standing
from slotwise.recommendation.candidates import Candidate
from slotwise.report.colours import Colour, LineLook, Subject, line_looks
from slotwise.report.curves import CurveFigure, Line, Panel
from slotwise.report.number_text import counted
from slotwise.report.plotting import plot_figure, save_figure

GREY = LineLook(Colour("#9A9A9A", "#9A9A9A", "o"))


def headings(answer: Recommendation) -> tuple[str, ...]:
    """Return the headings of the table; the first and the last column are text, the others numbers."""
    value = answer.finding.question.metric.value_name
    return ("", "delay", "rounds", "stale", "seeds", value, "slot", "at best", "")


def row(answer: Recommendation, standing: Standing) -> tuple[str, ...]:
    """Return the cells of one candidate."""
    candidate, text = standing.candidate, answer.finding.question.metric.text
    mark = "" if not standing.chosen else "best" if standing is answer.best else "may be best"
    return (
        candidate.label,
        _delay(candidate) or "–",
        f"{candidate.rounds:,.0f}",
        f"{candidate.mean_staleness:,.1f}",
        str(len(standing.values)),
        text(standing.mean),
        f"{standing.slot:,}",
        text(standing.at_best),
        "diverged" if standing.diverged else mark,
    )


def caption(answer: Recommendation) -> str:
    """Return the explanation of the columns."""
    metric = answer.finding.question.metric
    value = f"until {metric.target}" if metric.target else "median of the last tenth of the slots until then"
    return (
        "stale: mean age of an update, in rounds; slot: trained up to here with the first seed\n"
        f"{metric.value_name}: {value}, mean over the seeds\n"
        "at best: optimistic extrapolation to the deadline"
    )


def sentences(answer: Recommendation) -> Iterator[str]:
    """Yield what was left out, what to use, why, the cautions, the cost and the commands."""
    finding, question = answer.finding, answer.finding.question
    by_reason = defaultdict(list)
    for out in question.field.left_out:
        by_reason[out.reason].append(out.label)
    if by_reason:
        yield "not trained:"
        yield from (f"  {', '.join(labels)}: {reason}" for reason, labels in by_reason.items())
        yield ""
    best = answer.best.candidate
    parts = [f"a group size of {best.group_size:,}"]
    parts += [f"a delay of {_delay(best)}"] if _delay(best) else []
    parts += [f"a learning rate of {rate:g}" for _, rate in best.others]
    *others, last = parts
    values = f"{', '.join(others)} and {last}" if others else last
    rounds = counted(round(best.rounds), "round")
    yield (
        f"use {best.schedule} with {values}: {rounds} "
        f"by slot {question.base.deadline:,}, updates {best.mean_staleness:,.1f} rounds old"
    )
    yield _reason(answer)
    yield from (f"but: {caution}" for caution in answer.cautions)
    yield (
        f"cost: {finding.search_steps:,} SGD steps, {answer.share:.1%} of the whole grid "
        f"({question.grid_steps:,} with {counted(len(question.seeds), 'seed')})"
    )
    if answer.train_command:
        yield f"train it: {answer.train_command}"
    if answer.resume_command:
        yield f"or finish its pilot: {answer.resume_command}"
    if answer.path:
        yield f"wrote {answer.path}/recommendation.json, .png, .pdf"


def _delay(candidate: Candidate) -> str:
    if candidate.schedule != "idfl":
        return ""
    delay = "just in time" if candidate.delay is None else candidate.delay
    return f"{delay:,}" if isinstance(delay, int) else delay


def _reason(answer: Recommendation) -> str:
    """Return why it is the best, or what cannot be told from it."""
    others, seeds = len(answer.standings) - 1, len(answer.best.values)
    text = answer.finding.question.metric.text
    if not answer.decided:
        labels = [f"{s.candidate.label} ({text(s.mean)})" for s in answer.choices]
        return f"cannot tell which is best: {', '.join(labels)}; with {counted(seeds, 'seed')}"
    if not others:
        return "it is the only candidate"
    if seeds > 1:
        finalists = sum(len(standing.values) > 1 for standing in answer.standings)
        return f"it is the one left of {finalists} candidates that were trained with several seeds"
    return "no other candidate comes close by the deadline, even by an optimistic extrapolation"


def draw_pilots(answer: Recommendation, kind: str) -> bytes:
    """Return the curves of the pilots as a file of ``kind``, png or pdf; the same pilots give the same bytes.

    Those that may be the best are in colour; the others are grey and end where they were dropped.
    """
    finding, seeds = answer.finding, range(len(answer.finding.question.seeds))
    subjects = [Subject(one.candidate.schedule, one.candidate.group_size) for one in answer.choices]
    looks, lines = line_looks(subjects), []
    for standing in reversed(answer.standings):  # the best on top
        candidate = standing.candidate
        shown_seeds = seeds if standing.chosen else seeds[:1]
        curves = (
            finding.curves[candidate, i].points for i in shown_seeds if (candidate, i) in finding.curves
        )
        look = looks[answer.choices.index(standing)] if standing.chosen else GREY
        label = candidate.label if standing.chosen else "others, up to where they were dropped"
        lines.append(Line(label, look.colour, look.dash, tuple(curves)))
    shown = tuple(line for line in lines if len(line.band("slot", "loss").places))  # not diverged at once
    panel = Panel("", "slot", finding.question.metric.quantity, shown)
    return save_figure(plot_figure(CurveFigure("recommendation", "", "", (panel,))), kind)
