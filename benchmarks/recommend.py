"""Judge the answers of `slotwise recommend` by runs that were all trained to the end.

    python benchmarks/recommend.py GRID_DIR RECOMMEND_DIR...

GRID_DIR/runs holds run folders, as `slotwise reproduce` or `slotwise train` make them; every seed for which
there are some is judged. The recommended run's final loss must be within 5 % of the best of the grid's, at
less than a quarter of the grid's SGD steps; the exit code is 1 if it is not.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from slotwise.errors import UserError
from slotwise.recommendation.answer import SEARCHED
from slotwise.recommendation.candidates import identity_of, with_schedule
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.run_folder import final_loss
from slotwise.schedule import Schedule

WITHIN, SHARE = 1.05, 0.25


@dataclass(frozen=True)
class GridRun:
    """A run that was trained to the end."""

    config: RunConfig
    identity: str
    loss: float

    @property
    def label(self) -> str:
        """The schedule and the group size."""
        return f"{self.config.policy.schedule} S={self.config.channel.group_size}"


@dataclass(frozen=True)
class Verdict:
    """One recommendation, judged with one seed of the grid."""

    folder: Path
    seed: int
    best: GridRun
    recommended: GridRun
    missing: Sequence[str]
    share: float

    @property
    def ratio(self) -> float:
        """Ratio of the final losses, 1 if the best was recommended."""
        return self.recommended.loss / self.best.loss

    @property
    def holds(self) -> bool:
        """Return whether the promise of `slotwise recommend` was kept."""
        return self.ratio <= WITHIN and self.share < SHARE


def grid_runs(grid: Path, wanted: Mapping[str, Any]) -> dict[int, list[GridRun]]:
    """Return the finished runs of the same case, by seed."""
    found = defaultdict(list)
    for path in sorted((grid / "runs").glob("*/run.json")):
        folder = RunFolder(path.parent)
        config = folder.parameters()
        if common(config) == common(RunConfig.from_saved(wanted)) and folder.status == "finished":
            loss = final_loss(folder.points(), config.deadline)
            found[config.seed].append(GridRun(config, identity_of(config.simulate()), loss))
    return found


def common(config: RunConfig) -> dict[str, Any]:
    """Return the options that all candidates share, except how often they are evaluated."""
    return {n: v for n, v in config.options().items() if n not in (*SEARCHED, "evaluate_every")}


def judge(grid: Path, folder: Path) -> list[Verdict]:
    try:
        document = json.loads((folder / "recommendation.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: no finished recommendation ({error})") from None
    wanted = {**document["question"]["parameters"], "group_size": 1}
    answer = document["answer"]
    verdicts = []
    for seed, runs in grid_runs(grid, wanted).items():
        own = RunConfig.from_saved({**wanted, "seed": seed})
        chosen = with_schedule(own, answer["schedule"], answer["group_size"], seed)
        identity = identity_of(chosen.simulate())
        recommended = next((run for run in runs if run.identity == identity), None)
        if recommended is None:
            raise UserError(f"{grid}: seed {seed} lacks {answer['schedule']} S={answer['group_size']}")
        missing = missing_runs(own, document["question"]["group_sizes"], runs)
        best = min(runs, key=lambda run: run.loss)
        verdicts.append(Verdict(folder, seed, best, recommended, missing, document["cost"]["share"]))
    if not verdicts:
        raise UserError(f"{grid}: no finished run of the case of {folder}")
    return verdicts


def missing_runs(base: RunConfig, sizes: Sequence[int], runs: Sequence[GridRun]) -> list[str]:
    """Return the candidates that were not trained, those that were ruled out included."""
    there = {run.identity for run in runs}
    lacking: dict[str, str] = {}
    for size in sizes:
        for schedule in get_args(Schedule):
            identity = identity_of(with_schedule(base, schedule, size, base.seed).simulate())
            if identity not in there:
                lacking.setdefault(identity, f"{schedule} S={size}")
    return list(lacking.values())


def table(verdicts: Sequence[Verdict]) -> Table:
    shown = Table("folder", "seed", "best of the grid", "recommended", "ratio", "steps", "", box=SIMPLE_HEAD)
    for verdict in verdicts:
        shown.add_row(
            verdict.folder.name,
            str(verdict.seed),
            f"{verdict.best.label}: {verdict.best.loss:.4f}",
            f"{verdict.recommended.label}: {verdict.recommended.loss:.4f}",
            f"{verdict.ratio:.3f}",
            f"{verdict.share:.1%}",
            "held" if verdict.holds else "not held",
        )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("grid", type=Path, help="folder with runs/ of the whole grid")
    parser.add_argument("recommendations", type=Path, nargs="+", help="folders of slotwise recommend")
    arguments = parser.parse_args()
    try:
        verdicts = [v for folder in arguments.recommendations for v in judge(arguments.grid, folder)]
    except UserError as error:
        sys.exit(str(error))
    Console().print(table(verdicts))
    lacking = {verdict.seed: ", ".join(verdict.missing) for verdict in verdicts if verdict.missing}
    for seed, labels in lacking.items():
        print(f"seed {seed}: not in the grid: {labels}")
    print(f"must be: a ratio of at most {WITHIN}, less than {SHARE:.0%} of the grid's SGD steps")
    sys.exit(0 if all(verdict.holds for verdict in verdicts) else 1)


if __name__ == "__main__":
    main()
