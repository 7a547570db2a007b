"""Train the three studies of docs/results/radio and write their figures and tables.

    python benchmarks/radio_studies.py [outage] [selection] [batteries] [--runs FOLDER] [--workers N]

Runs are kept, so a second call only draws. Figures and results go to docs/results/radio; tables are printed.
"""

from __future__ import annotations

import argparse
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slotwise import BatchResults, run_batch
from slotwise.batch.results import PointResult
from slotwise.report.colours import SCHEDULE_COLOURS, Subject, line_looks
from slotwise.report.curve_axes import line_styles, mark_losses
from slotwise.report.curves import Line, LossRange
from slotwise.report.figure_style import PAGE, StyledFigure, figure_file, using_style
from slotwise.runs import RunConfig, RunFolder

ROOT = Path(__file__).parents[1]
SPECS, RESULTS = ROOT / "examples/radio-studies", ROOT / "docs/results/radio"
NEVER = 0.5  # place of a device without an update on a logarithmic axis
TARGET = 0.4  # training loss of the study of batteries


Look = dict[str, Any]


def looks(names: Iterable[str]) -> dict[str, Look]:
    """Return colour and marker of each line: those of its schedule, or of the palette."""
    wanted = list(names)
    subjects = [Subject(name if name in SCHEDULE_COLOURS else "") for name in wanted]
    lines = [Line(name, *look, ()) for name, look in zip(wanted, line_looks(subjects), strict=True)]
    return line_styles(lines)


Groups = dict[tuple[str, ...], list[PointResult]]


def seeds_mean(rows: list[PointResult], name: str) -> np.ndarray:
    """Return one statistic of every seed."""
    return np.array([getattr(row.outcome.statistics, name) for row in rows], dtype=float)


def draw_means(axes: Axes, groups: Groups, name: str, case: str, look: Look) -> None:
    """Draw the mean and the range of a statistic over the seeds, against the value on the axis."""
    points = sorted((float(key[1]), seeds_mean(rows, name)) for key, rows in groups.items() if key[0] == case)
    x = [value for value, _ in points]
    axes.plot(x, [v.mean() for _, v in points], label=case, **look)
    low, high = [v.min() for _, v in points], [v.max() for _, v in points]
    axes.fill_between(x, low, high, color=look["color"], alpha=0.15, linewidth=0)


def figure(*titles: str) -> tuple[Figure, list[Axes]]:
    """Return a figure with a panel for each title."""
    drawn = StyledFigure(figsize=(PAGE, 2.7), layout="constrained")
    panels = list(np.atleast_1d(drawn.subplots(1, len(titles))))
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title)
    return drawn, panels


def mark_loss_axis(axes: Axes) -> None:
    """Make the vertical axis one of losses, with the ticks of the package's figures."""
    axes.set_yscale("log")
    axes.set_ylabel("training loss")
    low, high = axes.dataLim.intervaly
    mark_losses(axes, LossRange(float(low), float(high), cut=False))


def add_legend(drawn: Figure, axes: Axes) -> None:
    """Put the labels of one panel, which has them all, below the figure."""
    handles, labels = axes.get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


def configs(folder: Path, results: BatchResults) -> dict[str, RunConfig]:
    """Return the configuration of every run."""
    return {row.run: RunFolder.open(folder / "runs" / row.run).parameters() for row in results.rows}


def lost_share(row: PointResult) -> float:
    """Return the share of uplinks that were lost."""
    lost, updates = row.outcome.statistics.lost, row.outcome.statistics.updates
    return lost / (lost + updates)


