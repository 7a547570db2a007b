"""What a person sees while a sweep goes on."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from slotwise.batch import crew
from slotwise.batch.training import Job
from slotwise.cli.jobs import duration
from slotwise.report.progress import Stop

MOST_BARS = 8  # of single points: a machine may have more cores than a terminal has lines


class SweepDisplay(crew.SweepWatcher):
    """A bar for all points with the time left, one for each that is being trained, a line for each ended."""

    def __init__(self, jobs: tuple[Job, ...], runs: int, stopping: Stop, *, quiet: bool) -> None:
        self._jobs, self._runs, self._stopping, self._quiet = jobs, runs, stopping, quiet
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[text]}"),
            console=Console(stderr=True),
            disable=quiet or not jobs,
        )
        self._active: dict[str, _Active] = {}
        self._total = sum(job.work for job in jobs)
        self._ended_work, self._skipped, self._ended = 0.0, 0.0, 0

    def __enter__(self) -> Self:
        self._bar.start()
        self._began = time.monotonic()
        self._all = self._bar.add_task(self._title(), total=self._total, text="waiting for a worker")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def started(self, job: Job) -> None:
        """Show its bar, if there is room."""
        row = None
        if sum(active.row is not None for active in self._active.values()) < MOST_BARS:
            row = self._bar.add_task(job.run.name, total=None, text="preparing")
        self._active[job.run.name] = _Active(job, row)
        self._show_all()

    def progressed(self, progress: crew.Progress) -> None:
        """Move its bar."""
        active = self._active[progress.job.run.name]
        if active.progress is None:
            self._skipped += progress.job.work * progress.done / max(1, progress.rounds)
        active.progress = progress
        if active.row is not None:
            self._bar.update(
                active.row, completed=progress.done, total=progress.rounds, text=active.figures()
            )
        self._show_all()

    def ended(self, job: Job, reason: str | None) -> None:
        """A line that stays."""
        active = self._leave(job)
        if self._stopping.requested:
            return
        self._ended += 1
        self._ended_work += job.work
        told = reason or active.figures()
        self._say(f"{job.run.name}: {told} ({duration(time.monotonic() - active.began)})")
        self._show_all()

    def lost(self, job: Job, reason: str) -> None:
        """A line that stays."""
        self._leave(job)
        self._say(f"{job.run.name}: {reason}; it goes on elsewhere from its last checkpoint")

    def wants_stop(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._stopping.requested

    def _leave(self, job: Job) -> _Active:
        active = self._active.pop(job.run.name)
        if active.row is not None:
            self._bar.remove_task(active.row)
        return active

    def _say(self, line: str) -> None:
        if not self._quiet:
            self._bar.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _show_all(self) -> None:
        done = self._ended_work + sum(active.work for active in self._active.values())
        self._bar.update(self._all, completed=done, description=self._title(), text=self._state(done))

    def _state(self, done: float) -> str:
        if self._ended == len(self._jobs):
            return ""
        if self._stopping.requested:
            return "stopping"
        if not self._active:
            return "waiting for a worker"
        computed, seconds = done - self._skipped, time.monotonic() - self._began
        left = f", {duration((self._total - done) / computed * seconds)} left" if computed > 0 else ""
        return f"{len(self._active)} at work{left}"

    def _title(self) -> str:
        there = self._runs - len(self._jobs)
        return f"{self._ended} of {len(self._jobs)} points" + (f" ({there} were there)" if there else "")


class _Active:
    """A point that is being trained."""

    def __init__(self, job: Job, row: TaskID | None) -> None:
        self.job, self.row = job, row
        self.progress: crew.Progress | None = None
        self.began = time.monotonic()

    @property
    def work(self) -> float:
        """Done so far."""
        progress = self.progress
        return self.job.work * progress.done / max(1, progress.rounds) if progress else 0.0

    def figures(self) -> str:
        """The newest loss and accuracy."""
        progress = self.progress
        if progress is None or progress.loss is None or progress.accuracy is None:
            return ""
        return f"loss {progress.loss:.4g}, {progress.accuracy:.1%}"
