"""What a comparison has come to: figures of every run, their means over seeds, curves and tables as files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from slotwise.batch.compare_file import Comparison, Entry
from slotwise.batch.job import Run
from slotwise.batch.results_folder import ResultsFolder
from slotwise.costs import Powers, joules, usage_until
from slotwise.files import write_atomically
from slotwise.learning import Point
from slotwise.report.curve_figures import draw_figure
from slotwise.report.curve_lines import COLOURS, CurveFigure, Line, MeasuredPoint, Panel
from slotwise.schedule import Timeline

FORMAT = 1
LATE = 0.75


class CompareFolder(ResultsFolder):
    """A folder that `slotwise compare` made or is about to make."""

    maker = "slotwise compare"
    manifest_name = "comparison.json"

    def begin(self) -> None:
        """Make it, or go on with it; a folder of somebody else is refused."""
        if self.is_new:
            self.make()
            document = {"format": FORMAT, "made_by": self.maker}
            write_atomically(self.manifest_path, json.dumps(document) + "\n")


class Figures(NamedTuple):
    """What a finished run, or the mean of several, has come to.

    Attributes:
        loss: of the last model.
        late_loss: mean of the evaluations in the last quarter of the slots; a single one is noisy.
        accuracy: of the last model, 0 to 1.
        rounds: within the deadline.
        updates: applied.
        lost: uplinks that were in vain.
        staleness: mean age of the updates, in rounds.
        joules: of all devices; not a number if their powers are not known.
    """

    loss: float
    late_loss: float
    accuracy: float
    rounds: float
    updates: float
    lost: float
    staleness: float
    joules: float


@dataclass(frozen=True)
class Result:
    """One run as it stands."""

    run: Run
    status: str
    points: tuple[MeasuredPoint, ...]
    figures: Figures | None


@dataclass(frozen=True)
class EntryResult:
    """An entry with all its seeds."""

    name: str
    results: tuple[Result, ...]

    @property
    def figures(self) -> Figures | None:
        """The mean over the seeds that are finished."""
        finished = [result.figures for result in self.results if result.figures]
        return Figures(*map(fmean, zip(*finished, strict=True))) if finished else None

    @property
    def finished(self) -> int:
        """How many seeds are."""
        return sum(result.figures is not None for result in self.results)


def read_results(folder: ResultsFolder, comparison: Comparison) -> tuple[EntryResult, ...]:
    """Every run of the comparison, as far as it has come."""
    return tuple(_entry_result(folder, entry, comparison.powers) for entry in comparison.entries)


def write_results(folder: Path, results: Sequence[EntryResult], *, with_joules: bool) -> list[Path]:
    """curves.png, points.csv and summary.csv; gives their paths."""
    files: dict[str, bytes | str] = {"points.csv": _points_csv(results), "summary.csv": _summary_csv(results)}
    lines = _lines(results)
    if lines:
        files["curves.png"] = draw_figure(_figure(lines, with_joules=with_joules), "png")
    for name, content in files.items():
        write_atomically(folder / name, content)
    return [folder / name for name in files]


def _entry_result(folder: ResultsFolder, entry: Entry, powers: Powers | None) -> EntryResult:
    return EntryResult(entry.name, tuple(_result(folder, run, powers) for run in entry.runs))


def _result(folder: ResultsFolder, run: Run, powers: Powers | None) -> Result:
    run_folder = folder.run(run.name)
    if not run_folder.is_run:
        return Result(run, "missing", (), None)
    timeline, status = run.parameters.simulate(), run_folder.status
    points = _measured(timeline, run_folder.points(), powers)
    figures = _figures(timeline, points) if status == "finished" and points else None
    return Result(run, status, points, figures)


def _measured(
    timeline: Timeline, points: Sequence[Point], powers: Powers | None
) -> tuple[MeasuredPoint, ...]:
    slots = [point.slot for point in points]
    spent = np.full(len(points), nan) if powers is None else joules(usage_until(timeline, slots), powers)
    return tuple(
        MeasuredPoint(p.slot, p.round, int(timeline.round_offsets[p.round]), float(j), p.loss, p.accuracy)
        for p, j in zip(points, spent, strict=True)
    )


def _figures(timeline: Timeline, points: Sequence[MeasuredPoint]) -> Figures:
    last = points[-1]
    return Figures(
        loss=last.loss,
        late_loss=fmean(point.loss for point in points if point.slot >= LATE * last.slot),
        accuracy=last.accuracy,
        rounds=timeline.rounds,
        updates=len(timeline),
        lost=len(timeline.lost),
        staleness=timeline.mean_staleness(),
        joules=last.joules,
    )


def _lines(results: Sequence[EntryResult]) -> tuple[Line, ...]:
    """One for each entry, of the seeds that have come to an end, or of all if none has."""
    lines = []
    for number, entry in enumerate(results):
        ended = [result for result in entry.results if result.figures] or entry.results
        seeds = tuple(result.points for result in ended if result.points)
        if seeds:
            colour, dashed = COLOURS[number % len(COLOURS)], number // len(COLOURS) % 2 == 1
            lines.append(Line(entry.name, colour, dashed, seeds))
    return tuple(lines)


def _figure(lines: tuple[Line, ...], *, with_joules: bool) -> CurveFigure:
    panels = [
        Panel("Loss against slots", "slot", "loss", lines),
        Panel("Loss against rounds", "round", "loss", lines),
        Panel("Loss against updates", "updates", "loss", lines),
    ]
    if with_joules:
        panels.append(Panel("Loss against joules", "joules", "loss", lines))
    return CurveFigure("curves", "", "", tuple(panels))


def _points_csv(results: Sequence[EntryResult]) -> str:
    rows = (
        (entry.name, result.run.parameters.seed, *map(_blank, point))
        for entry in results
        for result in entry.results
        for point in result.points
    )
    return _csv(("run", "seed", *MeasuredPoint._fields), rows)


def _summary_csv(results: Sequence[EntryResult]) -> str:
    rows = (
        (entry.name, result.run.parameters.seed, result.status, *map(_blank, result.figures or ()))
        for entry in results
        for result in entry.results
    )
    return _csv(("run", "seed", "status", *Figures._fields), rows)


def _csv(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows((*row, *[""] * (len(heading) - len(row))) for row in rows)
    return text.getvalue()


def _blank(value: float) -> float | str:
    """Nothing in place of what is not known."""
    return "" if isnan(value) else value