def outage(folder: Path, results: BatchResults) -> Figure:
    """Draw loss and lost uplinks of a fixed rate against the slots of an uplink."""
    groups = results.by_combination()
    drawn, (left, right) = figure("Final loss", "Lost uplinks")
    cases = list(dict.fromkeys(key[0] for key in groups))
    for case, look in looks(cases).items():
        draw_means(left, groups, "final_loss", case, look)
        rows = {float(key[1]): rows for key, rows in groups.items() if key[0] == case}
        lost = [100 * np.mean([*map(lost_share, rows[x])]) for x in rows]
        right.plot(list(rows), lost, label=case, **look)
    expected: defaultdict[int, list[float]] = defaultdict(list)
    for name, config in configs(folder, results).items():
        if name.startswith(cases[0]):
            link = config.make_link()
            # P(SNR < γ) = 1 − exp(−γ / mean) under Rayleigh fading (Tse and Viswanath, 2005, eq. 5.54)
            means = -np.expm1(-link.threshold / link.conditions.mean_snr)
            expected[config.channel.link_slots].append(float(means.mean()))
    slots = sorted(expected)
    outages = [100 * np.mean(expected[r]) for r in slots]
    right.plot(slots, outages, "k:", label="outage of one block, mean of the devices")
    for axes in (left, right):
        axes.set_xlabel("slots of an uplink (fewer: a higher rate)")
        axes.set_xticks(slots)
    mark_loss_axis(left)
    right.set_ylabel("lost uplinks (%)")
    right.set_ylim(0, 100)
    add_legend(drawn, right)
    return drawn


def selection(folder: Path, results: BatchResults) -> Figure:
    """Draw loss against slots, and updates of every device against its distance."""
    drawn, (left, right) = figure("Loss against slots", "Updates of each device, three seeds")
    made = configs(folder, results)
    same: dict[tuple[float, ...], list[str]] = {}  # selections that give the same run, by its final losses
    for key, rows in results.by_combination().items():
        same.setdefault(tuple(seeds_mean(rows, "final_loss")), []).append(key[1])
    chosen = {" = ".join(names): names[0] for names in same.values()}
    for style, (label, look) in enumerate(looks(chosen).items()):
        name = chosen[label]
        rows = next(rows for key, rows in results.by_combination().items() if key[1] == name)
        curves = [np.array([(p.slot, p.loss) for p in row.outcome.curve]) for row in rows]
        slots = np.linspace(0, min(curve[-1, 0] for curve in curves), 60)
        mean = np.mean([np.interp(slots, *curve.T) for curve in curves], axis=0)
        left.plot(slots, mean, markevery=(2 * style, 8), label=label, **look)
        for row in rows:
            config = made[row.run]
            heard = np.bincount(config.simulate().device, minlength=config.channel.devices + 1)[1:]
            distance = config.link.channel.cell(config.channel.devices, config.seed).distance_m
            right.plot(distance, np.maximum(heard, NEVER), **look | {"linestyle": ""})
    left.set_xlabel("time slots")
    mark_loss_axis(left)
    right.set_yscale("log")
    right.set_yticks([NEVER, 1, 10, 100], ["never", "1", "10", "100"])
    right.set_ylabel("updates in a run")
    right.set_xlabel("distance (m)")
    add_legend(drawn, left)
    return drawn


def batteries(folder: Path, results: BatchResults) -> Figure:
    """Draw final loss and the joules until a target against the probability of harvesting, and one curve."""
    del folder
    groups = results.by_combination()
    titles = ("Final loss", "Loss against joules, p = 0.1", f"Joules until the loss is {TARGET}")
    drawn, panels = figure(*titles)
    for style, (case, look) in enumerate(looks(dict.fromkeys(key[0] for key in groups)).items()):
        draw_means(panels[0], groups, "final_loss", case, look)
        rows = {float(key[1]): rows for key, rows in groups.items() if key[0] == case}
        curves = [np.array([(p.joules, p.loss) for p in row.outcome.curve]) for row in rows[0.1]]
        spent = np.linspace(0, min(curve[-1, 0] for curve in curves), 60)
        mean = np.mean([np.interp(spent, *curve.T) for curve in curves], axis=0)
        panels[1].plot(spent, mean, markevery=(2 * style, 8), label=case, **look)
        until = [joules_until(rows[x]) for x in rows]
        panels[2].plot(list(rows), until, label=case, **look)
    for axes in (panels[0], panels[2]):
        axes.set_xlabel("harvesting probability p")
        axes.set_xscale("log")
        axes.set_xticks(sorted(rows), [f"{x:g}" for x in sorted(rows)])
        axes.minorticks_off()
    panels[1].set_xlabel("joules of all devices")
    panels[1].xaxis.set_major_formatter(thousands)
    panels[2].set_ylabel("joules of all devices")
    panels[2].yaxis.set_major_formatter(thousands)
    panels[2].set_ylim(bottom=0)
    for axes in panels[:2]:
        mark_loss_axis(axes)
    add_legend(drawn, panels[0])
    return drawn


