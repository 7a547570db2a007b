"""The tidy tables of a sweep: sweep.csv has a row for each point, curves.csv one for each evaluation."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from slotwise.batch.axes import Axis, full_text
from slotwise.batch.facts import facts
from slotwise.batch.folder import ListedPoint, SweepFolder
from slotwise.files import write_atomically
from slotwise.learning import Point as CurvePoint
from slotwise.runs import RunFolder
from slotwise.runs.statistics import final_accuracy, final_loss

CURVE_COLUMNS = ("slot", "round", "global_loss", "accuracy")


class Figures(NamedTuple):
    """What a finished point, or the mean of several, has come to.

    Attributes:
        final_loss: mean global loss over the last tenth of the slots.
        final_accuracy: mean test accuracy over the same, 0 to 1.
        rounds: within the deadline.
        updates: applied.
        sgd_steps: of all devices.
        mean_staleness: of the updates, in rounds.
        slots: until the last round ended.
        seconds: that the training took.
    """

    final_loss: float
    final_accuracy: float
    rounds: float
    updates: float
    sgd_steps: float
    mean_staleness: float
    slots: float
    seconds: float


@dataclass(frozen=True)
class PointResult:
    """A point as it stands."""

    point: ListedPoint
    status: str
    curve: tuple[CurvePoint, ...] = ()
    figures: Figures | None = None


@dataclass(frozen=True)
class SweepResults:
    """Everything a sweep has come to so far."""

    axes: tuple[Axis, ...]
    results: tuple[PointResult, ...]

    @property
    def combinations(self) -> dict[tuple[str, ...], list[PointResult]]:
        """The seeds of each combination, by what its values are called."""
        found: dict[tuple[str, ...], list[PointResult]] = {}
        for result in self.results:
            values = zip(self.axes, result.point.values, strict=True)
            found.setdefault(tuple(axis.text(value) for axis, value in values), []).append(result)
        return found


def read_results(folder: SweepFolder) -> SweepResults:
    """What is in a folder; each run is read once, however many points share it."""
    manifest = folder.manifest()
    runs = {name: _read_run(folder.run(name)) for name in dict.fromkeys(p.run for p in manifest.points)}
    return SweepResults(
        manifest.axes, tuple(PointResult(point, *runs[point.run]) for point in manifest.points)
    )


def _read_run(run: RunFolder) -> tuple[str, tuple[CurvePoint, ...], Figures | None]:
    if not run.is_run:
        return "missing", (), None
    status, curve = run.status, tuple(run.points())
    return status, curve, _figures(run, curve) if status == "finished" and curve else None


def _figures(run: RunFolder, curve: Sequence[CurvePoint]) -> Figures:
    parameters = run.parameters()
    known = facts(parameters)
    return Figures(
        final_loss=final_loss(curve, parameters.deadline),
        final_accuracy=final_accuracy(curve, parameters.deadline),
        rounds=known.rounds,
        updates=known.updates,
        sgd_steps=known.updates * parameters.training.local_steps,
        mean_staleness=known.mean_staleness,
        slots=known.last_slot,
        seconds=float(run.description().get("seconds", 0.0)),
    )


def write_tables(folder: Path, results: SweepResults) -> list[Path]:
    """Both files; gives their paths."""
    files = {"sweep.csv": points_csv(results), "curves.csv": curves_csv(results)}
    for name, content in files.items():
        write_atomically(folder / name, content)
    return [folder / name for name in files]


def points_csv(results: SweepResults) -> str:
    """A row for each point; figures are left blank until it is finished."""
    blank = [""] * len(Figures._fields)
    rows = (
        (*_values(result.point), result.status, *(result.figures or blank), result.point.run)
        for result in results.results
    )
    return _csv((*_names(results), "status", *Figures._fields, "run"), rows)


def curves_csv(results: SweepResults) -> str:
    """A row for each evaluation of each point."""
    rows = (
        (*_values(result.point), point.slot, point.round, point.loss, point.accuracy)
        for result in results.results
        for point in result.curve
    )
    return _csv((*_names(results), *CURVE_COLUMNS), rows)


def _names(results: SweepResults) -> tuple[str, ...]:
    return (*(axis.name for axis in results.axes), "seed")


def _values(point: ListedPoint) -> tuple[Any, ...]:
    return (*map(full_text, point.values), point.seed)


def _csv(heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(rows)
    return text.getvalue()
