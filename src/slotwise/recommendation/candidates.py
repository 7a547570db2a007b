"""Candidates: every schedule with every group size, and what the exact schedule leaves of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
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
    """What the exact schedule says of a run before it is trained.

    Attributes:
        identity: equal for runs that are one and the same training under two names.
        rounds: completed by each sixteenth of the deadline, from 0 to 16.
        updates: applied by then.
        mean_staleness: of all updates, in rounds.
        max_staleness: of the oldest.
    """

    identity: str
    rounds: tuple[int, ...]
    updates: tuple[int, ...]
    mean_staleness: float
    max_staleness: int

    @classmethod
    def of(cls, timeline: Timeline, deadline: int) -> Prospect:
        """Read off a timeline."""
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
    """The slot by which a rung ends."""
    return deadline * sixteenths // SIXTEENTHS


def identity_of(timeline: Timeline) -> str:
    """What a training depends on of its timeline: who sends what, made from which model, in which round."""
    columns = (timeline.round, timeline.device, timeline.version, timeline.broadcast_end)
    digest = hashlib.sha256()
    for column in columns:
        digest.update(np.ascontiguousarray(column, dtype="<i8").tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Candidate:
    """A schedule with a group size, and what it promises with each seed.

    ``delay`` is the free one, found by the plan; None where it is just in time for each device.
    """

    schedule: Schedule
    group_size: int
    delay: int | None
    prospects: tuple[Prospect, ...]

    @property
    def name(self) -> str:
        """``idfl-S5``, as in the names of folders."""
        return f"{self.schedule}-S{self.group_size}"

    @property
    def label(self) -> str:
        """``idfl S=5``, for people."""
        return f"{self.schedule} S={self.group_size}"

    @property
    def rounds(self) -> float:
        """Within the deadline, mean over the seeds."""
        return fmean(prospect.rounds[-1] for prospect in self.prospects)

    @property
    def mean_staleness(self) -> float:
        """Mean over the seeds."""
        return fmean(prospect.mean_staleness for prospect in self.prospects)

    @property
    def max_staleness(self) -> int:
        """The oldest with any seed."""
        return max(prospect.max_staleness for prospect in self.prospects)

    def parameters(self, base: RunConfig, seed: int) -> RunConfig:
        """Of its run with one seed."""
        return with_schedule(base, self.schedule, self.group_size, seed)


@dataclass(frozen=True)
class RuledOut:
    """What cannot be best, and why."""

    label: str
    reason: str


@dataclass(frozen=True)
class Field:
    """All candidates: those in the running, those ruled out, and the SGD steps of training every one."""

    running: tuple[Candidate, ...]
    ruled_out: tuple[RuledOut, ...]
    grid_updates: tuple[int, ...]
    """Of each seed, runs that are one and the same counted once."""


def field_of(base: RunConfig, group_sizes: Sequence[int], seeds: Sequence[int]) -> Field:
    """Every schedule with every group size, the plan applied.

    Raises:
        InputError: no round ends in time, or none within a sixteenth of the deadline.
    """
    field = Field((), (), (0,) * len(seeds))
    for group_size in group_sizes:
        field = _joined(field, _field_of_size(base, group_size, seeds))
    if not any(prospect.rounds[1] for candidate in field.running for prospect in candidate.prospects):
        allowed = "long enough for a first round to end within a sixteenth of it"
        raise InputError("deadline", base.deadline, allowed)
    return field


def with_schedule(base: RunConfig, schedule: Schedule, group_size: int, seed: int) -> RunConfig:
    """``base`` with the schedule; the delay of idfl is the free one, and only sync has a participation."""
    participation = base.policy.participation if schedule == "sync" else "round-robin"
    return base.with_options(
        schedule=schedule, group_size=group_size, delay="auto", participation=participation, seed=seed
    )


def _joined(one: Field, other: Field) -> Field:
    updates = tuple(map(sum, zip(one.grid_updates, other.grid_updates, strict=True)))
    return Field((*one.running, *other.running), (*one.ruled_out, *other.ruled_out), updates)


def _field_of_size(base: RunConfig, group_size: int, seeds: Sequence[int]) -> Field:
    ruled_out: list[RuledOut] = []
    distinct: list[Candidate] = []
    for schedule in get_args(Schedule):
        candidate = _candidate(base, schedule, group_size, seeds)
        if candidate is None:
            ruled_out.append(RuledOut(f"{schedule} S={group_size}", "no round ends by the deadline"))
        elif twin := _twin(candidate, distinct):
            ruled_out.append(RuledOut(candidate.label, f"the same run as {twin.label}"))
        else:
            distinct.append(candidate)
    running = []
    for candidate in distinct:
        better = next((other for other in distinct if _dominates(other, candidate)), None)
        if better is None:
            running.append(candidate)
        else:
            ruled_out.append(RuledOut(candidate.label, _why(better, candidate)))
    updates = tuple(sum(c.prospects[i].updates[-1] for c in distinct) for i in range(len(seeds)))
    return Field(tuple(running), tuple(ruled_out), updates)


def _candidate(
    base: RunConfig, schedule: Schedule, group_size: int, seeds: Sequence[int]
) -> Candidate | None:
    """None if no round ends in time; group sizes and whatever else may be wrong are refused."""
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


def _depends_on_seed(parameters: RunConfig) -> bool:
    """Whether the schedule is another one with another seed."""
    return parameters.make_fleet() is not None or parameters.policy.depends_on_seed


def _twin(candidate: Candidate, others: Iterable[Candidate]) -> Candidate | None:
    mine = [prospect.identity for prospect in candidate.prospects]
    return next((o for o in others if [p.identity for p in o.prospects] == mine), None)


def _dominates(one: Candidate, other: Candidate) -> bool:
    """Whether ``one`` has with every seed as many rounds and updates at least, and fresher ones."""
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


def _why(better: Candidate, worse: Candidate) -> str:
    rounds = (
        f"the same {worse.rounds:,.0f} rounds"
        if better.rounds == worse.rounds
        else f"{better.rounds:,.0f} rounds instead of {worse.rounds:,.0f}"
    )
    return (
        f"{better.label} has {rounds}, and updates {better.mean_staleness:,.1f} rounds old instead of "
        f"{worse.mean_staleness:,.1f}"
    )