def thousands(value: float, _place: int) -> str:
    """Return 10000 as 10k."""
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def joules_until(rows: list[PointResult]) -> float:
    """Return the mean joules until the loss stays below the target; NaN unless all seeds get there."""
    found = []
    for row in rows:
        above = [number for number, point in enumerate(row.outcome.curve) if not point.loss < TARGET]
        first = above[-1] + 1 if above else 0
        found.append(row.outcome.curve[first].joules if first < len(row.outcome.curve) else float("nan"))
    return float(np.mean(found))


def table(results: BatchResults, folder: Path, name: str) -> str:
    """Return a Markdown table of the means over the seeds."""
    made = configs(folder, results)
    head = [
        "case",
        *(axis.title for axis in results.axes),
        "final loss",
        "range",
        "accuracy",
        "rounds",
        "updates",
        "lost",
    ]
    head += [
        "staleness",
        "never heard",
        "fairness",
        *(["joules", f"joules to {TARGET}"] * (name == "batteries")),
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for key, rows in results.by_combination().items():
        heard = []
        for row in rows:
            config = made[row.run]
            heard.append(np.bincount(config.simulate().device, minlength=config.channel.devices + 1)[1:])
        losses = seeds_mean(rows, "final_loss")
        fairness = np.mean([c.sum() ** 2 / (len(c) * (c.astype(float) ** 2).sum()) for c in heard])
        cells = [*key, f"{losses.mean():.3f}", f"{losses.min():.3f}–{losses.max():.3f}"]
        cells += [f"{seeds_mean(rows, 'final_accuracy').mean():.1%}"]
        cells += [f"{seeds_mean(rows, name).mean():,.0f}" for name in ("rounds", "updates", "lost")]
        cells += [f"{seeds_mean(rows, 'mean_staleness').mean():.2f}"]
        cells += [f"{np.mean([(c == 0).sum() for c in heard]):.1f}", f"{fairness:.2f}"]
        if name == "batteries":
            until = joules_until(rows)
            cells += [f"{seeds_mean(rows, 'joules').mean():,.0f}", "–" if isnan(until) else f"{until:,.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


STUDIES: dict[str, Callable[[Path, BatchResults], Figure]] = {
    "outage": outage,
    "selection": selection,
    "batteries": batteries,
}


def main() -> None:
    """Train, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("studies", nargs="*", help=f"{', '.join(STUDIES)}; all by default")
    parser.add_argument("--runs", type=Path, default=Path("runs/radio-studies"))
    parser.add_argument("--workers", type=int, help="parallel local trainings; all cores by default")
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in options.studies or STUDIES:
        folder = options.runs / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        results = run_batch(SPECS / f"{name}.toml", folder, workers=options.workers)
        with using_style("ieee"):
            drawn = STUDIES[name](folder, results)
        (RESULTS / f"{name}.png").write_bytes(figure_file(drawn, "png", dpi=200))
        shutil.copy(folder / "results.csv", RESULTS / f"{name}.csv")
        print(table(results, folder, name))
        print(f"wrote {RESULTS / name}.png and .csv")


if __name__ == "__main__":
    main()
