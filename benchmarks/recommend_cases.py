"""Judge `slotwise recommend` on five cases whose whole grids were trained to the deadline.

    python benchmarks/recommend_cases.py [CASE...]
    nice python benchmarks/recommend_cases.py --train runs/recommend-cases [CASE...]

The first command replays the stored curves: the search asks for the beginning of a run and gets that of its
curve. Each case is searched once with each seed as the first. An answer is right if its mean final loss is
within 10 % of the best of the grid, or if it says that it cannot tell and its set contains the best; the exit
code is 1 if one is not. The second command trains the grids and stores their curves. It resumes.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from slotwise.base.files import write_csv
from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.executors import SerialExecutor
from slotwise.batch.jobs import run_jobs, unfinished
from slotwise.learning import Point
from slotwise.recommendation.answer import Recommendation
from slotwise.recommendation.candidates import Curve, Pilot, Trainer, identity_of
from slotwise.recommendation.elimination import Question, Search
from slotwise.runs import RunConfig, RunFolder

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs/results/recommend"
PUBLISHED = ROOT / "docs/results/paper/runs"  # has async and idfl of the paper's case
COLUMNS = ("schedule", "group_size", "seed", "slot", "round", "loss", "accuracy")
WITHIN = 1.1

Curves = dict[tuple[str, int], list[Point]]
"""The curves of a grid by the identity of the timeline and the seed."""


@cache
def identity(config: RunConfig) -> str:
    """Return the identity of the timeline of a run."""
    return identity_of(config.simulate())


@dataclass(frozen=True)
class Case:
    """A question whose whole grid was trained."""

    name: str
    options: Mapping[str, Any]
    sizes: tuple[int, ...]
    seeds: tuple[int, ...]

    @property
    def question(self) -> Question:
        """The question, with the first seed first."""
        base = RunConfig.from_options({**self.options, "schedule": "sync", "group_size": self.sizes[0]})
        return Question(base, self.sizes, self.seeds)

    @property
    def path(self) -> Path:
        """The file of the stored curves."""
        return RESULTS / f"cases/{self.name}.csv"


MNIST = {"devices": 20, "deadline": 1500, "evaluate_every": 30}
CIFAR10 = {"data": "cifar10", "partition": "iid", "deadline": 1000, "evaluate_every": 40}
SMALL_NETWORK = {"channels": (8,), "hidden": (), "batch_size": 16, "samples_per_device": 100}
CONVEX = {"devices": 20, "compute_slots": 10, "deadline": 4000, "evaluate_every": 80}
LOGISTIC = "examples.own_task.logistic:make_task"
TWO_CLASSES = {"compute_distribution": "two-classes:5:40:0.5", "jitter": 0.3}
PAPER, DIVISORS, FEW = (1, 5, 10, 25, 50, 100), (1, 2, 4, 5, 10, 20), (1, 2, 5, 10, 20)
CASES = {
    case.name: case
    for case in (
        Case("paper", {"deadline": 50_000}, PAPER, (1, 2)),
        Case("small", {**MNIST, "compute_slots": 10}, DIVISORS, (0, 1, 2)),
        Case("cifar10", {**CIFAR10, **SMALL_NETWORK}, FEW, (0, 1)),
        Case("convex", {**CONVEX, "task": LOGISTIC}, DIVISORS, (0, 1, 2)),
        Case("unequal", {**MNIST, **TWO_CLASSES}, FEW, (0, 1)),
    )
}


def train(case: Case, folder: BatchFolder) -> None:
    """Train what is missing of the grid of a case, and store its curves."""
    question = case.question
    pilots = [question.pilot(c, i) for i in range(len(case.seeds)) for c in question.field.candidates]
    runs = [pilot.run for pilot in pilots]
    for failure in run_jobs(folder, unfinished(folder, runs), SerialExecutor()):
        print(f"{case.name}: {failure.run.name}: {failure.reason}")
    rows = []
    for run in runs:
        head = (run.config.schedule, run.config.channel.group_size, run.config.seed)
        points = folder.run(run.name).points()
        rows += [(*head, p.slot, p.round, f"{p.loss:.6g}", f"{p.accuracy:.4f}") for p in points]
    case.path.parent.mkdir(exist_ok=True)
    write_csv(case.path, COLUMNS, rows)


def stored(case: Case) -> Curves:
    """Return the stored curves of a case."""
    found: Curves = {}
    base, by_run = case.question.base, dict[tuple[str, int, int], list[Point]]()
    if case.name == "paper":
        for path in (*(RESULTS / "grid/runs").iterdir(), *PUBLISHED.iterdir()):
            folder = RunFolder(path)
            config = folder.parameters()
            policy, size = config.schedule, config.channel.group_size
            if config == base.with_options(schedule=policy, group_size=size, seed=config.seed):
                found[identity(config), config.seed] = folder.points()
        return found
    with case.path.open(encoding="utf-8", newline="") as file:
        for schedule, size, seed, slot, rounds, loss, accuracy in list(csv.reader(file))[1:]:
            point = Point(int(slot), int(rounds), float(loss), float(accuracy), 0)
            by_run.setdefault((schedule, int(size), int(seed)), []).append(point)
    for (schedule, group_size, number), points in by_run.items():
        config = base.with_options(schedule=schedule, group_size=group_size, seed=number)
        found[identity(config), number] = points
    return found


def replay(curves: Curves) -> Trainer:
    """Return a trainer that trains nothing: it returns the beginnings of stored curves."""

    def train(pilots: Sequence[Pilot]) -> list[Curve]:
        return [beginning(pilot) for pilot in pilots]

    def beginning(pilot: Pilot) -> Curve:
        config = pilot.run.config
        points = curves[identity(config), config.seed]
        diverged = points[-1].round < pilot.rounds
        return Curve(config, pilot.slot, tuple(p for p in points if p.round <= pilot.rounds), diverged)

    return train


@dataclass(frozen=True)
class Verdict:
    """An answer, judged by the final losses of the whole grid: means over all seeds."""

    case: Case
    answer: Recommendation
    losses: Mapping[str, float]

    @property
    def best(self) -> str:
        """The best of the grid."""
        return min(self.losses, key=lambda label: self.losses[label])

    @property
    def chosen(self) -> list[str]:
        """The candidates that the answer names, best first."""
        return [standing.candidate.label for standing in self.answer.choices]

    @property
    def ratio(self) -> float:
        """Final loss of the recommended candidate as a multiple of the best's."""
        return self.losses[self.chosen[0]] / self.losses[self.best]

    @property
    def holds(self) -> bool:
        """Return whether the answer is good enough, or names the best in its set."""
        return self.ratio <= WITHIN or (not self.answer.decided and self.best in self.chosen)


