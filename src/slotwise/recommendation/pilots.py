"""Pilots: the beginnings of the real runs, and the folder in which they are trained.

The configuration of a pilot has the whole deadline; it stops at a slot and resumes from there. So its first
rounds are those of the run to the bit, nothing is trained twice, and `slotwise train --resume` finishes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slotwise.base.errors import InputError, UserError
from slotwise.base.observer import BaseObserver
from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.executors import SerialExecutor
from slotwise.batch.job import Job, Run
from slotwise.batch.job_worker import MakeTask, TaskCache
from slotwise.batch.jobs import run_jobs
from slotwise.learning import Point
from slotwise.learning.engine import evaluation_rounds
from slotwise.runs import RunConfig

SEARCHED = ("schedule", "group_size", "delay", "seed")
"""The options that the answer decides, and the seed, of which a search takes several."""


class Stopped(Exception):
    """The observer asked to stop; the pilots are saved and the same search resumes them."""


@dataclass(frozen=True)
class Pilot:
    """A run to train up to a slot."""

    run: Run
    slot: int
    rounds: int  # that end by then
    updates: int  # applied by then


@dataclass(frozen=True)
class Curve:
    """The evaluations of a run up to a slot."""

    config: RunConfig
    slot: int
    points: tuple[Point, ...]
    diverged: bool = False


Trainer = Callable[[Sequence[Pilot]], Sequence[Curve]]
"""Trains pilots, or resumes them, up to their slots and returns their curves in the same order."""


class FolderTrainer:
    """Trains pilots in a folder; it trains only what the folder does not have."""

    def __init__(
        self,
        folder: BatchFolder,
        *,
        make_task: MakeTask | None = None,
        workers: int = 1,
        observer: BaseObserver | None = None,
    ) -> None:
        self._folder, self._workers, self._observer = folder, workers, observer
        self.make_task = make_task or TaskCache().make
        self._known_data: set[str] = set()  # pilots whose data were compared: that reads all of them

    def __call__(self, pilots: Sequence[Pilot]) -> list[Curve]:
        """Return the curves of the pilots.

        Raises:
            UserError: a pilot failed, its folder holds another run, or its data have changed.
            Stopped: the observer asked to stop.
        """
        found = {pilot: self._read(pilot) for pilot in pilots}
        missing = [Job(p.run, p.updates, p.rounds) for p in pilots if found[p] is None]
        executor = SerialExecutor(self._workers, self.make_task)
        failures = run_jobs(self._folder, missing, executor, self._observer) if missing else ()
        curves = []
        for pilot in pilots:
            curve = found[pilot] or self._read(pilot)
            if curve is None:
                reasons = [failure.reason for failure in failures if failure.run == pilot.run]
                raise UserError(f"{pilot.run.name}: {reasons[0]}") if reasons else Stopped
            curves.append(curve)
        return curves

    def _read(self, pilot: Pilot) -> Curve | None:
        """Return the saved curve of a pilot; None if it has not been trained up to its slot."""
        folder, config = self._folder.run(pilot.run.name), pilot.run.config
        if not folder.is_run:
            return None
        folder.refuse_other_options(config)
        if pilot.run.name not in self._known_data:
            folder.refuse_changed_data(config)
            self._known_data.add(pilot.run.name)
        history, _ = folder.checkpoints.load()
        if history is not None and history.rounds >= pilot.rounds:
            # It is complete if it has all evaluations that are due by then, too.
            points = tuple(point for point in history.points if point.round <= pilot.rounds)
            due = evaluation_rounds(config.simulate(), config.slots_between_evaluations)
            if {number for number in due if number <= pilot.rounds} <= {point.round for point in points}:
                return Curve(config, pilot.slot, points)
        return Curve(config, pilot.slot, (), diverged=True) if folder.status == "diverged" else None


def pilot_folder(path: Any) -> BatchFolder:
    """Return the folder of the pilots and the answer."""
    return BatchFolder(path, "slotwise recommend", "recommend.json", "pilots")


def begin(folder: BatchFolder, base: RunConfig) -> None:
    """Create or resume a folder, unless it has pilots of another run.

    Other metrics, seeds, sizes and budgets may share its pilots.
    """
    # As JSON has them: the manifest has lists where options are tuples.
    options = json.loads(json.dumps(common_options(base)))
    if folder.is_new:
        folder.write_manifest({"parameters": options})
        return
    searched = {name: value for name, value in base.options().items() if name in SEARCHED}
    with folder.reading_manifest():
        parameters = folder.read_manifest()["parameters"]
        saved = RunConfig.from_saved({**searched, **parameters}).options() if parameters else {}
    for name, value in json.loads(json.dumps(saved)).items():
        if name not in SEARCHED and options.get(name) != value:
            allowed = f"another folder: the pilots of this one have {name} {value}"
            raise InputError("out", folder.path, allowed)


def common_options(base: RunConfig) -> dict[str, Any]:
    """Return the options that all candidates share."""
    return {name: value for name, value in base.options().items() if name not in SEARCHED}
