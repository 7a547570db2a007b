"""Does a server that remembers every device's last update rescue the group sizes that collapse?

    slotwise sweep examples/memory/memory-rules.toml --out runs/memory  # trains what is missing
    python benchmarks/memory_rules.py --runs runs/memory/runs           # keeps what has ended, makes the page
    python benchmarks/memory_rules.py                                   # makes the page from what is kept

The page has what has been trained so far. Curves are kept in a CSV file; those of the plain rule with the
paper's step are among the published runs in the package.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from slotwise.base.files import write_atomically, write_csv
from slotwise.batch import BatchSpec
from slotwise.batch.job import Run, as_trained
from slotwise.batch.specification import BatchPoint
from slotwise.learning import Point
from slotwise.paper.criteria import COLLAPSED
from slotwise.paper.published import PublishedResults
from slotwise.runs import RunConfig
from slotwise.runs.saved_run import COMPLETE, SavedRun, final_accuracy, final_loss

ROOT = Path(__file__).parents[1]
SETTINGS = ROOT / "examples" / "memory" / "memory-rules.toml"
HISTORIES = ROOT / "docs" / "results" / "memory" / "curves.csv"
PAGE = ROOT / "docs" / "memory-rules.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
COLUMNS = ("case", "rule", "seed", "status", "slot", "round", "loss", "accuracy")
ENDED = (*COMPLETE, "diverged")
PLAIN = "mean"
Key = tuple[str, str, int]  # case, rule, seed


class Curve(NamedTuple):
    """The evaluations of a training that has ended."""

    status: str
    points: Sequence[Point]

    def has_collapsed(self, deadline: int) -> bool:
        """Return whether the training diverged, or ended little better than guessing."""
        return self.status == "diverged" or final_accuracy(self.points, deadline) < COLLAPSED


Curves = Mapping[Key, Curve]


def key_of(point: BatchPoint) -> Key:
    """Return what names a training in the file and on the page."""
    return point.case, str(point.run.config.options()["aggregation"]), point.seed


def kept() -> dict[Key, Curve]:
    """Return the curves that are kept."""
    curves: dict[Key, tuple[str, list[Point]]] = {}
    if HISTORIES.exists():
        with HISTORIES.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                key = row["case"], row["rule"], int(row["seed"])
                numbers = int(row["slot"]), int(row["round"]), float(row["loss"]), float(row["accuracy"]), 0
                curves.setdefault(key, (row["status"], []))[1].append(Point(*numbers))
    return {key: Curve(*found) for key, found in curves.items()}


def keep(curves: Curves) -> None:
    """Write the curves."""
    HISTORIES.parent.mkdir(parents=True, exist_ok=True)
    rows = (
        (*key, curves[key].status, point.slot, point.round, f"{point.loss:.6g}", f"{point.accuracy:.4f}")
        for key in sorted(curves)
        for point in curves[key].points
    )
    write_csv(HISTORIES, COLUMNS, rows)


def finished(points: Iterable[BatchPoint], runs: Path) -> dict[Key, Curve]:
    """Return the curves of the run folders in a folder that have ended and are trainings of the settings."""
    wanted = {point.run.config: key_of(point) for point in points}
    found = {}
    for path in sorted(runs.iterdir()):
        run = SavedRun.find(path)
        if run is not None and run.status in ENDED and (trained := as_trained(run.config)) in wanted:
            found[wanted[trained]] = Curve(run.status, run.points)
    return found


def published(points: Iterable[BatchPoint]) -> dict[Key, Curve]:
    """Return the curves that the package has: the plain rule with the paper's step."""
    results, step = PublishedResults(), RunConfig().training.learning_rate
    plain = [p for p in points if p.run.config.training.learning_rate == step and key_of(p)[1] == PLAIN]
    curves = {key_of(point): results.curve(Run.of(point.run.config)) for point in plain}
    return {key: Curve(curve.status, curve.points) for key, curve in curves.items() if curve.has_ended}


def table(points: Sequence[BatchPoint], curves: Curves) -> str:
    """Return a row for each case and rule of which something is trained, and how much is missing."""
    done = [point for point in points if key_of(point) in curves]
    lines = [
        f"**{len(done)} of {len(points)} trainings are finished.** Empty rows are left out.",
        "",
        "| schedule, S | step | rule | seeds | training loss at the end | test accuracy | |",
        "|---|---|---|---|---|---|---|",
    ]
    rows: dict[tuple[str, str], list[BatchPoint]] = {}
    for point in done:
        rows.setdefault(key_of(point)[:2], []).append(point)
    for (_, rule), own in rows.items():
        config = own[0].run.config
        ended = [curves[key_of(point)] for point in own]
        whole = [curve.points for curve in ended if curve.status != "diverged"]
        losses = [final_loss(curve, config.deadline) for curve in whole]
        accuracies = [final_accuracy(curve, config.deadline) for curve in whole]
        collapsed = sum(curve.has_collapsed(config.deadline) for curve in ended)
        verdict = f"collapsed: {collapsed} of {len(own)}" if collapsed else "learns"
        name = f"{config.schedule}, S={config.channel.group_size_text}"
        seeds = ", ".join(str(point.seed) for point in own)
        cells = [name, f"{config.training.learning_rate:g}", rule, seeds]
        cells += [f"{fmean(losses):.3g}", f"{fmean(accuracies):.1%}"] if whole else ["diverged", ""]
        lines.append(f"| {' | '.join([*cells, verdict])} |")
    return "\n".join(lines)


def page(text: str, points: Sequence[BatchPoint], curves: Curves) -> str:
    """Return the page with its table made again."""
    before, _, rest = text.partition(BEGIN)
    made = table(points, {**published(points), **curves})
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, help="folder of run folders, of which the finished are kept")
    options = parser.parse_args()
    points, curves = BatchSpec.read(SETTINGS).points, kept()
    if options.runs is not None:
        curves |= finished(points, options.runs)
        keep(curves)
    write_atomically(PAGE, page(PAGE.read_text(encoding="utf-8"), points, curves))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