def judge(case: Case) -> Iterator[Verdict]:
    """Yield a verdict for each seed as the first."""
    curves, question = stored(case), case.question
    metric = question.metric
    losses = {}
    for candidate in question.field.candidates:
        ends = replay(curves)([question.pilot(candidate, index) for index in range(len(case.seeds))])
        losses[candidate.label] = fmean(metric.present(curve)[1] for curve in ends)
    for first in range(len(case.seeds)):
        turned = replace(question, seeds=(*case.seeds[first:], *case.seeds[:first]))
        yield Verdict(case, Recommendation(Search(turned, replay(curves)).run()), losses)


def table(verdicts: Sequence[Verdict]) -> Table:
    shown = Table(
        "case", "seed", "best of the grid", "answer", "ratio", "cost in SGD steps", "", box=SIMPLE_HEAD
    )
    for verdict in verdicts:
        answer, (first, *others) = verdict.answer, verdict.chosen
        shown.add_row(
            verdict.case.name,
            str(answer.finding.question.seeds[0]),
            f"{verdict.best}: {verdict.losses[verdict.best]:.4f}",
            f"{first}: {verdict.losses[first]:.4f}" + (f", or {', '.join(others)}" if others else ""),
            f"{verdict.ratio:.3f}",
            f"{answer.finding.search_steps:,} ({answer.share:.0%})",
            "right" if verdict.holds else "wrong",
        )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--train", type=Path, metavar="DIR", help="train the grids in this folder first")
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - CASES.keys():
        parser.error(f"no such case: {', '.join(sorted(unknown))}; choose from {', '.join(CASES)}")
    cases = [CASES[name] for name in arguments.cases or CASES]
    sys.path.insert(0, str(ROOT))  # the convex task is among the examples
    for case in cases:
        if arguments.train and case.name != "paper":  # its grid takes hours, and is stored as run folders
            train(case, BatchFolder(arguments.train / case.name))
    verdicts = [verdict for case in cases for verdict in judge(case)]
    Console().print(table(verdicts))
    print(f"right: the answer's final loss is at most {WITHIN} times the best's, or its set has the best")
    sys.exit(0 if all(verdict.holds for verdict in verdicts) else 1)


if __name__ == "__main__":
    main()
