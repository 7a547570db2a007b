"""BatchResults: the tidy tables of a batch, one row for each point and one for each evaluation."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from slotwise.batch.axes import Axis, full_text
from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import Failure, schedule_summary, schedule_timeline
from slotwise.costs import Powers, joules, usage_until
from slotwise.errors import UserError
from slotwise.learning import Point
from slotwise.report.curves import MeasuredPoint
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.run_folder import final_accuracy, final_loss


class PointStatistics(NamedTuple):
    """The statistics of a finished run, or their means over several.

    Attributes:
        final_loss: Mean training loss over the last tenth of the slots.
        final_accuracy: Mean test accuracy over the same, 0 to 1.
        last_loss: Training loss of the last model.
        last_accuracy: Test accuracy of the last model.
        rounds: Rounds within the deadline.
        updates: Updates applied.
        lost: Lost uplinks.
        sgd_steps: SGD steps of the applied updates.
        mean_staleness: Mean staleness of the updates, in rounds.
        slots: Slots until the last round ended.
        joules: Energy of all devices; NaN if their powers are not known.
        seconds: Seconds that the training took.
    """

    final_loss: float
    final_accuracy: float
    last_loss: float
    last_accuracy: float
    rounds: float
    updates: float
    lost: float
    sgd_steps: float
    mean_staleness: float
    slots: float
    joules: float
    seconds: float


@dataclass(frozen=True)
class PointResult:
    """A point: case, value on each axis, seed and run; its status, its curve so far, and its statistics."""

    case: str
    values: tuple[Any, ...]
    seed: int
    run: str
    status: str
    curve: tuple[MeasuredPoint, ...] = ()
    statistics: PointStatistics | None = None


@dataclass(frozen=True)
class BatchResults:
    """The results of a batch so far.

    Attributes:
        axes: Axes with their values.
        rows: One row for each point.
        has_joules: The powers of the devices are known.
        failures: Runs that failed or diverged in the call that made these results.
        files: The tables and figures that this call wrote.
    """

    axes: tuple[Axis, ...]
    rows: tuple[PointResult, ...]
    has_joules: bool = False
    failures: tuple[Failure, ...] = ()
    files: tuple[Path, ...] = ()

    @classmethod
    def read(cls, folder: BatchFolder) -> BatchResults:
        """Read a folder; each run is read once, however many points share it."""
        document = folder.read_manifest()
        with folder.reading_manifest():
            axes = tuple(Axis(name, tuple(values)) for name, values in document["axes"].items())
            powers = Powers(**document["powers"]) if document["powers"] else None
            points = [
                (str(c), tuple(values), int(seed), str(run)) for c, values, seed, run in document["points"]
            ]
            if any(len(values) != len(axes) or "/" in run for _, values, _, run in points):
                raise ValueError
        runs = {name: _read_run(folder.run(name), powers) for name in dict.fromkeys(p[3] for p in points)}
        return cls(axes, tuple(PointResult(*point, *runs[point[3]]) for point in points), powers is not None)

    @property
    def is_finished(self) -> bool:
        """Return whether all points are."""
        return all(row.status == "finished" for row in self.rows)

    def problems(self, *, stopped: bool = False) -> dict[str, str]:
        """Return the reason or status of each unfinished run; after a stop, only of those that failed."""
        reasons = {failure.run.name: failure.reason for failure in self.failures}
        statuses = {row.run: row.status for row in self.rows if row.status != "finished"}
        return {
            name: reasons.get(name, status)
            for name, status in statuses.items()
            if not stopped or name in reasons or status == "diverged"
        }

    def by_combination(self) -> dict[tuple[str, ...], list[PointResult]]:
        """Return the seeds of each combination by the name of its case and the texts of its values."""
        groups: dict[tuple[str, ...], list[PointResult]] = {}
        for row in self.rows:
            texts = [axis.text(value) for axis, value in zip(self.axes, row.values, strict=True)]
            groups.setdefault((row.case, *texts), []).append(row)
        return groups

    def columns(self) -> dict[str, list[Any]]:
        """Return the table of points by column; statistics are None until a point is finished."""
        table = self._key_columns(self.rows)
        table["status"] = [row.status for row in self.rows]
        for number, name in enumerate(PointStatistics._fields):
            table[name] = [_known(row.statistics[number]) if row.statistics else None for row in self.rows]
        table["run"] = [row.run for row in self.rows]
        return table

    def curve_columns(self) -> dict[str, list[Any]]:
        """Return the table of evaluations by column."""
        table = self._key_columns([row for row in self.rows for _ in row.curve])
        points = [point for row in self.rows for point in row.curve]
        return table | {
            name: [_known(getattr(point, name)) for point in points] for name in MeasuredPoint._fields
        }

    def _key_columns(self, rows: Sequence[PointResult]) -> dict[str, list[Any]]:
        table: dict[str, list[Any]] = {"case": [row.case for row in rows]}
        for number, axis in enumerate(self.axes):
            # The option loss is the probability of losing an uplink, not the loss of a model.
            name = "uplink_loss" if axis.name == "loss" else axis.name
            table[name] = [_plain(row.values[number]) for row in rows]
        table["seed"] = [row.seed for row in rows]
        return table


def mean_statistics(rows: Iterable[PointResult]) -> PointStatistics | None:
    """Return the means over the finished rows; None if none is finished."""
    finished = [row.statistics for row in rows if row.statistics]
    return PointStatistics(*map(fmean, zip(*finished, strict=True))) if finished else None


def table_csv(columns: dict[str, list[Any]]) -> str:
    """Return a table as CSV text; None is a blank cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def _read_run(
    run: RunFolder, powers: Powers | None
) -> tuple[str, tuple[MeasuredPoint, ...], PointStatistics | None]:
    if not run.is_run:
        return "missing", (), None
    status, points, config = run.status, run.points(), run.parameters()
    if points and points[-1].round > schedule_summary(config).rounds:
        raise UserError(f"{run.path}: its history.csv and its run.json are not of the same run")
    curve = _measured(config, points, powers)
    if status != "finished" or not points:
        return status, curve, None
    schedule = schedule_summary(config)
    return (
        status,
        curve,
        PointStatistics(
            final_loss=final_loss(points, config.deadline),
            final_accuracy=final_accuracy(points, config.deadline),
            last_loss=points[-1].loss,
            last_accuracy=points[-1].accuracy,
            rounds=schedule.rounds,
            updates=schedule.updates,
            lost=schedule.lost,
            sgd_steps=schedule.updates * config.training.local_steps,
            mean_staleness=schedule.mean_staleness,
            slots=schedule.slots,
            joules=curve[-1].joules,
            seconds=float(run.description().get("seconds", 0.0)),
        ),
    )


def _measured(config: RunConfig, points: Sequence[Point], powers: Powers | None) -> tuple[MeasuredPoint, ...]:
    """Return the evaluations with the updates and joules until then."""
    if not points:
        return ()
    timeline = schedule_timeline(config)
    slots = [point.slot for point in points]
    spent = np.full(len(points), nan) if powers is None else joules(usage_until(timeline, slots), powers)
    return tuple(
        MeasuredPoint(
            p.slot, p.round, int(timeline.round_offsets[p.round]), float(energy), p.loss, p.accuracy
        )
        for p, energy in zip(points, spent, strict=True)
    )


def _known(value: float) -> float | None:
    return None if isnan(value) else value


def _plain(value: Any) -> Any:
    return full_text(value) if isinstance(value, list | tuple) else value
