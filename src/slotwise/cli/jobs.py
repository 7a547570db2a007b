"""What a person sees while many runs are trained one after another."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from slotwise.batch.job import Run
from slotwise.batch.training import Job, JobsWatcher
from slotwise.batch.work import evaluation_work_per_round, round_work
from slotwise.learning import History, Point
from slotwise.observer import Observer
from slotwise.report.progress import Stop
from slotwise.schedule import Timeline

SOME_FAILED = 1
HOPELESS = 3  # it would end like this again: services do not start it anew
INTERRUPTED = 130


class JobsDisplay(JobsWatcher):
    """Two bars: all curves with the time left, and the one being trained. A line for each that has ended."""

    def __init__(self, jobs: tuple[Job, ...], runs: int, stopping: Stop, *, quiet: bool) -> None:
        self._jobs, self._runs, self._stopping = jobs, runs, stopping
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[text]}"),
            console=Console(stderr=True),
            disable=quiet or not jobs,
        )
        self._ended = 0.0
        self._skipped = 0.0
        self.current: RunDisplay | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        self._began = time.monotonic()
        total = sum(job.work for job in self._jobs)
        self._all = self._bar.add_task(self._title(0), total=total, text="")
        self._one = self._bar.add_task("", total=None, text="", visible=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def started(self, job: Job) -> Observer:
        """Show its bar."""
        number = self._jobs.index(job)
        self._bar.update(self._all, description=self._title(number + 1))
        self._bar.reset(self._one, description=job.run.name, total=None, text="preparing", visible=True)
        self.current = RunDisplay(self, job.run)
        return self.current

    def ended(self, job: Job, reason: str | None) -> None:
        """A line that stays, unless it has failed, which is told at the end; and its work done."""
        self._bar.update(self._one, visible=False)
        if self.current and reason is None and not self._stopping.requested:
            self._bar.console.print(self.current.summary(), highlight=False, soft_wrap=True)
        if not self._stopping.requested:
            self._ended += job.work
            self.progress(0.0)

    def wants_stop(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._stopping.requested

    def skip(self, work: float) -> None:
        """What a resumed run had computed before: done, but no measure of today's speed."""
        self._skipped += work

    def advance(self, rounds: int, total: int, text: str, work: float) -> None:
        """The current run has come so far."""
        self._bar.update(self._one, completed=rounds, total=total, text=text)
        self.progress(work)

    def progress(self, current: float) -> None:
        """Move the upper bar; ``current`` is what the current run has done of its work."""
        done, total = self._ended + current, sum(job.work for job in self._jobs)
        computed = done - self._skipped
        seconds = (total - done) / computed * (time.monotonic() - self._began) if computed > 0 else None
        text = "" if seconds is None else f"{duration(seconds)} left"
        self._bar.update(self._all, completed=done, text=text)

    def _title(self, number: int) -> str:
        return f"curve {number} of {len(self._jobs)} ({self._runs - len(self._jobs)} were there)"


class RunDisplay(Observer):
    """One run, told to the display of all."""

    def __init__(self, display: JobsDisplay, run: Run) -> None:
        self._display, self._run = display, run
        self._point: Point | None = None
        self._began = time.monotonic()

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:
        """The schedule is known."""
        self._total = timeline.rounds
        self._work = round_work(self._run.parameters) + evaluation_work_per_round(
            self._run.parameters, timeline
        )
        if resumed:
            self._display.skip(resumed.rounds * self._work)
            self._point = resumed.points[-1] if resumed.points else None

    def round_done(self, round_number: int) -> None:
        """Move both bars."""
        done = round_number + 1
        self._display.advance(done, self._total, self._figures(), done * self._work)

    def evaluated(self, point: Point) -> None:
        """Show the newest figures from now on."""
        self._point = point

    def wants_stop(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._display.wants_stop()

    def summary(self) -> str:
        """How it ended, in a line."""
        return f"{self._run.name}: {self._figures()} ({duration(time.monotonic() - self._began)})"

    def _figures(self) -> str:
        if self._point is None:
            return ""
        return f"loss {self._point.loss:.4g}, {self._point.accuracy:.1%}"


def duration(seconds: float) -> str:
    """In the largest unit that is not too coarse."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
