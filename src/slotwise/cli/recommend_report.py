"""The answer of `slotwise recommend` as a table and a few lines, or as JSON."""

from __future__ import annotations

from collections import defaultdict

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from slotwise.recommendation.answer import Answer
from slotwise.recommendation.candidates import Candidate
from slotwise.recommendation.standing import Standing
from slotwise.report.cost_tables import table_console
from slotwise.report.gantt.chart import amount


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """To stdout."""
    if as_json:
        typer.echo(answer.to_json(), nl=False)
        return
    table_console().print(_table(answer))
    for line in [*_ruled_out(answer), "", *_words(answer)]:
        typer.echo(line)


def _table(answer: Answer) -> Table:
    table = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        caption=_caption(answer),
        caption_justify="left",
    )
    table.add_column("", no_wrap=True)
    for heading in ("delay", "rounds", "stale", answer.finding.question.metric.word, "at slot"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for standing in answer.standings:
        best = standing is answer.best
        table.add_row(*_cells(answer, standing), style="bold" if best else None)
    return table


def _caption(answer: Answer) -> str:
    metric, seeds = answer.finding.question.metric, len(answer.finding.seeds)
    what = f"until {metric.target}" if metric.target else "over the last quarter of the slots until then"
    return f"stale: mean age of an update, in rounds\n{metric.word}: {what}, mean of {amount(seeds, 'seed')}"


def _cells(answer: Answer, standing: Standing) -> list[str]:
    candidate = standing.candidate
    verdict = "best" if standing is answer.best else "runner-up" if standing is answer.runner_up else ""
    return [
        candidate.label,
        _delay(candidate),
        f"{candidate.rounds:,.0f}",
        f"{candidate.mean_staleness:,.1f}",
        "–" if standing.mean is None else answer.finding.question.metric.text(standing.mean),
        "–" if standing.slot is None else f"{standing.slot:,}",
        "diverged" if standing.diverged else verdict,
    ]


def _delay(candidate: Candidate) -> str:
    if candidate.schedule != "idfl":
        return "–"
    return "just in time" if candidate.delay is None else f"{candidate.delay:,}"


def _ruled_out(answer: Answer) -> list[str]:
    """Reasons, those that are the same word for word joined."""
    by_reason = defaultdict(list)
    for out in answer.finding.field.ruled_out:
        by_reason[out.reason].append(out.label)
    if not by_reason:
        return []
    return ["ruled out by the plan:"] + [
        f"  {', '.join(labels)}: {reason}" for reason, labels in by_reason.items()
    ]


def _words(answer: Answer) -> list[str]:
    best, finding = answer.best.candidate, answer.finding
    deadline = finding.question.base.deadline
    lines = [
        f"use {best.schedule} with a group size of {best.group_size:,}{_with_delay(best)}: "
        f"{best.rounds:,.0f} rounds by slot {deadline:,}, updates {best.mean_staleness:,.1f} rounds old",
        *_comparison(answer),
        *(f"but: {caution}" for caution in answer.cautions),
        f"cost: {finding.search_steps:,} SGD steps; training everything: {finding.grid_steps:,} "
        f"({answer.share:.1%})",
        f"train it: {answer.train_command}",
    ]
    if answer.resume_command:
        lines.append(f"or finish its pilot: {answer.resume_command}")
    return [*lines, f"wrote {answer.path}/recommendation.json" + (", .png, .pdf" if finding.rungs else "")]


def _with_delay(candidate: Candidate) -> str:
    if candidate.schedule != "idfl":
        return ""
    return " and delay just in time" if candidate.delay is None else f" and a delay of {candidate.delay:,}"


def _comparison(answer: Answer) -> list[str]:
    """How sure it is."""
    other, sure = answer.runner_up, answer.confidence
    if other is None or sure is None:
        return [_alone(answer)]
    values = ""
    if answer.best.mean is not None:
        text = answer.finding.question.metric.text
        values = f" ({text(answer.best.mean)}"
        values += f" against {text(other.mean)})" if other.mean is not None else ")"
    line = f"against {other.candidate.label}{values}: better in {sure.seeds_won} of {sure.seeds} seeds"
    if sure.resamples_won is not None:
        line += f", in {sure.resamples_won:.0%} of resamples"
    lines = [line + f", judged at slot {answer.best.slot:,}"]
    if sure.seeds == 1:
        lines.append("one seed says nothing about others")
    return lines


def _alone(answer: Answer) -> str:
    """Why there is no runner-up."""
    others = answer.standings[1:]
    diverged = sum(standing.diverged for standing in others)
    words = [
        f"{count} {what}"
        for count, what in ((diverged, "diverged"), (len(others) - diverged, "out by rank before"))
        if count
    ]
    return "the only candidate left" + (f"; of the others: {', '.join(words)}" if words else "")
