"""Histories: the curves of many trainings in small CSV files, one a method, to be kept with the source.

A file has a row for each evaluation. Everything that is concluded from a training is computed from these
rows, so a page can be made again without the run folders.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import NamedTuple

from slotwise.base.files import csv_text, damaged, write_atomically
from slotwise.learning import Point
from slotwise.paper.tuned import Trial
from slotwise.runs.saved_run import SavedRun, final_accuracy, final_loss

COLUMNS = ("power", "seed", "deadline", "status", "slot", "round", "loss", "accuracy")


class Key(NamedTuple):
    """A training of the method of a file."""

    power: int
    seed: int
    deadline: int


@dataclass(frozen=True)
class TrainedCurve:
    """The evaluations of a training, and whether it diverged."""

    deadline: int
    status: str
    points: tuple[Point, ...]

    @property
    def final_loss(self) -> float:
        """Median training loss over the last tenth of the slots; infinite if the training diverged."""
        return inf if self.status == "diverged" else final_loss(self.points, self.deadline)

    @property
    def final_accuracy(self) -> float:
        """Median test accuracy over the last tenth of the slots; 0 if the training diverged."""
        return 0.0 if self.status == "diverged" else final_accuracy(self.points, self.deadline)

    def slots_to(self, accuracy: float) -> float:
        """Return the slot of the first evaluation with this test accuracy; infinite if there is none."""
        return next((float(point.slot) for point in self.points if point.accuracy >= accuracy), inf)


@dataclass
class Histories:
    """The curves of a folder, by trial; files are read when they are first needed.

    Attributes:
        folder: Folder that curves are added to; it need not exist.
        earlier: Folder of curves that were trained before; it is only read.
    """

    folder: Path
    earlier: Path | None = None
    _known: dict[str, dict[Key, TrainedCurve]] = field(default_factory=dict)

    def curve(self, trial: Trial) -> TrainedCurve | None:
        """Return the curve of a trial; None if it has not been trained."""
        return self._of(trial.method.name).get(Key(trial.power, trial.seed, trial.deadline))

    def loss(self, trial: Trial) -> float | None:
        """Return the final training loss of a trial; None if it has not been trained."""
        curve = self.curve(trial)
        return None if curve is None else curve.final_loss

    def of(self, method: str) -> Mapping[Key, TrainedCurve]:
        """Return all curves of a method."""
        return dict(self._of(method))

    def add(self, trial: Trial, saved: SavedRun) -> None:
        """Add the curve of a run that has ended, and write the file of its method."""
        points = tuple(_shortened(point) for point in saved.points)
        key = Key(trial.power, trial.seed, trial.deadline)
        self._of(trial.method.name)[key] = TrainedCurve(trial.deadline, saved.status, points)
        self._write(trial.method.name)

    def add_all(self, others: Histories, methods: Iterable[str]) -> None:
        """Add all curves that others have of some methods, and write the files of these methods."""
        for method in methods:
            if found := others.of(method):
                self._of(method).update(found)
                self._write(method)

    def _of(self, method: str) -> dict[Key, TrainedCurve]:
        if method not in self._known:
            folders = [folder for folder in (self.earlier, self.folder) if folder is not None]
            paths = [folder / _file_name(method) for folder in folders]
            read = [_read(path) for path in paths if path.is_file()]
            self._known[method] = {key: curve for curves in read for key, curve in curves.items()}
        return self._known[method]

    def _write(self, method: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        rows = (_rows(key, curve) for key, curve in sorted(self._known[method].items()))
        write_atomically(
            self.folder / _file_name(method), csv_text(COLUMNS, (row for some in rows for row in some))
        )


def _file_name(method: str) -> str:
    return f"{method.replace(' ', '-').replace('=', '')}.csv"


def _shortened(point: Point) -> Point:
    """Return a point with the digits that are kept."""
    loss, accuracy = float(f"{point.loss:.5g}"), float(f"{point.accuracy:.5g}")
    return Point(point.slot, point.round, loss, accuracy, 0)


def _rows(key: Key, curve: TrainedCurve) -> Iterable[tuple[object, ...]]:
    for point in curve.points:
        yield (*key, curve.status, point.slot, point.round, f"{point.loss:.5g}", f"{point.accuracy:.5g}")


def _read(path: Path) -> dict[Key, TrainedCurve]:
    """Read the file of a method; a UserError if it is damaged."""
    points: dict[Key, list[Point]] = {}
    statuses: dict[Key, str] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                key = Key(int(row["power"]), int(row["seed"]), int(row["deadline"]))
                numbers = float(row["loss"]), float(row["accuracy"])
                points.setdefault(key, []).append(Point(int(row["slot"]), int(row["round"]), *numbers, 0))
                statuses[key] = row["status"]
    except (KeyError, ValueError, TypeError, csv.Error):
        raise damaged(path) from None
    return {key: TrainedCurve(key.deadline, statuses[key], tuple(found)) for key, found in points.items()}
