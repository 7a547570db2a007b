"""Candidates (every schedule with every group size and learning rate, each run once) and their pilots.

The configuration of a pilot has the whole deadline; it stops at a slot and resumes from there. So its first
rounds are those of the run to the bit, nothing is trained twice, and `slotwise train --resume` finishes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean
from typing import Any, get_args

import numpy as np

from slotwise.base.errors import InputError, UserError
from slotwise.base.observer import BaseObserver
from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.executors import SerialExecutor
from slotwise.batch.job import Job, Run
from slotwise.batch.job_worker import MakeTask, TaskCache
from slotwise.batch.jobs import run_jobs
from slotwise.learning import Point
from slotwise.learning.course import evaluation_rounds
from slotwise.runs import RunConfig
from slotwise.schedule import Delay, NoRoundError, Schedule, Timeline

SIXTEENTHS = 16
LEARNING_RATE = "learning_rate"


@dataclass(frozen=True)
class Prospect:
    """The figures of a run that the exact schedule gives before it is trained."""

    identity: str  # equal for runs that are the same training under two names
    rounds: tuple[int, ...]  # completed by each sixteenth of the deadline, from 0 to 16
    updates: tuple[int, ...]  # applied by each sixteenth
    mean_staleness: float  # in rounds
    max_staleness: int


def slot_after(deadline: int, sixteenths: int) -> int:
    """Return the slot after so many sixteenths of the deadline."""
    return deadline * sixteenths // SIXTEENTHS


def identity_of(timeline: Timeline) -> str:
    """Return a digest of everything a training takes from its timeline: senders, versions and rounds."""
    columns = (timeline.round, timeline.device, timeline.version, timeline.broadcast_end)
    content = b"".join(np.ascontiguousarray(column, dtype="<i8").tobytes() for column in columns)
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Candidate:
    """A schedule with a group size, and its prospect with each seed.

    Attributes:
        delay: The free delay; None if just in time for each device, auto if seeds differ.
        others: Further options that are searched, as pairs: the learning rate, or nothing.
    """

    schedule: Schedule
    group_size: int
    delay: Delay | None
    prospects: tuple[Prospect, ...]
    others: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """The name in folders, such as ``idfl-S5``, or ``idfl-S5-rate0.02``."""
        rates = (f"-rate{rate:g}" for _, rate in self.others)
        return "".join([f"{self.schedule}-S{self.group_size}", *rates])

    @property
    def label(self) -> str:
        """The name in tables, such as ``idfl S=5``, or ``idfl S=5, rate 0.02``."""
        rates = (f", rate {rate:g}" for _, rate in self.others)
        return "".join([f"{self.schedule} S={self.group_size}", *rates])

    @property
    def rounds(self) -> float:
        """Rounds within the deadline, mean over the seeds."""
        return fmean(prospect.rounds[-1] for prospect in self.prospects)

    @property
    def mean_staleness(self) -> float:
        """Staleness of an update in rounds, mean over the seeds."""
        return fmean(prospect.mean_staleness for prospect in self.prospects)

    @property
    def max_staleness(self) -> int:
        """Staleness of the oldest update with any seed."""
        return max(prospect.max_staleness for prospect in self.prospects)

    def config(self, base: RunConfig, seed: int) -> RunConfig:
        """Return the configuration of its run with one seed."""
        config = with_schedule(base, self.schedule, self.group_size, seed)
        return config.with_options(**dict(self.others))


def with_schedule(base: RunConfig, schedule: Schedule, group_size: int, seed: int) -> RunConfig:
    """Return ``base`` with another schedule; idfl has the free delay, only sync participation."""
    own = {"delay": "auto"} if schedule == "idfl" else {}
    return base.with_options(schedule=schedule, group_size=group_size, seed=seed, **own)


@dataclass(frozen=True)
class LeftOut:
    """A schedule with a group size that need not be trained, and the reason."""

    label: str
    reason: str


@dataclass(frozen=True)
class Field:
    """The candidates of a question, and those that need not be trained."""

    candidates: tuple[Candidate, ...]
    left_out: tuple[LeftOut, ...]

    def updates(self) -> int:
        """Return the updates of the whole grid: every candidate to the deadline with every seed."""
        return sum(prospect.updates[-1] for candidate in self.candidates for prospect in candidate.prospects)


def field_of(
    base: RunConfig,
    group_sizes: Sequence[int],
    seeds: Sequence[int],
    learning_rates: Sequence[float] = (),
) -> Field:
    """Return every schedule with every group size and learning rate, each run once.

    Args:
        base: The run; its schedule, group size, delay and seed are not used.
        group_sizes: The group sizes.
        seeds: The seeds, which may change the schedule.
        learning_rates: The learning rates; none if all candidates have that of the run.

    Raises:
        NoRoundError: no round ends by the deadline.
    """
    found: dict[tuple[str, ...], Candidate] = {}
    left_out: list[LeftOut] = []
    no_round = NoRoundError("deadline", base.deadline, "long enough for a round to end within it")
    for group_size in group_sizes:
        for schedule in get_args(Schedule):
            try:
                candidate = _candidate(base, schedule, group_size, seeds)
            except NoRoundError as error:
                no_round = error
                left_out.append(LeftOut(f"{schedule} S={group_size}", "no round ends by the deadline"))
                continue
            # With a free delay of 0, or with S = N, schedules coincide; the first name is kept.
            twin = found.setdefault(tuple(p.identity for p in candidate.prospects), candidate)
            if twin is not candidate:
                left_out.append(LeftOut(candidate.label, f"the same run as {twin.label}"))
    if not found:
        raise no_round
    searched = {LEARNING_RATE: learning_rates} if learning_rates else {}
    others = [tuple(zip(searched, values, strict=True)) for values in product(*searched.values())]
    candidates = [replace(one, others=own) for one in found.values() for own in others]
    return Field(tuple(candidates), tuple(left_out))


def _candidate(base: RunConfig, schedule: Schedule, size: int, seeds: Sequence[int]) -> Candidate:
    """Return a candidate; a NoRoundError if no round ends in time."""
    runs = [with_schedule(base, schedule, size, seed) for seed in seeds]
    by_chance = runs[0].schedule_depends_on_seed
    timelines = [run.simulate() for run in (runs if by_chance else runs[:1])]
    prospects = []
    slots = [slot_after(base.deadline, sixteenths) for sixteenths in range(SIXTEENTHS + 1)]
    for timeline in timelines:
        rounds = np.searchsorted(timeline.broadcast_end, slots, side="right")
        counts = tuple(rounds.tolist()), tuple(timeline.round_offsets[rounds].tolist())
        staleness = timeline.mean_staleness(), timeline.max_staleness()
        prospects.append(Prospect(identity_of(timeline), *counts, *staleness))
    # If the seed does not change the schedule, one timeline stands for all seeds.
    every_seed = tuple(prospects * (len(seeds) // len(prospects)))
    delays = {timeline.delay for timeline in timelines}
    return Candidate(schedule, size, delays.pop() if len(delays) == 1 else "auto", every_seed)


SEARCHED = ("schedule", "group_size", "delay", "seed")
"""The options that every answer decides, and the seed, of which a search takes several."""


def searched_options(learning_rates: Sequence[float]) -> tuple[str, ...]:
    """Return the options in which the pilots of a search differ."""
    return (*SEARCHED, LEARNING_RATE) if learning_rates else SEARCHED


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


def begin(folder: BatchFolder, base: RunConfig, learning_rates: Sequence[float] = ()) -> None:
    """Create or resume a folder, unless it has pilots of another run.

    Other metrics, seeds, sizes, learning rates and budgets may share its pilots.
    """
    differing = searched_options(learning_rates)
    # As JSON has them: the manifest has lists where options are tuples.
    options = json.loads(json.dumps(common_options(base, learning_rates)))
    if folder.is_new:
        folder.write_manifest({"parameters": options})
        return
    searched = {name: value for name, value in base.options().items() if name in SEARCHED}
    with folder.reading_manifest():
        parameters = folder.read_manifest()["parameters"]
        saved = RunConfig.from_saved({**searched, **parameters}).options() if parameters else {}
    for name, value in json.loads(json.dumps(saved)).items():
        if name not in differing and options.get(name) != value:
            allowed = f"another folder: the pilots of this one have {name} {value}"
            raise InputError("out", folder.path, allowed)


def common_options(base: RunConfig, learning_rates: Sequence[float] = ()) -> dict[str, Any]:
    """Return the options that all candidates share."""
    differing = searched_options(learning_rates)
    return {name: value for name, value in base.options().items() if name not in differing}
