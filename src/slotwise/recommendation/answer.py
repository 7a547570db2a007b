"""Recommendation: the answer of a search, the run to use, and what was found about every candidate."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from slotwise.base.files import json_text
from slotwise.recommendation.candidates import LEARNING_RATE, Candidate, common_options
from slotwise.recommendation.elimination import Finding
from slotwise.runs import RunConfig


@dataclass(frozen=True)
class Standing:
    """The result of one candidate where its training ended."""

    candidate: Candidate
    slot: int  # up to which it was trained with the first seed
    values: tuple[float | None, ...]  # the metric with each seed; None if the target was not reached
    mean: float | None  # of the values, if all are known
    at_best: float | None  # optimistic value at the deadline; None if unknown or trained up to there
    diverged: bool = False
    chosen: bool = False  # it may be the best

    def as_dict(self) -> dict[str, Any]:
        """Return the standing as recommendation.json has it."""
        candidate = self.candidate
        return {
            "schedule": candidate.schedule,
            "group_size": candidate.group_size,
            "delay": "auto" if candidate.delay is None else candidate.delay,
            **dict(candidate.others),
            "rounds": candidate.rounds,
            "mean_staleness": candidate.mean_staleness,
            "max_staleness": candidate.max_staleness,
            "trained_to_slot": self.slot,
            "metric_by_seed": list(self.values),
            "metric": self.mean,
            "optimistic": self.at_best,
            "diverged": self.diverged,
            "chosen": self.chosen,
        }


@dataclass(frozen=True)
class Recommendation:
    """The answer of `recommend`: the run to use, those that cannot be told from it, and what it cost."""

    finding: Finding = field(repr=False)
    path: Path | None = None  # folder of the pilots and the answer; None if nothing was kept

    def __str__(self) -> str:
        """Return what to use, why, what speaks against it and what the search has cost."""
        from slotwise.recommendation.answer_text import sentences  # noqa: PLC0415  (it imports this module)

        return "\n".join(sentences(self))

    @property
    def config(self) -> RunConfig:
        """The run to use, with the first seed."""
        question = self.finding.question
        return self.best.candidate.config(question.base, question.seeds[0])

    @cached_property
    def standings(self) -> tuple[Standing, ...]:
        """All candidates: first those that may be the best; the others by how far they were trained."""
        finding = self.finding
        others = [c for c in finding.question.field.candidates if c not in finding.choices]
        order = {c: (finding.is_diverged(c), -finding.slot(c), finding.score(c)) for c in others}
        return tuple(map(self._standing, (*finding.choices, *sorted(others, key=lambda c: order[c]))))

    def _standing(self, candidate: Candidate) -> Standing:
        finding, metric = self.finding, self.finding.question.metric
        curve, diverged = finding.curves[candidate, 0], finding.is_diverged(candidate)
        unfinished = not diverged and curve.slot < curve.config.deadline and not metric.settled(curve)
        return Standing(
            candidate,
            curve.slot,
            tuple(map(metric.value, finding.scores(candidate))),
            metric.value(finding.score(candidate)),
            metric.value(metric.optimistic(curve)) if unfinished and not metric.target else None,
            diverged,
            candidate in finding.choices,
        )

    @property
    def best(self) -> Standing:
        """The standing of the recommended candidate."""
        return self.standings[0]

    @property
    def choices(self) -> tuple[Standing, ...]:
        """The best and all that cannot be told from it, best first."""
        return tuple(standing for standing in self.standings if standing.chosen)

    @property
    def decided(self) -> bool:
        """Return whether one candidate was found to be the best."""
        return len(self.choices) == 1

    @cached_property
    def cautions(self) -> tuple[str, ...]:
        """Reasons to doubt the answer, one sentence each."""
        return tuple(_cautions(self))

    @property
    def share(self) -> float:
        """SGD steps of the search as a share of those of the whole grid."""
        return self.finding.search_steps / self.finding.question.grid_steps

    @property
    def train_command(self) -> str | None:
        """The command that trains the recommended run from its start."""
        if self.path is None:
            return None
        return f"slotwise train --config {shlex.quote(str(self.path / 'recommended.toml'))} --out RUN"

    @property
    def resume_command(self) -> str | None:
        """The command that finishes the pilot of the first seed; None if it is finished."""
        question = self.finding.question
        if self.path is None or self.best.slot == question.base.deadline:
            return None
        pilot = question.pilot(self.best.candidate, 0).run.name
        return f"slotwise train --resume {shlex.quote(str(self.path / 'pilots' / pilot))}"

    def columns(self) -> dict[str, list[Any]]:
        """Return the standings as a table: a list for each column."""
        rows = [standing.as_dict() for standing in self.standings]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def as_dict(self) -> dict[str, Any]:
        """Return the recommendation as recommendation.json has it."""
        finding, question, metric = self.finding, self.finding.question, self.finding.question.metric
        return {
            "format": 2,
            "made_by": "slotwise recommend",
            "question": {
                "metric": metric.name,
                "target": None if metric.target is None else str(metric.target),
                "powers": None if metric.powers is None else asdict(metric.powers),
                "group_sizes": list(question.group_sizes),
                "seeds": list(question.seeds),
                "budget": question.budget,
                "learning_rates": list(question.learning_rates),
                "parameters": common_options(question.base, question.learning_rates),
            },
            "answer": self.best.as_dict(),
            "decided": self.decided,
            "choices": [standing.candidate.label for standing in self.choices],
            "cautions": list(self.cautions),
            "cost": {
                "search_steps": finding.search_steps,
                "grid_steps": question.grid_steps,
                "share": self.share,
            },
            "standings": [standing.as_dict() for standing in self.standings],
            "left_out": [asdict(out) for out in question.field.left_out],
            "train": self.train_command,
            "resume": self.resume_command,
        }

    def to_json(self) -> str:
        """Return the text of recommendation.json."""
        return json_text(self.as_dict()) + "\n"


def _cautions(answer: Recommendation) -> Iterator[str]:
    """Yield what speaks against the answer: a metric that does not discriminate, the budget, one seed."""
    finding, best = answer.finding, answer.best
    metric, first = finding.question.metric, finding.curves[best.candidate, 0].points[0]
    if metric.target is not None:
        if best.mean is None:
            missed = f"no candidate has met {metric.target} with all seeds by slot {best.slot:,}"
            yield f"{missed}; this one comes closest"
        elif best.mean == 0:
            yield f"the first model meets {metric.target} already, without a joule: so does every candidate"
    elif best.values[0] is not None:
        start = getattr(first, metric.quantity)
        if best.values[0] < start if metric.quantity == "accuracy" else best.values[0] > start:
            yield f"even the best is worse than the first model ({metric.text(start)}): nothing was learned"
    rates = finding.question.learning_rates
    if len(rates) > 1 and (rate := dict(best.candidate.others)[LEARNING_RATE]) in (rates[0], rates[-1]):
        edge, other = ("lowest", "lower") if rate == rates[0] else ("highest", "higher")
        yield f"its learning rate is the {edge} that was tried; a {other} one may be better"
    if not finding.complete:
        yield f"the budget ended the search at slot {best.slot:,}; a larger one may change the answer"
    if len(best.values) == 1 and len(finding.question.field.candidates) > 1:
        yield f"judged with seed {finding.question.seeds[0]} only, which says nothing about other seeds"
