"""Candidates: every schedule with every group size; a second name for the same run is left out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import get_args

import numpy as np

from slotwise.runs import RunConfig
from slotwise.schedule import Delay, NoRoundError, Schedule, Timeline

SIXTEENTHS = 16


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
    """A schedule with a group size, and its prospect with each seed."""

    schedule: Schedule
    group_size: int
    delay: Delay | None  # the free delay; None if just in time for each device, auto if seeds differ
    prospects: tuple[Prospect, ...]

    @property
    def name(self) -> str:
        """The name in folders, such as ``idfl-S5``."""
        return f"{self.schedule}-S{self.group_size}"

    @property
    def label(self) -> str:
        """The name in tables, such as ``idfl S=5``."""
        return f"{self.schedule} S={self.group_size}"

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
        return with_schedule(base, self.schedule, self.group_size, seed)


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


def field_of(base: RunConfig, group_sizes: Sequence[int], seeds: Sequence[int]) -> Field:
    """Return every schedule with every group size, each run once; a NoRoundError if no round ends."""
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
    return Field(tuple(found.values()), tuple(left_out))


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
