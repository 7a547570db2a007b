"""Recommendation: the question that was asked, what the search found, and the answer: the run to use."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from slotwise.batch.job import Run
from slotwise.errors import InputError
from slotwise.learning import Point
from slotwise.recommendation import halving
from slotwise.recommendation.candidates import Candidate, Field, field_of, rung_slot
from slotwise.recommendation.halving import SIXTEENTHS, Extent, Rung
from slotwise.recommendation.metric import Confidence, Metric, Reading, confidence
from slotwise.runs import RunConfig

EVALUATIONS_A_SIXTEENTH = 8  # two of them in the quarter that is judged
SEARCHED = ("schedule", "group_size", "delay", "seed")
"""The options that the answer decides, and the seed, of which a search takes several."""


def common_options(base: RunConfig) -> dict[str, Any]:
    """Return the options that all candidates share."""
    return {name: value for name, value in base.options().items() if name not in SEARCHED}


@dataclass(frozen=True)
class Question:
    """The question that a search answers."""

    base: RunConfig  # its schedule, group size, delay and seed are not used
    group_sizes: tuple[int, ...]
    seeds: tuple[int, ...]
    metric: Metric = Metric()  # noqa: RUF009  (frozen)
    budget: int | None = None  # most SGD steps; None: less than a quarter of training every candidate

    def __post_init__(self) -> None:
        every, most = self.base.evaluate_every, rung_slot(self.base.deadline, 1) // 4
        if every is not None and every > most:
            allowed = f"at most {most}, so that there are four evaluations in a sixteenth of the deadline"
            raise InputError("evaluate_every", every, allowed)

    @property
    def pilot_base(self) -> RunConfig:
        """The run as pilots train it: evaluated often enough to be judged after a sixteenth."""
        usual = max(1, self.base.deadline // (SIXTEENTHS * EVALUATIONS_A_SIXTEENTH))
        return self.base.with_options(evaluate_every=self.base.evaluate_every or usual)

    def pilot(self, candidate: Candidate, seed: int) -> Run:
        """Return the run whose beginning is the pilot of a candidate with a seed."""
        return Run(f"{candidate.name}-seed{seed}", candidate.config(self.pilot_base, seed))

    def prepare(self) -> tuple[Field, Extent]:
        """Return the candidates and the size of the search, or raise an InputError; nothing is trained."""
        field = field_of(self.base, self.group_sizes, self.seeds)
        steps = self.base.training.local_steps
        by_seed = [
            [[steps * updates for updates in candidate.prospects[i].updates] for candidate in field.running]
            for i in range(len(self.seeds))
        ]
        if self.budget is not None:
            return field, halving.extent_within_budget(by_seed, self.budget)
        return field, halving.extent_within_quarter(by_seed, steps * sum(field.grid_updates))


@dataclass(frozen=True)
class Finding:
    """Everything a search found: readings with each seed on each rung, curves with each seed."""

    question: Question
    field: Field
    extent: Extent
    rungs: tuple[Rung[Candidate], ...]
    readings: Mapping[tuple[Candidate, int], tuple[Reading, ...]]
    curves: Mapping[Candidate, tuple[tuple[Point, ...], ...]]
    search_steps: int  # SGD steps of the pilots
    grid_steps: int  # of training every schedule with every group size to the deadline

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that were tried."""
        return self.question.seeds[: self.extent.seeds]


