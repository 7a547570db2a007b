"""Candidates: every schedule with every group size, less those that the exact schedule rules out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import get_args

import numpy as np

from slotwise.errors import InputError
from slotwise.recommendation.halving import SIXTEENTHS
from slotwise.runs import RunConfig
from slotwise.schedule import Schedule, Timeline


@dataclass(frozen=True)
class Prospect:
    """The figures of a run that the exact schedule gives before it is trained.

    Attributes:
        identity: equal for runs that are the same training under two names.
        rounds: rounds completed by each sixteenth of the deadline, from 0 to 16.
        updates: updates applied by each sixteenth.
        mean_staleness: mean staleness of all updates, in rounds.
        max_staleness: staleness of the oldest update.
    """

    identity: str
    rounds: tuple[int, ...]
    updates: tuple[int, ...]
    mean_staleness: float
    max_staleness: int

    @classmethod
    def of(cls, timeline: Timeline, deadline: int) -> Prospect:
        """Read the figures off a timeline."""
        slots = [rung_slot(deadline, sixteenths) for sixteenths in range(SIXTEENTHS + 1)]
        rounds = np.searchsorted(timeline.broadcast_end, slots, side="right")
        return cls(
            identity_of(timeline),
            tuple(rounds.tolist()),
            tuple(timeline.round_offsets[rounds].tolist()),
            timeline.mean_staleness(),
            timeline.max_staleness(),
        )


def rung_slot(deadline: int, sixteenths: int) -> int:
    """Return the slot by which a rung ends."""
    return deadline * sixteenths // SIXTEENTHS


def identity_of(timeline: Timeline) -> str:
    """Return a digest of everything a training takes from its timeline: senders, versions and rounds."""
    columns = (timeline.round, timeline.device, timeline.version, timeline.broadcast_end)
    digest = hashlib.sha256()
    for column in columns:
        digest.update(np.ascontiguousarray(column, dtype="<i8").tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Candidate:
    """A schedule with a group size, and its prospect with each seed.

    ``delay`` is the free delay; None if it is just in time for each device.
    """

    schedule: Schedule
    group_size: int
    delay: int | None
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
    participation = base.policy.participation if schedule == "sync" else "round-robin"
    return base.with_options(
        schedule=schedule, group_size=group_size, delay="auto", participation=participation, seed=seed
    )


@dataclass(frozen=True)
class RuledOut:
    """A candidate that cannot be best, and the reason."""

    label: str
    reason: str


@dataclass(frozen=True)
class Field:
    """The candidates of a question.

    Attributes:
        running: those to be tried.
        ruled_out: those that cannot be best.
        grid_updates: updates of training everything with each seed, the same run counted once.
    """

    running: tuple[Candidate, ...]
    ruled_out: tuple[RuledOut, ...]
    grid_updates: tuple[int, ...]


def field_of(base: RunConfig, group_sizes: Sequence[int], seeds: Sequence[int]) -> Field:
    """Return every schedule with every group size, divided by what the exact schedule rules out.

    Raises:
        InputError: no round ends in time, or none within a sixteenth of the deadline.
    """
    running: list[Candidate] = []
    ruled_out: list[RuledOut] = []
    distinct: list[Candidate] = []
    for group_size in group_sizes:
        same_size: list[Candidate] = []
        for schedule in get_args(Schedule):
            candidate = _candidate(base, schedule, group_size, seeds)
            if candidate is None:
                ruled_out.append(RuledOut(f"{schedule} S={group_size}", "no round ends by the deadline"))
            elif twin := next((other for other in same_size if _same_run(candidate, other)), None):
                ruled_out.append(RuledOut(candidate.label, f"the same run as {twin.label}"))
            else:
                same_size.append(candidate)
        for candidate in same_size:
            better = next((other for other in same_size if _dominates(other, candidate)), None)
            if better is None:
                running.append(candidate)
            else:
                ruled_out.append(RuledOut(candidate.label, _reason(better, candidate)))
        distinct += same_size
    if not any(prospect.rounds[1] for candidate in running for prospect in candidate.prospects):
        allowed = "long enough for a first round to end within a sixteenth of it"
        raise InputError("deadline", base.deadline, allowed)
    updates = tuple(sum(c.prospects[i].updates[-1] for c in distinct) for i in range(len(seeds)))
    return Field(tuple(running), tuple(ruled_out), updates)


def _candidate(
    base: RunConfig, schedule: Schedule, group_size: int, seeds: Sequence[int]
) -> Candidate | None:
    """Return a candidate; None if no round ends in time."""
    runs = [with_schedule(base, schedule, group_size, seed) for seed in seeds]
    own = runs if any(map(_depends_on_seed, runs)) else runs[:1]
    try:
        timelines = [run.simulate() for run in own]
    except InputError as error:
        if error.parameter != "deadline":
            raise
        return None
    prospects = [Prospect.of(timeline, base.deadline) for timeline in timelines]
    return Candidate(
        schedule, group_size, timelines[0].delay, tuple(prospects * (len(seeds) // len(prospects)))
    )


def _depends_on_seed(config: RunConfig) -> bool:
    """Return whether another seed gives another schedule."""
    return config.make_fleet() is not None or config.policy.depends_on_seed


def _same_run(one: Candidate, other: Candidate) -> bool:
    pairs = zip(one.prospects, other.prospects, strict=True)
    return all(mine.identity == yours.identity for mine, yours in pairs)


def _dominates(one: Candidate, other: Candidate) -> bool:
    """Return whether ``one`` has at least as many rounds and updates with every seed, and fresher ones."""
    pairs = list(zip(one.prospects, other.prospects, strict=True))
    return all(_at_least_as_good(a, b) for a, b in pairs) and any(
        not _at_least_as_good(b, a) for a, b in pairs
    )


def _at_least_as_good(one: Prospect, other: Prospect) -> bool:
    return (
        one.rounds[-1] >= other.rounds[-1]
        and one.updates[-1] >= other.updates[-1]
        and one.mean_staleness <= other.mean_staleness
        and one.max_staleness <= other.max_staleness
    )


def _reason(better: Candidate, worse: Candidate) -> str:
    rounds = (
        f"the same {worse.rounds:,.0f} rounds"
        if better.rounds == worse.rounds
        else f"{better.rounds:,.0f} rounds instead of {worse.rounds:,.0f}"
    )
    return (
        f"{better.label} has {rounds}, and updates {better.mean_staleness:,.1f} rounds old instead of "
        f"{worse.mean_staleness:,.1f}"
    )
