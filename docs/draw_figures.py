"""Draw the figures of the site that no command of slotwise draws.

    python docs/draw_figures.py [idea] [idea-narrow] [robust]

`idea` is the picture of the first page, `idea-narrow` the same for phones, `robust` the figure of the study
of robust rules, from its results.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable
from math import isnan, nan
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

import slotwise as sw
from slotwise.report.figure_grid import along_rows
from slotwise.report.gantt.chart import (
    Activity,
    Interval,
    Window,
    activities,
    transfer_label,
    transfers,
)
from slotwise.report.gantt.drawing import LOOKS
from slotwise.report.number_text import counted

HERE = Path(__file__).parent
SLOTS = 20
TITLES = {
    "sync": "Synchronous",
    "async": "Asynchronous",
    "idfl": "With intentional delay",
}
SHOWN = (
    Activity.COMPUTING,
    Activity.WAITING_FOR_CHANNEL,
    Activity.SENDING,
    Activity.WAITING_FOR_MODEL,
    Activity.RECEIVING,
)


def idea() -> Path:
    """Draw three schedules of the same devices side by side."""
    figure = Figure(figsize=(13.2, 3.6), layout="constrained")
    figure.get_layout_engine().set(wspace=0.06)
    draw_schedules(
        figure, figure.subplots(1, len(TITLES), sharey=True), legend_columns=len(SHOWN), legend_size=11
    )
    return save(figure, HERE / "images/idea.svg")


def idea_narrow() -> Path:
    """Draw the same schedules one below the other."""
    figure = Figure(figsize=(4.6, 9.6), layout="constrained")
    figure.get_layout_engine().set(hspace=0.06)
    draw_schedules(figure, figure.subplots(len(TITLES), 1), legend_columns=2, legend_size=9)
    return save(figure, HERE / "_static/idea-narrow.svg")


def draw_schedules(figure: Figure, panels: Iterable[Axes], *, legend_columns: int, legend_size: int) -> None:
    """Draw a schedule in each panel, and the legend below."""
    for axes, schedule in zip(panels, TITLES, strict=True):
        draw_schedule(axes, schedule)
    handles = [Patch(color=LOOKS[kind].colour, label=LOOKS[kind].title) for kind in SHOWN]
    figure.legend(
        **along_rows(handles, legend_columns),
        loc="outside lower center",
        frameon=False,
        fontsize=legend_size,
    )


def draw_schedule(axes: Axes, schedule: str) -> None:
    """Draw the channel and the devices, slot by slot."""
    scenario = sw.Scenario(devices=6, group_size=2, compute_slots=2)
    timeline = sw.simulate(scenario, schedule, rounds=12)
    window = Window(0, SLOTS)
    for carried in transfers(timeline, window):
        draw_bar(axes, carried, row=0, height=0.9, label=transfer_label(carried))
    for activity in activities(timeline, window):
        height = 0.2 if activity.kind is Activity.WAITING_FOR_CHANNEL else 0.75
        label = f"w{activity.version}" if activity.kind is Activity.COMPUTING else ""
        draw_bar(axes, activity, row=activity.device + 0.3, height=height, label=label)
    rounds = int((timeline.broadcast_end <= SLOTS).sum())
    age = int(timeline.staleness.max())
    old = f"updates up to {counted(age, 'round')} old" if age else "all updates fresh"
    axes.set_title(TITLES[schedule], loc="left", fontsize=12, fontweight="bold", pad=22)
    axes.text(0, 1.03, f"{rounds} rounds in {SLOTS} slots, {old}", transform=axes.transAxes, fontsize=11)
    axes.set(
        xlim=(0, SLOTS),
        ylim=(6.9, -0.6),
        xticks=range(0, SLOTS + 1, 5),
        yticks=[0, *(n + 0.3 for n in range(1, 7))],
    )
    axes.set_yticklabels(["channel", *(f"device {n}" for n in range(1, 7))])
    axes.tick_params(length=0, labelsize=10)
    axes.spines[:].set_visible(False)


def draw_bar(axes: Axes, interval: Interval, *, row: float, height: float, label: str) -> None:
    """Draw one interval, cut at the last slot."""
    look = LOOKS[interval.kind]
    width = min(interval.end, SLOTS) - interval.start
    axes.barh(
        row, width, left=interval.start, height=height, color=look.colour, edgecolor="white", linewidth=0.5
    )
    if label:
        middle = interval.start + width / 2
        axes.text(
            middle, row + 0.03, label, color=look.ink, fontsize=8, ha="center", va="center", clip_on=True
        )


def robust() -> Path:
    """Draw the accuracy of every rule and seed with a fifth of the devices attacking."""
    folder = HERE / "results/robust"
    found: dict[str, list[float]] = defaultdict(list)
    with (folder / "results.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            accuracy = 100 * float(row["final_accuracy"]) if row["status"] == "finished" else nan
            found[row["case"]].append(accuracy)
    names = list(found)
    figure = Figure(figsize=(7.2, 3.0), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(names):
        values = found[name]
        axes.plot(values, [place] * len(values), "o", color="#08306b", markersize=6, alpha=0.8)
        axes.plot(sum(values) / len(values), place, "|", color="#d55e00", markersize=16, markeredgewidth=2)
        if any(isnan(value) for value in values):
            axes.text(88.3, place, "diverges with every seed", color="#d55e00", va="center")
    labels = {"clean": "mean, no attackers"}
    axes.set_yticks(range(len(names)), [labels.get(name, name) for name in names])
    axes.set(xlim=(88, 100), ylim=(len(names) - 0.5, -0.5))
    axes.set_xlabel("test accuracy (%): a dot for each seed, a line at the mean")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return save(figure, folder / "accuracy.png")


def save(figure: Figure, path: Path) -> Path:
    """Write a figure with the same bytes each time."""
    with matplotlib.rc_context({"svg.hashsalt": "slotwise", "svg.fonttype": "path"}):
        figure.savefig(
            path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None}
        )
    return path


FIGURES = {"idea": idea, "idea-narrow": idea_narrow, "robust": robust}

if __name__ == "__main__":
    for name in sys.argv[1:] or FIGURES:
        print(FIGURES[name]())
