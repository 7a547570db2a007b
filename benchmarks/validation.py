"""Settings that others published, trained here: their numbers beside ours, in docs/validation.md.

    python benchmarks/validation.py            # rebuild the tables from docs/results/validation
    python benchmarks/validation.py --train    # first train what is missing in runs/validation

A comparison is a file for `slotwise sweep` in examples/validation and the published numbers below. Of every
training the test accuracy after each round is kept, in a CSV file beside the others.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from slotwise.base.files import write_atomically, write_csv
from slotwise.batch import run_batch

ROOT = Path(__file__).parents[1]
SETTINGS = ROOT / "examples" / "validation"
HISTORIES = ROOT / "docs" / "results" / "validation"
PAGE = ROOT / "docs" / "validation.md"
BEGIN, END = "<!-- {name} -->", "<!-- end of {name} -->"
COLUMNS = ("case", "seed", "round", "accuracy")

Accuracies = Mapping[str, Mapping[int, Mapping[int, float]]]
"""Test accuracy by case, seed and round."""


class Number(NamedTuple):
    """A published test accuracy in per cent: of a case, after a round."""

    title: str
    case: str
    round: int
    theirs: float


PUBLISHED: Mapping[str, tuple[Number, ...]] = {
    "fedsasync": (
        *(
            Number(f"FedAvg, round {after}", "FedAvg", after, accuracy)
            for after, accuracy in ((1, 76.1), (2, 93.9), (5, 97.3), (10, 98.2), (25, 98.6))
        ),
        Number("M = 10, round 25", "M10", 25, 98.59),
        Number("M = 8, round 25", "M8", 25, 98.33),
    ),
}


def train(name: str, runs: Path) -> None:
    """Train what is missing of a comparison, and keep its accuracies."""
    results = run_batch(SETTINGS / f"{name}.toml", runs / name)
    if not results.is_finished:
        sys.exit(f"{name}: {', '.join(map(str, results.problems()))}")
    columns = results.curve_columns()
    rows = zip(*(columns[column] for column in COLUMNS), strict=True)
    short = ((case, seed, k, f"{float(accuracy):.4f}") for case, seed, k, accuracy in rows)
    HISTORIES.mkdir(parents=True, exist_ok=True)
    write_csv(HISTORIES / f"{name}.csv", COLUMNS, short)


def read(name: str) -> Accuracies:
    """Return the accuracies that are kept of a comparison."""
    found: defaultdict[str, defaultdict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    with (HISTORIES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found[row["case"]][int(row["seed"])][int(row["round"])] = 100 * float(row["accuracy"])
    return found


def table(name: str) -> str:
    """Return the table of a comparison: their number, ours over the seeds, and the difference."""
    lines = [
        "| test accuracy, % | theirs | ours, mean (lowest to highest) | difference |",
        "|---|---|---|---|",
    ]
    accuracies = read(name)
    for number in PUBLISHED[name]:
        ours = [rounds[number.round] for rounds in accuracies[number.case].values()]
        spread = f"{fmean(ours):.1f} ({min(ours):.1f} to {max(ours):.1f})"
        lines.append(
            f"| {number.title} | {number.theirs:g} | {spread} | {fmean(ours) - number.theirs:+.1f} |"
        )
    return "\n".join(lines)


def page(text: str) -> str:
    """Return the page with its tables made again."""
    for name in PUBLISHED:
        begin, end = BEGIN.format(name=name), END.format(name=name)
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{table(name)}\n\n{end}{rest.partition(end)[2]}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", action="store_true", help="train what is missing first")
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "runs" / "validation", help="folder of the batches"
    )
    options = parser.parse_args()
    if options.train:
        for name in PUBLISHED:
            train(name, options.runs)
    write_atomically(PAGE, page(PAGE.read_text(encoding="utf-8")))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
