"""Progress bars in a terminal for a training, an estimation and a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from slotwise.base.observer import BaseObserver, Observers, Stop
from slotwise.learning import History, Point
from slotwise.report.number_text import loss_text, percent
from slotwise.runs import Observer, RunConfig, RunFolder
from slotwise.schedule import Timeline

if TYPE_CHECKING:
    from slotwise.batch.job import Job, JobProgress

STARTING = "starting"
COMPILING = "starting; built-in networks are compiled at their first use, up to half a minute"
MOST_BARS = 8  # of single jobs: a machine may have more cores than a terminal has lines


class _Bars(BaseObserver):
    """Progress bars that end with the block; those that were never shown would leave a blank line."""

    _bar: Progress

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def _end(self) -> None:
        """Leave the bars as they are."""
        if self._bar.live.is_started:
            self._bar.refresh()  # stop does not draw the last state in a notebook
            self._bar.stop()


class StageProgress(_Bars):
    """One progress bar for each stage of the work."""

    def __init__(self, *, quiet: bool = False) -> None:
        title, columns = TextColumn("{task.description:>9}"), (MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(title, BarColumn(), *columns, console=Console(stderr=True), disable=quiet)
        self._rows: dict[str, TaskID] = {}

    def progress(self, stage: str, done: int, total: int) -> None:
        """Move the bar of a stage."""
        self._bar.start()
        if stage not in self._rows:
            self._rows[stage] = self._bar.add_task(stage, total=total)
        self._bar.update(self._rows[stage], completed=done)


class _BarAndLine(Progress):
    """A bar with a line of figures below it: side by side they are too wide for eighty columns."""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield Text("  ".join(task.fields["text"] for task in self.tasks), style="dim", no_wrap=True)


class TrainingProgress(_Bars, Observer):
    """A progress bar: slots, rounds, loss, accuracy, staleness, updates per second, time left.

    ``has_started`` stays false if there was nothing to train.
    """

    def __init__(self, stop: Stop, *, quiet: bool = False) -> None:
        self._stop, self._quiet = stop, quiet
        self._bar = self._new_bar()
        self._point: Point | None = None
        self._starting = STARTING
        self.has_started = False

    def _new_bar(self) -> Progress:
        return _BarAndLine(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=self._quiet,
        )

    def notice(self, message: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(message, highlight=False, markup=False, soft_wrap=True)

    def run_opened(self, folder: RunFolder, config: RunConfig) -> None:
        """Remember whether the run trains a built-in network on compiled kernels."""
        is_own = config.model.is_own or "task_object" in folder.description()
        self._starting = STARTING if is_own or config.model.backend == "torch" else COMPILING

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:
        """Show the bar at its first round."""
        self.has_started = True
        self._bar.start()
        self._timeline = timeline
        self._first = resumed.rounds if resumed else 0
        self._round = self._first - 1
        self._began = time.monotonic()
        if resumed and resumed.points:
            self._point = resumed.points[-1]
        slot = int(timeline.broadcast_end[self._first - 1]) if self._first else 0
        name = f"{timeline.schedule} S={timeline.scenario.group_size_text}"
        self._row = self._bar.add_task(name, total=timeline.last_slot, completed=slot, text=self._starting)

    def round_done(self, round_number: int) -> None:
        """Advance the progress bar."""
        self._round, timeline = round_number, self._timeline
        if round_number >= timeline.rounds:  # it is decided while it is trained
            self._show_decided_round(round_number)
            return
        slot = int(timeline.broadcast_end[round_number])
        parts = [f"slot {slot}/{timeline.last_slot}", f"round {round_number + 1}/{timeline.rounds}"]
        if self._point is not None:
            parts += [f"loss {loss_text(self._point.loss)}", f"acc {percent(self._point.accuracy)}"]
        stale = int(timeline.staleness[timeline.uplinks(round_number)].max(initial=0))
        done = int(timeline.round_offsets[round_number + 1] - timeline.round_offsets[self._first])
        speed = done / max(1e-9, time.monotonic() - self._began)
        text = "  ".join([*parts, f"stale {stale}", f"{speed:.0f} upd/s"])
        self._bar.update(self._row, completed=slot, text=text)

    def _show_decided_round(self, round_number: int) -> None:
        """Show a round of a schedule of which only the deadline is known."""
        parts, slot = [f"round {round_number + 1}"], 0
        if self._point is not None:
            slot = self._point.slot
            parts += [f"loss {loss_text(self._point.loss)}", f"acc {percent(self._point.accuracy)}"]
        total = self._timeline.scenario.deadline
        self._bar.update(self._row, completed=slot, total=total, text="  ".join(parts))

    def evaluated(self, point: Point) -> None:
        """Show the newest loss and accuracy from now on."""
        self._point = point
        if self._round >= 0:
            self.round_done(self._round)

    def wants_stop(self) -> bool:
        """Return whether Ctrl-C was pressed."""
        return self._stop.requested


class BatchProgress(_Bars):
    """A bar for all jobs with the time left, one for each job in training, and a line for each that ended.

    It has the callbacks of a `BatchObserver` and of a `SearchObserver`. ``wants_stop`` returns whether the
    user has asked to stop; ``quiet`` shows nothing.
    """

    def __init__(self, wants_stop: Callable[[], bool], *, quiet: bool = False) -> None:
        self.wants_stop = wants_stop  # type: ignore[method-assign]
        self._quiet = quiet
        self._bar = self._new_bar()
        self._all: TaskID | None = None
        self._stopping = False

    def _new_bar(self) -> Progress:
        columns = (TextColumn("{task.description}"), BarColumn(12), TextColumn("{task.fields[text]}"))
        return Progress(*columns, console=Console(stderr=True), disable=self._quiet)

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
        self._stopping = False
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
            active.text = f"loss {loss_text(progress.loss, '.4g')}, {percent(progress.accuracy)}"
        if active.row is not None:
            self._bar.update(active.row, completed=progress.done, total=progress.rounds, text=active.text)
        self._show_all()

    def job_ended(self, job: Job, reason: str | None) -> None:
        """Print a line with the result."""
        active = self._remove(job)
        if self._is_stopping:
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

    def batch_stopping(self) -> None:
        """Jobs that end from now on were stopped, not finished."""
        self._stopping = True
        self._show_all()

    @property
    def _is_stopping(self) -> bool:
        return self._stopping or self.wants_stop()

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
        elif self._is_stopping:
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


class _TrainingBar(TrainingProgress):
    """The bar of a training that ends by itself, for programs without a block around it."""

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:
        """Show the bar at its first round, without that of an earlier training."""
        self._bar, self._point = self._new_bar(), None
        super().run_started(timeline, resumed)

    def training_ended(self, rounds: int) -> None:  # noqa: ARG002
        """Leave the bar as it is."""
        self._end()


class _BatchBar(BatchProgress):
    """The bars of a batch that end by themselves."""

    def batch_started(self, jobs: Sequence[Job], finished: int) -> None:
        """Show new bars: rich would draw those of an earlier batch over what was printed since."""
        self._bar, self._all = self._new_bar(), None
        super().batch_started(jobs, finished)

    def batch_ended(self) -> None:
        """Leave the bars as they are."""
        self._end()


class ProgressBar(Observers):
    """An observer that shows progress bars on stderr, or in a notebook if ipywidgets is installed.

    For `train`, `run` and `resume`: slots, rounds, the last loss and accuracy, updates per second and the
    time left. For `run_batch`, `recommend` and `reproduce`: the runs in training and the time left for all.
    Ctrl-C interrupts, as without a bar.
    """

    def __init__(self) -> None:
        super().__init__(_TrainingBar(Stop()), _BatchBar(lambda: False))

    def __reduce__(self) -> tuple[type[ProgressBar], tuple[()]]:
        return ProgressBar, ()  # a terminal cannot be pickled: a copy begins with new bars


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
