"""Does a server that remembers every device's last update rescue the group sizes that collapse?

    slotwise sweep examples/memory/memory-rules.toml --out runs/memory  # trains what is missing
    python benchmarks/memory_rules.py --runs runs/memory/runs           # keeps their curves, makes the page
    python benchmarks/memory_rules.py                                   # makes the page from what is kept

The page has what has been trained so far, with trainings that have not ended in rows of their own. Curves are
kept in a CSV file; those of rules without memory, with the paper's step, are among the published runs in the
package.
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
UNFINISHED = "unfinished"
PLAIN = ("mean", "model-average")  # rules without memory
Key = tuple[str, str, int]  # case, rule, seed


class Curve(NamedTuple):
    """The evaluations of a training."""

    status: str
    points: Sequence[Point]

    @property
    def has_ended(self) -> bool:
        """True if it came to its deadline, or diverged."""
        return self.status in ENDED

    @property
    def last_slot(self) -> int:
        """The slot of the last evaluation."""
        return self.points[-1].slot

    @property
    def loss(self) -> float:
        """Median of the training loss over the last tenth of the slots so far."""
        return final_loss(self.points, self.last_slot)

    @property
    def accuracy(self) -> float:
        """Median of the test accuracy over the last tenth of the slots so far."""
        return final_accuracy(self.points, self.last_slot)

    @property
    def has_collapsed(self) -> bool:
        """True if the training diverged, or ended little better than guessing."""
        return self.status == "diverged" or self.accuracy < COLLAPSED


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
    return {key: Curve(*curve) for key, curve in curves.items()}


def keep(curves: Curves) -> None:
    """Write the curves."""
    HISTORIES.parent.mkdir(parents=True, exist_ok=True)
    rows = (
        (*key, curves[key].status, point.slot, point.round, f"{point.loss:.6g}", f"{point.accuracy:.4f}")
        for key in sorted(curves)
        for point in curves[key].points
    )
    write_csv(HISTORIES, COLUMNS, rows)


def found(points: Iterable[BatchPoint], runs: Path) -> dict[Key, Curve]:
    """Return the curves of the run folders in a folder that are trainings of the settings."""
    wanted = {point.run.config: key_of(point) for point in points}
    curves = {}
    for path in sorted(runs.iterdir()):
        run = SavedRun.find(path)
        if run is not None and run.points and (trained := as_trained(run.config)) in wanted:
            status = run.status if run.status in ENDED else UNFINISHED
            curves[wanted[trained]] = Curve(status, run.points)
    return curves


def published(points: Iterable[BatchPoint]) -> dict[Key, Curve]:
    """Return the curves that the package has: rules without memory, with the paper's step."""
    results, step = PublishedResults(), RunConfig().training.learning_rate
    plain = [p for p in points if p.run.config.training.learning_rate == step and key_of(p)[1] in PLAIN]
    curves = {key_of(point): results.curve(Run.of(point.run.config)) for point in plain}
    return {key: Curve(curve.status, curve.points) for key, curve in curves.items() if curve.has_ended}


def table(points: Sequence[BatchPoint], curves: Curves) -> str:
    """Return a row for each case and rule of which something is trained, and how much is missing."""
    trained = [point for point in points if key_of(point) in curves]
    ended = sum(curves[key_of(point)].has_ended for point in trained)
    lines = [
        f"**{ended} of {len(points)} trainings are finished.** Empty rows are left out.",
        "",
        "| schedule, S | step | rule | seeds | training loss at the end | test accuracy | collapsed |",
        "|---|---|---|---|---|---|---|",
    ]
    rows: dict[tuple[str, str, bool], list[BatchPoint]] = {}
    for point in trained:
        key = key_of(point)
        rows.setdefault((*key[:2], not curves[key].has_ended), []).append(point)
    for (_, _, unfinished), own in sorted(rows.items(), key=lambda row: row[0][2]):
        each = [curves[key_of(point)] for point in own]
        verdict = up_to(each) if unfinished else judged(each)
        lines.append(f"| {' | '.join([*cells(own, each), verdict])} |")
    return "\n".join(lines)


def cells(own: Sequence[BatchPoint], curves: Sequence[Curve]) -> list[str]:
    """Return what a row says of its trainings."""
    config = own[0].run.config
    whole = [curve for curve in curves if curve.status != "diverged"]
    name = f"{config.schedule}, S={config.channel.group_size_text}"
    rule, seeds = key_of(own[0])[1], ", ".join(str(point.seed) for point in own)
    if not whole:
        numbers = ["diverged", ""]
    else:
        loss, accuracy = fmean(curve.loss for curve in whole), fmean(curve.accuracy for curve in whole)
        numbers = [f"{loss:.3g}", f"{accuracy:.1%}"]
    return [name, f"{config.training.learning_rate:g}", rule, seeds, *numbers]


def judged(curves: Sequence[Curve]) -> str:
    """Return what became of trainings that have ended."""
    collapsed = sum(curve.has_collapsed for curve in curves)
    return f"{collapsed} of {len(curves)}"


def up_to(curves: Sequence[Curve]) -> str:
    """Return how far trainings have come that have not ended."""
    return "not finished: slot " + ", ".join(f"{curve.last_slot:,}" for curve in curves)


def page(text: str, points: Sequence[BatchPoint], curves: Curves) -> str:
    """Return the page with its table made again."""
    before, _, rest = text.partition(BEGIN)
    made = table(points, {**published(points), **curves})
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, help="folder of run folders, whose curves are kept")
    options = parser.parse_args()
    points, curves = BatchSpec.read(SETTINGS).points, kept()
    if options.runs is not None:
        curves |= found(points, options.runs)
        keep(curves)
    write_atomically(PAGE, page(PAGE.read_text(encoding="utf-8"), points, curves))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
