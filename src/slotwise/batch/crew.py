"""conduct(jobs, crew, watcher): hand the points of a sweep out, and hear how they go.

A crew is whoever trains: processes of this machine, or a cluster. It may lose a member at any moment; the
point that member had goes on with another, from its last checkpoint.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from slotwise.batch.training import Failure, Job

PATIENCE = 0.2  # seconds after which a crew that has nothing to tell is left, to see whether to stop


@dataclass(frozen=True)
class Progress:
    """How far a point has come; loss and accuracy are there once it was evaluated."""

    job: Job
    done: int
    rounds: int
    loss: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Ended:
    """A point is finished, or was asked to stop, or has failed for ``reason``."""

    job: Job
    reason: str | None


@dataclass(frozen=True)
class Lost:
    """Whoever trained a point has gone."""

    job: Job
    reason: str


Event = Progress | Ended | Lost


class Crew(Protocol):
    """Whoever trains."""

    losses_allowed: int
    """How often a point may lose its trainer and be given to another."""

    @property
    def busy(self) -> int:
        """How many points are being trained."""

    def give(self, job: Job, waiting: int) -> bool:
        """Train a job, one of ``waiting``; False if nobody is free."""

    def wait(self, seconds: float) -> Sequence[Event]:
        """What has happened, as soon as something has."""

    def stop(self) -> None:
        """Let all points end early, with a checkpoint; `wait` tells when they have."""

    def close(self) -> None:
        """Let everybody go, whatever they are doing."""


class SweepWatcher:
    """What a caller is told and asked while a sweep goes on; this one stays silent."""

    def started(self, job: Job) -> None:
        """A point was given to somebody."""

    def progressed(self, progress: Progress) -> None:
        """A point has come further."""

    def ended(self, job: Job, reason: str | None) -> None:
        """A point has ended, and why if that was bad."""

    def lost(self, job: Job, reason: str) -> None:
        """A point goes on elsewhere, from its last checkpoint."""

    def wants_stop(self) -> bool:
        """Whether to end early."""
        return False


def conduct(jobs: Iterable[Job], crew: Crew, watcher: SweepWatcher) -> tuple[Failure, ...]:
    """Train all jobs, the largest first, so that no long one is left for the end."""
    conductor = _Conductor(jobs, crew, watcher)
    try:
        conductor.play()
    finally:
        crew.close()
    return tuple(conductor.failures)


class _Conductor:
    """One call of `conduct`."""

    def __init__(self, jobs: Iterable[Job], crew: Crew, watcher: SweepWatcher) -> None:
        self._waiting = deque(sorted(jobs, key=lambda job: job.work, reverse=True))
        self._crew, self._watcher = crew, watcher
        self._losses: Counter[str] = Counter()
        self._stopping = False
        self.failures: list[Failure] = []

    def play(self) -> None:
        while self._waiting or self._crew.busy:
            if self._watcher.wants_stop() and not self._stopping:
                self._stopping = True
                self._waiting.clear()
                self._crew.stop()
            self._hand_out()
            for event in self._crew.wait(PATIENCE):
                self._hear(event)

    def _hand_out(self) -> None:
        while self._waiting and self._crew.give(self._waiting[0], len(self._waiting)):
            self._watcher.started(self._waiting.popleft())

    def _hear(self, event: Event) -> None:
        match event:
            case Progress():
                self._watcher.progressed(event)
            case Ended(job, reason):
                self._end(job, reason)
            case Lost(job, reason):
                self._lose(job, reason)

    def _end(self, job: Job, reason: str | None) -> None:
        if reason is not None:
            self.failures.append(Failure(job.run, reason))
        self._watcher.ended(job, reason)

    def _lose(self, job: Job, reason: str) -> None:
        self._losses[job.run.name] += 1
        times = self._losses[job.run.name]
        if self._stopping or times > self._crew.losses_allowed:
            self._end(job, f"{reason}, {times} times" if times > 1 else reason)
        else:
            self._watcher.lost(job, reason)
            self._waiting.appendleft(job)
