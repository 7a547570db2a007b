"""slotwise reproduce."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from slotwise.cli.options import OUTPUT
from slotwise.cli.progress import Stopping, stop_on_signals
from slotwise.experiments.catalogue import PAPER, QUICK, Experiment, all_runs, selected
from slotwise.experiments.folder import Manifest, ReproductionFolder, Request
from slotwise.experiments.run import Run
from slotwise.experiments.training import (
    FETCH_CIFAR10,
    Failure,
    Job,
    JobsWatcher,
    can_train,
    train_jobs,
    unfinished,
)
from slotwise.experiments.work import evaluation_work_per_round, round_work
from slotwise.learning import History, Point
from slotwise.runs import Watcher
from slotwise.scenario import whole
from slotwise.schedule import Timeline

SOME_FAILED = 1
INTERRUPTED = 130


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME...]",
            help="all, a study (mnist, cifar10, readings, cifar10-iid) or single experiments "
            "(async-mnist, tradeoff, …).",
            show_default="all",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder of runs, figures and report; made, or gone on with.")
    ] = Path("reproduction"),
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A first look in a few minutes: MNIST, four group sizes, 3000 slots."),
    ] = False,
    seeds: Annotated[int, typer.Option(help="Seeds 0 to N-1; several give a mean and a band.")] = 1,
    deadline: Annotated[
        int | None, typer.Option(help="T, slots of every run. Default: the paper's.", show_default=False)
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Local trainings at once. Default: all cores. The result is the same."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Make the paper's figures, tables and verdicts on its claims: report.html and figures/ in --out.

    Runs what is missing, keeps what is finished, resumes what is broken. Ctrl-C ends cleanly; the same
    command goes on later.
    """
    threads = len(os.sched_getaffinity(0)) if workers is None else whole("workers", workers)
    whole("seeds", seeds)
    if deadline is not None:
        whole("deadline", deadline)
    folder = ReproductionFolder(out)
    chosen = selected(QUICK if quick else PAPER, names or ["all"])
    manifest = folder.ask(quick, _requests(chosen, deadline, seeds))
    with folder.locked(), stop_on_signals() as stopping:
        failures = _train(folder, manifest, chosen, seeds, threads, stopping, quiet)
        _report(folder, manifest, failures)
    if stopping.asked:
        typer.echo("interrupted; the same command goes on from here", err=True)
        raise typer.Exit(INTERRUPTED)
    if failures:
        raise typer.Exit(SOME_FAILED)


def _requests(chosen: Iterable[Experiment], deadline: int | None, seeds: int) -> dict[str, Request]:
    """What is asked for, by study; table and timeline are part of every report."""
    requests: dict[str, Request] = {}
    for experiment in chosen:
        slots = None if experiment.study == "schedule" else deadline
        request = Request(slots, seeds, (experiment.name,))
        known = requests.get(experiment.study)
        requests[experiment.study] = known.joined(request) if known else request
    return requests


def _train(
    folder: ReproductionFolder,
    manifest: Manifest,
    chosen: Iterable[Experiment],
    seeds: int,
    workers: int,
    stopping: Stopping,
    quiet: bool,
) -> tuple[Failure, ...]:
    names = {experiment.name for experiment in chosen}
    experiments = [e for e in manifest.experiments() if e.name in names]
    runs = all_runs(experiments, range(seeds))
    trainable = [run for run in runs if can_train(run)]
    if len(trainable) < len(runs):
        typer.echo(f"left out: {len(runs) - len(trainable)} runs. {FETCH_CIFAR10}", err=True)
    jobs = unfinished(folder, trainable)
    with JobsDisplay(jobs, len(runs), stopping, quiet=quiet) as display:
        return train_jobs(folder, jobs, workers=workers, watcher=display)


def _report(folder: ReproductionFolder, manifest: Manifest, failures: tuple[Failure, ...]) -> None:
    for failure in failures:
        typer.echo(f"{failure.run.name}: {failure.reason}", err=True)
    from slotwise.experiments.report import write_report  # noqa: PLC0415  (plotting libraries are slow to import)

    typer.echo(f"report: {write_report(folder, manifest, failures)}")


class JobsDisplay(JobsWatcher):
    """Two bars: all curves with the time left, and the one being trained. A line for each that has ended."""

    def __init__(self, jobs: tuple[Job, ...], runs: int, stopping: Stopping, *, quiet: bool) -> None:
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

    def started(self, job: Job) -> Watcher:
        """Show its bar."""
        number = self._jobs.index(job)
        self._bar.update(self._all, description=self._title(number + 1))
        self._bar.reset(self._one, description=job.run.name, total=None, text="preparing", visible=True)
        self.current = RunDisplay(self, job.run)
        return self.current

    def ended(self, job: Job) -> None:
        """A line that stays, and the whole of its work done."""
        if self.current and not self._stopping.asked:
            self._bar.console.print(self.current.summary(), highlight=False, soft_wrap=True)
        if not self._stopping.asked:
            self._ended += job.work
            self.progress(0.0)

    def wants_stop(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._stopping.asked

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
        text = "" if seconds is None else f"{_duration(seconds)} left"
        self._bar.update(self._all, completed=done, text=text)

    def _title(self, number: int) -> str:
        return f"curve {number} of {len(self._jobs)} ({self._runs - len(self._jobs)} were there)"


class RunDisplay(Watcher):
    """One run, told to the display of all."""

    def __init__(self, display: JobsDisplay, run: Run) -> None:
        self._display, self._run = display, run
        self._point: Point | None = None
        self._began = time.monotonic()

    def started(self, timeline: Timeline, resumed: History | None) -> None:
        """The schedule is known."""
        self._total = timeline.rounds
        self._work = round_work(self._run.parameters) + evaluation_work_per_round(
            self._run.parameters, timeline
        )
        if resumed:
            self._display.skip(resumed.round * self._work)
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
        return f"{self._run.name}: {self._figures()} ({_duration(time.monotonic() - self._began)})"

    def _figures(self) -> str:
        if self._point is None:
            return ""
        return f"loss {self._point.loss:.4g}, {self._point.accuracy:.1%}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
