"""SavedRun: what a run folder says. The only reader of run folders, and the only definition of an outcome."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isnan, nan
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from slotwise.base.errors import UserError
from slotwise.base.files import damaged, read_document
from slotwise.learning import Point
from slotwise.learning.batching import FixedSteps
from slotwise.learning.task import COLUMNS, NO_METRICS, metric_names
from slotwise.runs.config import RunConfig
from slotwise.runs.device_data import DataUse
from slotwise.runs.run_timeline import TIMELINE, SavedSchedule, schedule_timeline
from slotwise.schedule import Timeline
from slotwise.schedule.costs import Costs, Powers, joules
from slotwise.setting.slot_duration import powers_of_run, slot_seconds_of_run

Status = Literal["running", "interrupted", "diverged", "finished", "reached"]
COMPLETE: tuple[Status, ...] = ("finished", "reached")  # at the deadline, or at the target
FORMAT = 1
FINAL_PART = 0.1
# What a file that slotwise did not write may raise while it is read.
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


class MeasuredPoint(NamedTuple):
    """An evaluation with the updates applied and the joules spent up to it; NaN if they are not known."""

    slot: int
    round: int
    updates: float
    joules: float
    loss: float
    accuracy: float
    metrics: Mapping[str, float] = NO_METRICS


@dataclass(frozen=True)
class SavedRun:
    """A run as its folder has it: configuration, status, evaluations, schedule, and what came of it.

    run.json is read at once; history.csv and timelines when they are asked for. Everything that is damaged
    or does not fit together is a UserError that names the file.

    Attributes:
        path: The run folder.
        description: The content of run.json.
        config: The configuration of the run.
    """

    path: Path
    description: Mapping[str, Any]
    config: RunConfig

    @classmethod
    def read(cls, path: Path | str) -> SavedRun:
        """Read the run in a folder; a UserError if there is none or its run.json is damaged."""
        path = Path(path)
        refuse_no_run(path)
        description = read_description(path)
        return cls(path, description, _saved_config(path, description))

    @classmethod
    def find(cls, path: Path | str) -> SavedRun | None:
        """Read the run in a folder; None if there is none."""
        return cls.read(path) if has_run(Path(path)) else None

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.resolve().name

    @property
    def status(self) -> Status:
        """Status of the run; "running" also if its process was killed."""
        status: Status = self.description["status"]
        return status

    @property
    def is_complete(self) -> bool:
        """True if the run has ended well: at its deadline, or at its target."""
        return self.status in COMPLETE

    @property
    def is_live(self) -> bool:
        """True for a run with real devices."""
        return "live_run" in self.description

    @property
    def rounds(self) -> int:
        """Rounds that were trained when run.json was written."""
        return int(self.description.get("rounds", 0))

    @property
    def seconds(self) -> float:
        """Seconds that the training took."""
        return float(self.description.get("seconds", 0.0))

    @property
    def data(self) -> DataUse:
        """The data that the run was begun with."""
        return DataUse(self.path.name, self.config.dataset.source, self.description.get("data_sha256"))

    # What was measured

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """The evaluations in history.csv; there are none before the first checkpoint."""
        return tuple(read_points(self.path, is_finished=self.is_complete))

    @property
    def last(self) -> Point | None:
        """The last evaluation; None if there is none."""
        return self.points[-1] if self.points else None

    @property
    def best(self) -> Point | None:
        """The evaluation with the lowest training loss."""
        return min(self.points, key=lambda point: point.loss, default=None)

    @property
    def reported(self) -> Mapping[str, Any]:
        """The last evaluation as in run.json, without reading history.csv; empty before the run ended."""
        return self.description.get("final") or {}

    @property
    def final_loss(self) -> float:
        """Median training loss over the last tenth of the slots; NaN without evaluations."""
        return final_loss(self.points, self.config.deadline) if self.points else nan

    @property
    def final_accuracy(self) -> float:
        """Median test accuracy over the last tenth of the slots; NaN without evaluations."""
        return final_accuracy(self.points, self.config.deadline) if self.points else nan

    @property
    def final_metrics(self) -> dict[str, float]:
        """Median of each further metric over the last tenth of the slots."""
        return final_metrics(self.points, self.config.deadline) if self.points else {}

    @property
    def diverged(self) -> bool:
        """True if the model has lost all meaning: its loss or weights are not finite."""
        return self.status == "diverged"

    def has_collapsed(self, accuracy: float) -> bool:
        """Return whether the run diverged, or ended below an accuracy that is little better than guessing."""
        return self.diverged or self.final_accuracy < accuracy

    # Its schedule

    @cached_property
    def planned(self) -> Timeline:
        """The timeline of the configuration, or the one that was recorded while the run was trained."""
        decided = self.config.decides_by_learning
        timeline, last = self._recorded if decided else schedule_timeline(self.config), self.last
        if last is not None and (last.round > timeline.rounds or last.slot > timeline.last_slot):
            raise UserError(f"{self.path}: its history.csv and its run.json are not of the same run")
        return timeline

    @property
    def trained(self) -> Timeline:
        """The part of `planned` that the run keeps to."""
        # All of it, unless a target ended the run.
        return self.planned.first(self.rounds) if self.status == "reached" else self.planned

    @cached_property
    def schedule(self) -> SavedSchedule:
        """Numbers of the timeline up to the last evaluation, as they were saved, or from `planned`."""
        saved = SavedSchedule.read(self.path, self.description, self.points)
        return saved or SavedSchedule.of(self.trained, self.points)

    @property
    def sgd_steps(self) -> int:
        """SGD steps of the updates in the schedule; epochs have steps by the samples of each device."""
        training, updates = self.config.training, self.schedule.totals.updates
        if isinstance(training.batching, FixedSteps):
            return training.batching.local_steps * updates
        sizes, trained = self.config.device_sizes(), self.trained
        slots = trained.received_at(trained.version).tolist()
        cases = Counter(
            (sizes[device - 1], training.batch_size_at(slot))
            for device, slot in zip(trained.device.tolist(), slots, strict=True)
        )
        return sum(count * training.batching.steps(*case) for case, count in cases.items())

    @cached_property
    def measured(self) -> Timeline | None:
        """The timeline that a live run measured, in timeline.json; None for other runs."""
        return self._recorded if self.is_live and (self.path / TIMELINE).is_file() else None

    @cached_property
    def _recorded(self) -> Timeline:
        path = self.path / TIMELINE
        if not path.is_file():
            raise UserError(f"{self.path}: its schedule is not recorded yet; it is with the first checkpoint")
        try:
            return Timeline.from_json(path.read_text(encoding="utf-8"))
        except (UserError, OSError, *MALFORMED):
            raise damaged(path) from None

    def costs(self, powers: Powers | None = None) -> Costs | None:
        """Return the costs up to the last evaluation, with joules if powers are given.

        None before the first round, and if a live run did not keep to its schedule.
        """
        rounds = self.last.round if self.last else 0
        if rounds == 0:
            return None
        powers = powers and powers_of_run(powers, self.config)
        planned = self.planned.first(rounds)
        if self.measured is not None and self.measured.first(rounds) != planned:
            return None
        return Costs.of(planned, powers)

    def slot_seconds(self, given: float | None = None) -> float | None:
        """Return the seconds of a slot, if the run says them, or else those ``given``."""
        return slot_seconds_of_run(self.config, given)

    def curve(self, powers: Powers | None = None) -> tuple[MeasuredPoint, ...]:
        """Return the evaluations with updates, and with joules if the powers of the devices are known."""
        if not self.points:
            return ()
        known = powers and powers_of_run(powers, self.config, check=False)
        return _measured_points(self.points, self.schedule, known)


def measured_points(
    points: Sequence[Point], timeline: Timeline | None, powers: Powers | None
) -> tuple[MeasuredPoint, ...]:
    """Return evaluations with updates and joules; both are NaN without the timeline."""
    if timeline is None:
        return tuple(MeasuredPoint(p.slot, p.round, nan, nan, p.loss, p.accuracy, p.metrics) for p in points)
    return _measured_points(points, SavedSchedule.of(timeline, points), powers)


def _measured_points(
    points: Sequence[Point], schedule: SavedSchedule, powers: Powers | None
) -> tuple[MeasuredPoint, ...]:
    spared = np.array(schedule.spared) if any(schedule.spared) else 0
    spent = np.full(len(points), nan) if powers is None else joules(schedule.usage, powers, spared)
    return tuple(
        MeasuredPoint(p.slot, p.round, applied, used, p.loss, p.accuracy, p.metrics)
        for p, applied, used in zip(points, schedule.updates, spent.tolist(), strict=True)
    )


def has_run(path: Path) -> bool:
    """Return whether a folder contains a run."""
    try:
        return (path / "run.json").is_file()
    except OSError:  # a name too long to be a file's
        return False


def refuse_no_run(path: Path) -> None:
    """Raise a UserError if a folder does not contain a run."""
    if has_run(path):
        return
    if not os.path.exists(path):  # noqa: PTH110  (Path.exists fails if the name is too long)
        raise UserError(f"{path}: not a run folder: there is no such file or folder")
    raise UserError(f"{path}: not a run folder (no run.json), as slotwise train or slotwise serve makes it")


def read_description(path: Path) -> dict[str, Any]:
    """Return the content of the run.json of a folder; a UserError unless it is as slotwise writes it."""
    file = path / "run.json"
    try:
        document = read_document(file, FORMAT, "status", "parameters")
        if not _is_description(document):
            raise damaged(file)
    except RecursionError:
        raise damaged(file) from None
    return document


def _is_description(document: Mapping[str, Any]) -> bool:
    final, sha256 = document.get("final"), document.get("data_sha256")
    return (
        document["status"] in get_args(Status)
        and isinstance(document["parameters"], dict)
        and _is_count(document.get("rounds", 0))
        and _is_number(document.get("seconds", 0.0))
        and 0 <= document.get("seconds", 0.0) < inf
        and (sha256 is None or isinstance(sha256, str))
        and (final is None or (isinstance(final, dict) and _is_evaluation(final)))
    )


def _is_evaluation(final: Mapping[str, Any]) -> bool:
    """Return whether the entries of an evaluation are numbers; null stands for NaN."""
    numbers = [final.get("loss"), final.get("accuracy")]
    return _is_count(final.get("slot", 0)) and all(one is None or _is_number(one) for one in numbers)


def _is_number(value: object) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _saved_config(path: Path, description: Mapping[str, Any]) -> RunConfig:
    file = path / "run.json"
    try:
        return RunConfig.from_saved(description["parameters"])
    except UserError as error:
        raise UserError(f"{file}: {error}") from None
    except MALFORMED:
        raise damaged(file) from None


def read_points(path: Path, *, is_finished: bool = False) -> list[Point]:
    """Return the evaluations in the history.csv of a folder; none before a run has its first."""
    file = path / "history.csv"
    if not file.is_file():
        if is_finished:
            raise UserError(f"{file}: missing though the run is finished; delete the run and train it again")
        return []
    points: list[Point] = []
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            rows = csv.DictReader(lines)
            others = [name for name in rows.fieldnames or () if name not in COLUMNS]
            for row in rows:
                numbers: list[Any] = [kind(row[name]) for name, kind in COLUMNS.items()]
                metrics = {name: float(row[name]) for name in others}
                points.append(Point(*numbers)._replace(metrics=metrics))
        # A file without rows does not fail above, whatever its columns are.
        if not set(COLUMNS) <= set(rows.fieldnames or ()):
            raise ValueError
    except (KeyError, ValueError, TypeError, csv.Error):
        raise UserError(f"{file}: damaged; it must have the columns {', '.join(COLUMNS)}") from None
    return points


def final_loss(points: Sequence[Point], deadline: int) -> float:
    """Return the median training loss over the last tenth of the slots; a mean would follow single spikes."""
    return float(np.median([point.loss for point in _final(points, deadline)]))


def final_accuracy(points: Sequence[Point], deadline: int) -> float:
    """Return the median test accuracy over the last tenth of the slots."""
    return float(np.median([point.accuracy for point in _final(points, deadline)]))


def final_metrics(points: Sequence[Point], deadline: int) -> dict[str, float]:
    """Return the median of each further metric over the last tenth of the slots, by name.

    Evaluations that do not have a metric, or have it as NaN, are left out.
    """
    last = [point.metrics for point in _final(points, deadline)]
    known = {name: [m[name] for m in last if not isnan(m.get(name, nan))] for name in metric_names(last)}
    return {name: float(np.median(values)) if values else nan for name, values in known.items()}


def _final(points: Sequence[Point], deadline: int) -> list[Point]:
    """Return the evaluations in the last tenth of the slots, or the last one if there is none."""
    return [p for p in points if p.slot > (1 - FINAL_PART) * deadline] or [points[-1]]