@dataclass(frozen=True)
class Standing:
    """The result of one candidate on the last rung it reached."""

    candidate: Candidate
    slot: int | None = None  # the slot of the rung; None if no candidate had to be trained
    values: tuple[float | None, ...] = ()  # the metric with each seed; None if the target was not reached
    mean: float | None = None  # mean of the values, if all are known
    diverged: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the standing as recommendation.json has it."""
        candidate = self.candidate
        return {
            "schedule": candidate.schedule,
            "group_size": candidate.group_size,
            "delay": "auto" if candidate.delay is None else candidate.delay,
            "rounds": candidate.rounds,
            "mean_staleness": candidate.mean_staleness,
            "max_staleness": candidate.max_staleness,
            "judged_at_slot": self.slot,
            "metric_by_seed": list(self.values),
            "metric": self.mean,
            "diverged": self.diverged,
        }


@dataclass(frozen=True)
class Recommendation:
    """The answer of `recommend`: the run to use, the runner-up, how sure the choice is, and what it cost."""

    finding: Finding
    path: Path | None = None  # folder of the pilots and the answer; None if nothing was kept

    @property
    def config(self) -> RunConfig:
        """The run to use, with the first seed."""
        return self.best.candidate.config(self.finding.question.base, self.finding.seeds[0])

    @cached_property
    def standings(self) -> tuple[Standing, ...]:
        """All candidates, best first: by the last rung reached, then by rank on it; diverged ones last."""
        if not self.finding.rungs:
            return tuple(map(Standing, self.finding.field.running))
        found: dict[Candidate, Standing] = {}
        for rung in reversed(self.finding.rungs):
            slot = self._slot(rung)
            for candidate, _ in rung.ranking:
                readings = self.finding.readings[candidate, rung.sixteenths]
                values = tuple(map(self.finding.question.metric.value, readings))
                known = [value for value in values if value is not None]
                mean = sum(known) / len(known) if len(known) == len(values) else None
                found.setdefault(candidate, Standing(candidate, slot, values, mean))
            for candidate in rung.out:
                found.setdefault(candidate, Standing(candidate, slot, diverged=True))
        return tuple(found.values())

    @property
    def best(self) -> Standing:
        """The standing of the recommended candidate."""
        return self.standings[0]

    @property
    def runner_up(self) -> Standing | None:
        """The next best candidate, if it was judged on the same rung."""
        others = [s for s in self.standings[1:] if s.slot == self.best.slot and not s.diverged]
        return others[0] if others and self.finding.rungs else None

    @cached_property
    def confidence(self) -> Confidence | None:
        """The best compared with the runner-up."""
        if self.runner_up is None:
            return None
        last, readings = self.finding.rungs[-1].sixteenths, self.finding.readings
        pair = (readings[self.best.candidate, last], readings[self.runner_up.candidate, last])
        return confidence(self.finding.question.metric, *pair)

    @cached_property
    def cautions(self) -> tuple[str, ...]:
        """Reasons to doubt the answer, one sentence each."""
        return tuple(_cautions(self)) if self.finding.rungs else ()

    @property
    def difference(self) -> float | None:
        """The metric of the runner-up minus that of the best."""
        if self.runner_up is None or self.runner_up.mean is None or self.best.mean is None:
            return None
        return self.runner_up.mean - self.best.mean

    @property
    def share(self) -> float:
        """SGD steps of the search as a share of those of training everything."""
        return self.finding.search_steps / self.finding.grid_steps

    @property
    def train_command(self) -> str | None:
        """The command that trains the recommended run from its start."""
        if self.path is None:
            return None
        return f"slotwise train --config {shlex.quote(str(self.path / 'recommended.toml'))} --out RUN"

    @property
    def resume_command(self) -> str | None:
        """The command that finishes the pilot of the first seed."""
        if self.path is None or not self.finding.rungs:
            return None
        pilot = self.finding.question.pilot(self.best.candidate, self.finding.seeds[0])
        return f"slotwise train --resume {shlex.quote(str(self.path / 'pilots' / pilot.name))}"

    def columns(self) -> dict[str, list[Any]]:
        """Return the standings as a table: a list for each column."""
        rows = [standing.as_dict() for standing in self.standings]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def as_dict(self) -> dict[str, Any]:
        """Return the recommendation as recommendation.json has it."""
        finding, question, metric = self.finding, self.finding.question, self.finding.question.metric
        return {
            "format": 1,
            "made_by": "slotwise recommend",
            "question": {
                "metric": metric.name,
                "target": None if metric.target is None else str(metric.target),
                "powers": None if metric.powers is None else asdict(metric.powers),
                "group_sizes": list(question.group_sizes),
                "seeds": list(question.seeds),
                "budget": question.budget,
                "parameters": common_options(question.base),
            },
            "answer": self.best.as_dict(),
            "runner_up": None if self.runner_up is None else self.runner_up.as_dict(),
            "difference": self.difference,
            "confidence": None if self.confidence is None else asdict(self.confidence),
            "cautions": list(self.cautions),
            "seeds": list(finding.seeds),
            "cost": {
                "search_steps": finding.search_steps,
                "limit": finding.extent.limit,
                "grid_steps": finding.grid_steps,
                "share": self.share,
            },
            "standings": [standing.as_dict() for standing in self.standings],
            "rungs": [
                {
                    "slot": self._slot(rung),
                    "ranking": [{"candidate": c.label, "score": list(score)} for c, score in rung.ranking],
                    "diverged": [candidate.label for candidate in rung.out],
                    "kept": [candidate.label for candidate in rung.kept],
                }
                for rung in finding.rungs
            ],
            "ruled_out": [asdict(out) for out in finding.field.ruled_out],
            "train": self.train_command,
            "resume": self.resume_command,
        }

    def to_json(self) -> str:
        """Return the text of recommendation.json."""
        return json.dumps(self.as_dict(), indent=2) + "\n"

    def _slot(self, rung: Rung[Candidate]) -> int:
        return rung_slot(self.finding.question.base.deadline, rung.sixteenths)


def _cautions(answer: Recommendation) -> Iterator[str]:
    """Yield what speaks against the answer: a target or metric that does not discriminate, an early end."""
    finding, best = answer.finding, answer.best
    metric = finding.question.metric
    if metric.target is not None:
        if best.mean is None:
            missed = f"no candidate has met {metric.target} with all seeds by slot {best.slot:,}"
            yield f"{missed}; this one comes closest"
        elif best.mean == 0:
            yield f"the first model meets {metric.target} already, without a joule: so does every candidate"
    elif best.mean is not None:
        starts = [getattr(curve[0], metric.quantity) for curve in finding.curves[best.candidate]]
        first = sum(starts) / len(starts)
        if best.mean < first if metric.quantity == "accuracy" else best.mean > first:
            yield f"even the best is worse than the first model ({metric.text(first)}): nothing was learned"
    slots = [s.slot for s in answer.standings if s.slot not in (None, best.slot) and not s.diverged]
    if slots:
        early, late = (f"{bound(slots):,}" for bound in (min, max))
        span = early if early == late else f"{early} to {late}"
        yield (
            f"{len(slots)} {'was' if len(slots) == 1 else 'were'} out at slot {span} of "
            f"{finding.question.base.deadline:,}; curves may cross later; a larger budget shows more of them"
        )
