"""slotwise compare."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from slotwise.batch.compare_file import Comparison, read_comparison
from slotwise.batch.compare_report import CompareFolder, EntryResult, read_results, write_results
from slotwise.batch.training import FETCH_CIFAR10, Failure, can_train, train_jobs, unfinished
from slotwise.cli.jobs import INTERRUPTED, SOME_FAILED, JobsDisplay
from slotwise.cli.options import OUTPUT
from slotwise.errors import UserError
from slotwise.report.cost_tables import table_console
from slotwise.report.progress import Stop, stop_on_signals
from slotwise.scenario import whole


def compare(
    file: Annotated[Path, typer.Argument(help="TOML file: common options, seeds, and a table for each run.")],
    out: Annotated[
        Path, typer.Option(help="Folder of runs, tables and curves; made, or gone on with.")
    ] = Path("comparison"),
    workers: Annotated[
        int | None,
        typer.Option(help="Local trainings at once. Default: all cores. The result is the same."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Train several runs with several seeds, and hold them against each other.

    The file has the options of slotwise train at its top, a list of seeds, if wanted a table of powers in
    watts, and a table for each run with its name and its own options. examples/compare/ has three.

    Runs what is missing, keeps what is finished, resumes what is broken.

    Ctrl-C ends cleanly; the same command goes on later.
    """
    threads = len(os.sched_getaffinity(0)) if workers is None else whole("workers", workers)
    comparison = read_comparison(file)
    if not all(can_train(run) for run in comparison.runs):
        raise UserError(f"{file}: {FETCH_CIFAR10}")
    folder = CompareFolder(out)
    folder.begin()
    with folder.locked(), stop_on_signals() as stopping:
        failures = _train(folder, comparison, threads, stopping, quiet)
        results = read_results(folder, comparison)
        _report(folder, comparison, results, failures)
    if stopping.requested:
        typer.echo("interrupted; the same command goes on from here", err=True)
        raise typer.Exit(INTERRUPTED)
    if any(result.status != "finished" for entry in results for result in entry.results):
        raise typer.Exit(SOME_FAILED)


def _train(
    folder: CompareFolder, comparison: Comparison, workers: int, stopping: Stop, quiet: bool
) -> tuple[Failure, ...]:
    jobs = unfinished(folder, comparison.runs)
    with JobsDisplay(jobs, len(comparison.runs), stopping, quiet=quiet) as display:
        return train_jobs(folder, jobs, workers=workers, watcher=display)


def _report(
    folder: CompareFolder,
    comparison: Comparison,
    results: Sequence[EntryResult],
    failures: Sequence[Failure],
) -> None:
    reasons = {failure.run.name: failure.reason for failure in failures}
    for entry in results:
        for result in entry.results:
            if result.status != "finished":
                reason = reasons.get(result.run.name, result.status)
                typer.echo(f"{result.run.name}: {reason}", err=True)
    with_joules = comparison.powers is not None
    table_console().print(_table(results, with_joules=with_joules))
    paths = write_results(folder.path, results, with_joules=with_joules)
    typer.echo("wrote " + ", ".join(map(str, paths)))


def _table(results: Sequence[EntryResult], *, with_joules: bool) -> Table:
    table = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        caption="means over the finished seeds; late loss: mean of the last quarter of the slots; "
        "stale: mean age of an update, in rounds",
        caption_justify="left",
    )
    table.add_column("run", overflow="fold", min_width=8)
    headings = ["seeds", "loss", "late\nloss", "acc", "rounds", "updates", "lost", "stale"]
    for heading in headings + ["joules"] * with_joules:
        table.add_column(heading, justify="right", no_wrap=True)
    for entry in results:
        seeds = f"{entry.finished}/{len(entry.results)}"
        table.add_row(entry.name, seeds, *_cells(entry)[: 7 + with_joules])
    return table


def _cells(entry: EntryResult) -> list[str]:
    if entry.figures is None:
        return ["–"] * 8
    loss, late_loss, accuracy, rounds, updates, lost, staleness, joules = entry.figures
    counts = [f"{number:,.0f}" for number in (rounds, updates, lost)]
    spent = "–" if isnan(joules) else f"{joules:,.4g}" if joules < 1000 else f"{joules:,.0f}"
    return [f"{loss:.4f}", f"{late_loss:.4f}", f"{accuracy:.1%}", *counts, f"{staleness:.2f}", spent]
