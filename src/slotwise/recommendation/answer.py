"""The answer: what to use, how sure that is, what it has cost, and how to go on."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from slotwise.recommendation.candidates import Candidate, rung_slot
from slotwise.recommendation.cautions import cautions
from slotwise.recommendation.confidence import Confidence, confidence
from slotwise.recommendation.folder import FORMAT, RecommendFolder
from slotwise.recommendation.halving import Rung
from slotwise.recommendation.question import common_options
from slotwise.recommendation.search import Finding
from slotwise.recommendation.standing import Standing
from slotwise.runs import RunConfig


@dataclass(frozen=True)
class Answer:
    """What a finding says, in the folder at ``path``."""

    finding: Finding
    path: Path

    @cached_property
    def standings(self) -> tuple[Standing, ...]:
        """Best first: by the last rung climbed, then by rank on it; the diverged last on theirs."""
        rungs = self.finding.rungs
        if not rungs:
            return tuple(Standing(candidate, None, (), None) for candidate in self.finding.field.running)
        found: dict[Candidate, Standing] = {}
        for rung in reversed(rungs):
            for candidate, _ in rung.ranking:
                found.setdefault(candidate, self._standing(candidate, rung))
            for candidate in rung.out:
                found.setdefault(candidate, Standing(candidate, self._slot(rung), (), None, diverged=True))
        return tuple(found.values())

    @property
    def best(self) -> Standing:
        """What to use."""
        return self.standings[0]

    @property
    def runner_up(self) -> Standing | None:
        """The next best, if it was judged on the same rung."""
        others = [s for s in self.standings[1:] if s.slot == self.best.slot and not s.diverged]
        return others[0] if others and self.finding.rungs else None

    @cached_property
    def confidence(self) -> Confidence | None:
        """The best against the runner-up."""
        if self.runner_up is None:
            return None
        last = self.finding.rungs[-1].sixteenths
        readings = self.finding.readings
        return confidence(
            self.finding.question.metric,
            readings[self.best.candidate, last],
            readings[self.runner_up.candidate, last],
        )

    @cached_property
    def cautions(self) -> tuple[str, ...]:
        """What speaks against believing it."""
        return cautions(self.finding, self.standings)

    @property
    def difference(self) -> float | None:
        """Runner-up minus best, in the metric."""
        if self.runner_up is None or self.runner_up.mean is None or self.best.mean is None:
            return None
        return self.runner_up.mean - self.best.mean

    @property
    def share(self) -> float:
        """The SGD steps of the search, as a part of the grid's."""
        return self.finding.search_steps / self.finding.grid_steps

    @property
    def toml_path(self) -> Path:
        """The options of the recommended run."""
        return self.path / "recommended.toml"

    @property
    def train_command(self) -> str:
        """Trains the recommended run from its start."""
        return f"slotwise train --config {shlex.quote(str(self.toml_path))} --out RUN"

    @property
    def resume_command(self) -> str | None:
        """Finishes the pilot of the first seed."""
        if not self.finding.rungs:
            return None
        pilot = RecommendFolder(self.path).pilot(self.best.candidate, self.finding.seeds[0])
        return f"slotwise train --resume {shlex.quote(str(pilot.path))}"

    def parameters(self) -> RunConfig:
        """Of the recommended run, with the first seed."""
        return self.best.candidate.parameters(self.finding.question.base, self.finding.seeds[0])

    def as_dict(self) -> dict[str, Any]:
        """As recommendation.json holds it."""
        finding, question = self.finding, self.finding.question
        return {
            "format": FORMAT,
            "made_by": "slotwise recommend",
            "question": {
                "metric": question.metric.name,
                "target": None if question.metric.target is None else str(question.metric.target),
                "powers": None if question.metric.powers is None else asdict(question.metric.powers),
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
            "rungs": [self._rung_as_dict(rung) for rung in finding.rungs],
            "ruled_out": [asdict(out) for out in finding.field.ruled_out],
            "train": self.train_command,
            "resume": self.resume_command,
        }

    def to_json(self) -> str:
        """recommendation.json."""
        return json.dumps(self.as_dict(), indent=2) + "\n"

    def _slot(self, rung: Rung[Candidate]) -> int:
        return rung_slot(self.finding.question.base.deadline, rung.sixteenths)

    def _standing(self, candidate: Candidate, rung: Rung[Candidate]) -> Standing:
        metric = self.finding.question.metric
        values = tuple(map(metric.value, self.finding.readings[candidate, rung.sixteenths]))
        known = [value for value in values if value is not None]
        mean = sum(known) / len(known) if len(known) == len(values) else None
        return Standing(candidate, self._slot(rung), values, mean)

    def _rung_as_dict(self, rung: Rung[Candidate]) -> dict[str, Any]:
        return {
            "slot": self._slot(rung),
            "ranking": [{"candidate": c.label, "score": list(score)} for c, score in rung.ranking],
            "diverged": [candidate.label for candidate in rung.out],
            "kept": [candidate.label for candidate in rung.kept],
        }


def toml_of(parameters: RunConfig) -> str:
    """All options of a run, as `slotwise train --config` reads them."""
    lines = []
    for name, value in parameters.options().items():
        if name == "absences":
            value = [[part for part in absence if part is not None] for absence in value]  # noqa: PLW2901
        if value is not None:
            lines.append(f"{name.replace('_', '-')} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"
