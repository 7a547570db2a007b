"""BatchProgress: progress bars in the terminal while many jobs are trained."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from slotwise.observer import Observer

if TYPE_CHECKING:
    from slotwise.batch.job import Job, JobProgress

MOST_BARS = 8  # of single jobs: a machine may have more cores than a terminal has lines


class BatchProgress(Observer):
    """A bar for all jobs with the time left, one for each job in training, and a line for each that ended.

    ``wants_stop`` returns whether the user has asked to stop; ``quiet`` shows nothing.
    """

    def __init__(self, wants_stop: Callable[[], bool], *, quiet: bool = False) -> None:
        self.wants_stop = wants_stop  # type: ignore[method-assign]
        columns = (TextColumn("{task.description}"), BarColumn(12), TextColumn("{task.fields[text]}"))
        self._bar = Progress(*columns, console=Console(stderr=True), disable=quiet)
        self._all: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._all is not None:  # a bar that was never shown would leave a blank line
            self._bar.stop()

    def message(self, line: str) -> None:
        """Print a line above the bars."""
        if not self._bar.disable:
            self._bar.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def batch_started(self, jobs: Sequence[Job], finished: int) -> None:
        """Show the bar of all jobs."""
        self._active: dict[str, _Active] = {}
        self._count, self._finished, self._ended = len(jobs), finished, 0
        self._total, self._began = sum(job.work for job in jobs), time.monotonic()
        self._ended_work = self._resumed_work = 0.0
        if jobs:
            if self._all is not None:
                self._bar.remove_task(self._all)
            self._bar.start()
            self._all = self._bar.add_task("", total=self._total, text="")
            self._show_all()

    def rung_started(self, slot: int, candidates: Sequence[str]) -> None:
        """Print the candidates that a search trains up to a slot."""
        self.message(f"to slot {slot:,}: {', '.join(candidates)}")

    def job_started(self, job: Job) -> None:
        """Show the bar of a job, if there is room."""
        row = None
        if sum(active.row is not None for active in self._active.values()) < MOST_BARS:
            row = self._bar.add_task(job.run.name, total=None, text="preparing")
        self._active[job.run.name] = _Active(row)
        self._show_all()

    def job_progress(self, job: Job, progress: JobProgress) -> None:
        """Move the bar of a job; rounds of an earlier call are no measure of today's speed."""
        active, work = self._active[job.run.name], job.work * progress.done / max(1, progress.rounds)
        if active.work is None:
            self._resumed_work += work
        active.work = work
        if progress.loss is not None and progress.accuracy is not None:
            active.text = f"loss {progress.loss:.4g}, {progress.accuracy:.1%}"
        if active.row is not None:
            self._bar.update(active.row, completed=progress.done, total=progress.rounds, text=active.text)
        self._show_all()

    def job_ended(self, job: Job, reason: str | None) -> None:
        """Print a line with the result."""
        active = self._remove(job)
        if self.wants_stop():
            return
        self._ended += 1
        self._ended_work += job.work
        took = duration(time.monotonic() - active.began)
        self.message(f"{job.run.name}: {reason or active.text} ({took})")
        self._show_all()

    def job_retried(self, job: Job, reason: str) -> None:
        """Print a line with the reason."""
        self._remove(job)
        self.message(f"{job.run.name}: {reason}; it is resumed elsewhere from its last checkpoint")

    def _remove(self, job: Job) -> _Active:
        active = self._active.pop(job.run.name)
        if active.row is not None:
            self._bar.remove_task(active.row)
        return active

    def _show_all(self) -> None:
        if self._all is None:
            return
        done = self._ended_work + sum(active.work or 0.0 for active in self._active.values())
        if self._ended == self._count:
            text = ""
        elif self.wants_stop():
            text = "stopping"
        elif not self._active:
            text = "waiting for a worker"
        else:
            computed, seconds = done - self._resumed_work, time.monotonic() - self._began
            left = f", {duration((self._total - done) / computed * seconds)} left" if computed > 0 else ""
            text = f"{len(self._active)} in training{left}"
        before = f" ({self._finished} finished before)" if self._finished else ""
        title = f"{self._ended} of {self._count} runs{before}"
        self._bar.update(self._all, completed=done, description=title, text=text)


@dataclass
class _Active:
    """A job in training: its bar, its start, the work done and the text of its last progress."""

    row: TaskID | None
    began: float = field(default_factory=time.monotonic)
    work: float | None = None
    text: str = ""


def duration(seconds: float) -> str:
    """Return a duration in the largest unit that is not too coarse."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
