"""Settings that others published, trained here: their numbers beside ours, in docs/validation.md.

    python benchmarks/validation.py                    # rebuild the tables from docs/results/validation
    python benchmarks/validation.py --train fedavg     # first train what is missing of a comparison

A comparison is a file for `slotwise sweep` in examples/validation (the wireless one is a Python module in
examples/papers); published_numbers.py has the numbers of the others. Of every training the test accuracy
after some rounds is kept in a CSV file. Tables have rows of what was trained, and say if it was one seed.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import rounds_to_accuracy
import slotwise as sw
from published_numbers import FEDAVG, INPUTS, NIID, PUBLISHED, WIRELESS
from slotwise.base.files import write_atomically, write_csv
from slotwise.batch import BatchSpec
from slotwise.options import loaded

ROOT = Path(__file__).parents[1]
SETTINGS = ROOT / "examples" / "validation"
HISTORIES = ROOT / "docs" / "results" / "validation"
PAGE = ROOT / "docs" / "validation.md"
BEGIN, END = "<!-- {name} -->", "<!-- end of {name} -->"
COLUMNS = ("case", "seed", "round", "accuracy")
SEEDS = 3  # of every comparison, in the end

Accuracies = Mapping[str, Mapping[int, Mapping[int, float]]]
"""Test accuracy in per cent by case, seed and round."""


def keep(name: str, rows: Iterable[tuple[str, int, int, float]]) -> None:
    """Keep accuracies of a comparison."""
    HISTORIES.mkdir(parents=True, exist_ok=True)
    short = ((case, seed, k, f"{accuracy:.4f}") for case, seed, k, accuracy in rows)
    write_csv(HISTORIES / f"{name}.csv", COLUMNS, short)


def train_sweep(name: str, runs: Path) -> None:
    """Train what is missing of a comparison, the first seed of all cases first; keep each run that ends."""
    spec = BatchSpec.read(SETTINGS / f"{name}.toml")
    for point in sorted(spec.points, key=lambda point: point.seed):
        if is_kept(name, point.case, point.seed):
            continue
        folder = runs / name / point.run.name
        is_begun = (folder / "run.json").exists()
        run = sw.resume(folder) if is_begun else sw.run(point.run.config, folder)
        if run.status != "finished":
            sys.exit(f"{name}: {point.run.name}: {run.status}; the same command continues")
        keep_more(name, point.case, point.seed, ((one.round, one.accuracy) for one in run.history.points))


def train_rounds(name: str, runs: Path) -> None:  # noqa: ARG001
    """Train what is missing of a comparison of rounds."""
    spec = BatchSpec.read(SETTINGS / f"{name}.toml")
    rounds_to_accuracy.train(spec, HISTORIES / f"{name}.csv", is_tuning=name.endswith("-steps"))


def train_wireless(name: str, runs: Path) -> None:  # noqa: ARG001
    """Train what is missing of the wireless comparison."""
    sys.path.append(str(ROOT / "examples" / "papers"))
    from periodic_aggregation import RULES, accuracies

    for seed, rule, schedule in product(range(SEEDS), WIRELESS, ("sync", "periodic")):
        case = f"{schedule} {rule}"
        if not is_kept(name, case, seed):
            found = accuracies(RULES[rule], is_iid=False, is_periodic=schedule == "periodic", seed=seed)
            keep_more(name, case, seed, found)


def train_held_out(name: str, runs: Path) -> None:  # noqa: ARG001
    """Train FedSaSync again, evaluated on the images that its clients hold out."""
    spec = BatchSpec.read(SETTINGS / f"{name.removesuffix('-held-out')}.toml")
    for point in sorted(spec.points, key=lambda point: point.seed):
        if is_kept(name, point.case, point.seed):
            continue
        config = point.run.config
        history = sw.train(
            config.simulate(),
            rounds_to_accuracy.task_of(config, rounds_to_accuracy.HeldOut),
            aggregation=loaded(config.rule),
            workers=1,
            evaluate_every=config.slots_between_evaluations,
        )
        keep_more(name, point.case, point.seed, ((one.round, one.accuracy) for one in history.points))


def is_kept(name: str, case: str, seed: int) -> bool:
    """Return whether a training of a comparison is kept."""
    return (HISTORIES / f"{name}.csv").exists() and seed in read(name).get(case, {})


def keep_more(name: str, case: str, seed: int, found: Iterable[tuple[int, float]]) -> None:
    """Keep the accuracies of one more training."""
    kept = read(name) if (HISTORIES / f"{name}.csv").exists() else {}
    old = [
        (c, s, k, a / 100) for c, seeds in kept.items() for s, own in seeds.items() for k, a in own.items()
    ]
    keep(name, [*old, *((case, seed, k, accuracy) for k, accuracy in found)])


def read(name: str) -> Accuracies:
    """Return the accuracies that are kept of a comparison."""
    kept: defaultdict[str, defaultdict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    with (HISTORIES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            kept[row["case"]][int(row["seed"])][int(row["round"])] = 100 * float(row["accuracy"])
    return kept


def spread(ours: Sequence[float], digits: int = 1) -> str:
    """Return mean, lowest and highest number over the seeds, or the number of the only seed."""
    if len(ours) == 1:
        return f"{ours[0]:.{digits}f} (one seed)"
    seeds = "" if len(ours) == SEEDS else f", {len(ours)} seeds"
    return f"{fmean(ours):.{digits}f} ({min(ours):.{digits}f} to {max(ours):.{digits}f}{seeds})"


def accuracy_table(name: str) -> str:
    """Return their accuracies, ours over the seeds, and the differences, of all that was trained."""
    lines = [
        "| test accuracy, % | theirs | ours, mean (lowest to highest) | difference |",
        "|---|---|---|---|",
    ]
    accuracies = read(name)
    for number in PUBLISHED[name]:
        if number.case in accuracies:
            ours = [rounds[number.round] for rounds in accuracies[number.case].values()]
            difference = f"{fmean(ours) - number.theirs:+.1f}"
            lines.append(f"| {number.title} | {number.theirs:g} | {spread(ours)} | {difference} |")
    return "\n".join(lines)


def best_table(name: str) -> str:
    """Return their best accuracies, ours over the seeds, and the differences, of all that was trained."""
    lines = [
        "| test accuracy, % | draft, one run | theirs, best round | ours, best round | difference "
        "| ours, round 50 |",
        "|---|---|---|---|---|---|",
    ]
    accuracies = read(name)
    for number in NIID[name]:
        if seeds := accuracies.get(number.case):
            best = [max(rounds.values()) for rounds in seeds.values()]
            last = [rounds[number.round] for rounds in seeds.values()]
            theirs = f"{number.draft:g} | {number.theirs:.1f} ± {number.deviation:.1f}"
            difference = f"{fmean(best) - number.theirs:+.1f}"
            lines.append(f"| {number.title} | {theirs} | {spread(best)} | {difference} | {fmean(last):.1f} |")
    return "\n".join(lines)


def rounds_table(name: str) -> str:
    """Return their rounds to the target, ours for each scale of the inputs, and the differences."""
    kept = rounds_to_accuracy.read(HISTORIES / f"{name}.csv")
    scales = {scale: title for scale, title in INPUTS.items() if any(scale in one.case for one in kept)}
    titles = " | ".join(f"{title} | difference" for title in scales.values())
    lines = [f"| rounds to 97 % | theirs | {titles} |", "|---|---" + "|---|---" * len(scales) + "|"]
    for partition, theirs in FEDAVG.items():
        for size, number in theirs.items():
            cells = [f"{'IID' if partition == 'iid' else partition}, C = {size / 100:g}", str(number)]
            for scale in scales:
                own = [
                    rounds_to_accuracy.rounds_needed(rows)
                    for one, rows in kept.items()
                    if (one.case, one.group_size) == (f"{partition}-{scale}", size)
                ]
                cells += _rounds_cells([k for k in own if k is not None], len(own), number)
            if any(cells[2:]):
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _rounds_cells(reached: Sequence[int], seeds: int, theirs: int) -> tuple[str, str]:
    if not seeds:
        return "", ""
    if len(reached) < seeds:
        return f"reached by {len(reached)} of {seeds} seeds", ""
    return spread(reached, 0), f"{fmean(reached) - theirs:+.0f}"


def steps_table(name: str) -> str:
    """Return the rounds that each step size took, or why it was not chosen."""
    kept = rounds_to_accuracy.read(HISTORIES / f"{name}.csv")
    steps = sorted({one.learning_rate for one in kept})
    lines = [f"| step | {' | '.join(f'{step:g}' for step in steps)} |", "|---" * (len(steps) + 1) + "|"]
    for case in dict.fromkeys(one.case for one in kept):
        own = {one.learning_rate: rows for one, rows in kept.items() if one.case == case}
        found = {step: rounds_to_accuracy.rounds_needed(rows) for step, rows in own.items()}
        best = min(k for k in found.values() if k is not None)
        cells = [f"**{k}**" if k == best else str(k or _stopped(own[step])) for step, k in found.items()]
        by_step = dict(zip(found, cells, strict=True))
        lines.append(f"| {case} | {' | '.join(by_step[step] for step in steps)} |")
    return "\n".join(lines)


def _stopped(rows: Sequence[tuple[int, float]]) -> str:
    """Return how far a training came that was stopped, because it was slower than another step."""
    return f"{100 * rows[-1][1]:.1f} %"


def wireless_table(name: str) -> str:
    """Return the last accuracies of each rule, in synchronous rounds and in periods."""
    lines = ["| test accuracy at the end, % | synchronous | periodic |", "|---|---|---|"]
    accuracies = read(name)
    for rule, title in WIRELESS.items():
        cells = []
        for schedule in ("sync", "periodic"):
            seeds = accuracies.get(f"{schedule} {rule}", {})
            cells.append(spread([rounds[max(rounds)] for rounds in seeds.values()]) if seeds else "")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


class Comparison(NamedTuple):
    """How a comparison is trained, and the table made of what is kept."""

    train: Callable[[str, Path], None]
    table: Callable[[str], str]


COMPARISONS: Mapping[str, Comparison] = {
    "fedsasync": Comparison(train_sweep, accuracy_table),
    "fedsasync-held-out": Comparison(train_held_out, accuracy_table),
    "fedavg-steps": Comparison(train_rounds, steps_table),
    "fedavg-first-steps": Comparison(train_rounds, steps_table),
    "fedavg": Comparison(train_rounds, rounds_table),
    "fedavg-small-step": Comparison(train_rounds, rounds_table),
    "niid-mnist": Comparison(train_sweep, best_table),
    "niid-fashion": Comparison(train_sweep, best_table),
    "wireless": Comparison(train_wireless, wireless_table),
}


def page(text: str) -> str:
    """Return the page with its tables made again."""
    for name in published():
        begin, end = BEGIN.format(name=name), END.format(name=name)
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{COMPARISONS[name].table(name)}\n\n{end}{rest.partition(end)[2]}"
    return text


def published() -> tuple[str, ...]:
    """Return the comparisons of which something is kept."""
    return tuple(name for name in COMPARISONS if (HISTORIES / f"{name}.csv").exists())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--train",
        nargs="*",
        choices=COMPARISONS,
        default=[],
        help="comparisons to train first, if parts are missing",
    )
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "runs" / "validation", help="folder of the batches"
    )
    options = parser.parse_args()
    for name in options.train:
        COMPARISONS[name].train(name, options.runs)
    write_atomically(PAGE, page(PAGE.read_text(encoding="utf-8")))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
