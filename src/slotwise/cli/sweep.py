"""slotwise sweep."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from slotwise.batch.cluster import RayCrew
from slotwise.batch.connection import connect
from slotwise.batch.crew import Crew, conduct
from slotwise.batch.facts import facts
from slotwise.batch.figure import sweep_figure
from slotwise.batch.folder import SweepFolder
from slotwise.batch.grid import Sweep, read_sweep
from slotwise.batch.pool import LocalCrew
from slotwise.batch.table import SweepResults, read_results, write_tables
from slotwise.batch.training import FETCH_CIFAR10, Failure, can_train, unfinished
from slotwise.cli.jobs import INTERRUPTED, SOME_FAILED
from slotwise.cli.options import OUTPUT
from slotwise.cli.sweep_display import SweepDisplay
from slotwise.cli.sweep_table import results_table
from slotwise.errors import UserError
from slotwise.files import write_atomically
from slotwise.report.cost_tables import table_console
from slotwise.report.curves.plotting import draw_figure
from slotwise.report.progress import Stop, stop_on_signals
from slotwise.runs.execution import SECONDS_BETWEEN_CHECKPOINTS, check_interval
from slotwise.scenario import whole

# An S=1 run's checkpoint has megabytes, and a cluster's come to one machine.
SECONDS_ON_A_CLUSTER = 30.0
Hire = Callable[[int], Crew]
"""Makes the crew for so many points."""


def sweep(
    file: Annotated[
        Path, typer.Argument(help="TOML file: options of slotwise train, any of them a list, and seeds.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of points, tables and curves; made, or gone on with.")],
    workers: Annotated[
        int | None,
        typer.Option(
            help="Local trainings at once, over all points. Default: all cores. The result is the same."
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="auto|ADDRESS",
            help="Train on this Ray cluster: HOST:PORT of its head, ray://HOST:PORT, or auto for the one "
            "that RAY_ADDRESS or this machine knows. None is started.",
        ),
    ] = None,
    checkpoint_every: Annotated[
        float | None,
        typer.Option(
            help="Seconds between checkpoints of a point, which is what a crash costs at most. "
            f"Default: {SECONDS_BETWEEN_CHECKPOINTS:g}, with --ray {SECONDS_ON_A_CLUSTER:g}.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Train every combination of a grid with every seed, on all cores or on a Ray cluster.

    An option of the file that is a list is an axis of the grid: group-size = [1, 5, 10].

    For options that are lists themselves an axis is a list of lists: channels = [[10, 20], [4]].

    Runs what is missing, keeps what is finished, resumes what is broken. slotwise show draws the result.

    Ctrl-C ends cleanly; the same command goes on later.
    """
    if workers is not None:
        whole("workers", workers)
    if checkpoint_every is not None:
        check_interval(checkpoint_every)
    grid = read_sweep(file)
    _check_trainable(file, grid)
    folder = SweepFolder(out)
    folder.check(grid)
    # Connected before signals are handled: Ray puts its own handler into the place of whoever was there.
    hire = (
        _local(folder, workers, checkpoint_every)
        if ray is None
        else _remote(ray, folder, workers, checkpoint_every)
    )
    with folder.locked(), stop_on_signals() as stopping:
        folder.begin(grid)
        _tell_left_out(file, grid)
        failures = _train(folder, grid, hire, stopping, quiet)
        results = read_results(folder)
        _report(folder, results, failures, stopped=stopping.requested)
    if stopping.requested:
        typer.echo("interrupted; the same command goes on from here", err=True)
        raise typer.Exit(INTERRUPTED)
    if any(result.status != "finished" for result in results.results):
        raise typer.Exit(SOME_FAILED)


def _local(folder: SweepFolder, workers: int | None, checkpoint_every: float | None) -> Hire:
    cores = len(os.sched_getaffinity(0)) if workers is None else workers
    seconds = SECONDS_BETWEEN_CHECKPOINTS if checkpoint_every is None else checkpoint_every
    return lambda _: LocalCrew(folder.path, cores, seconds)


def _remote(address: str, folder: SweepFolder, workers: int | None, checkpoint_every: float | None) -> Hire:
    connected = connect(address)
    seconds = SECONDS_ON_A_CLUSTER if checkpoint_every is None else checkpoint_every
    return lambda points: RayCrew(connected, folder, points, workers, seconds)


def _check_trainable(file: Path, grid: Sweep) -> None:
    """Refuse what would fail in every process."""
    if not all(can_train(run) for run in grid.runs):
        raise UserError(f"{file}: {FETCH_CIFAR10}")
    if any(run.parameters.model.backend == "torch" for run in grid.runs) and find_spec("torch") is None:
        raise UserError(f"{file}: PyTorch is not installed: pip install 'slotwise[torch]'")


def _tell_left_out(file: Path, grid: Sweep) -> None:
    left_out = grid.left_out
    if left_out is not None:
        points = f"{left_out.points} points that cannot be"
        typer.echo(f"{file}: left out {points}; the first: {left_out.reason}", err=True)


def _train(folder: SweepFolder, grid: Sweep, hire: Hire, stopping: Stop, quiet: bool) -> tuple[Failure, ...]:
    jobs = unfinished(folder, grid.runs, extent=facts)
    with SweepDisplay(jobs, len(grid.runs), stopping, quiet=quiet) as display:
        return conduct(jobs, hire(len(jobs)), display)


def _report(
    folder: SweepFolder, results: SweepResults, failures: Sequence[Failure], *, stopped: bool
) -> None:
    reasons = {failure.run.name: failure.reason for failure in failures}
    statuses = {result.point.run: result.status for result in results.results}
    for name, status in statuses.items():
        if name in reasons or status == "diverged" or (status != "finished" and not stopped):
            typer.echo(f"{name}: {reasons.get(name, status)}", err=True)
    table_console().print(results_table(results))
    paths = write_tables(folder.path, results)
    figure = sweep_figure(results)
    if figure.panels:
        paths.append(folder.path / "curves.png")
        write_atomically(paths[-1], draw_figure(figure, "png"))
    typer.echo("wrote " + ", ".join(map(str, paths)))
