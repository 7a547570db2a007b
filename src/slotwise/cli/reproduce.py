"""slotwise reproduce."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from slotwise.batch.training import (
    FETCH_CIFAR10,
    Failure,
    can_train,
    train_jobs,
    unfinished,
)
from slotwise.cli.jobs import INTERRUPTED, SOME_FAILED, JobsDisplay
from slotwise.cli.option_groups import with_option_groups
from slotwise.cli.options import OUTPUT
from slotwise.cli.power_options import PowerOptions
from slotwise.cli.progress import Stopping, stop_on_signals
from slotwise.costs import Powers
from slotwise.errors import InputError
from slotwise.paper.catalogue import PAPER, QUICK, Experiment, all_runs, selected, with_deadline
from slotwise.paper.folder import Manifest, ReproductionFolder, Request
from slotwise.scenario import whole


@with_option_groups
def reproduce(
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="all, a study (mnist, cifar10, readings, cifar10-iid) or single experiments "
            "(async-mnist, tradeoff, …).",
            show_default="all",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder of runs/, figures/ and report.html; made, or gone on with.")
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
    power: PowerOptions,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.", rich_help_panel=OUTPUT)] = False,
) -> None:
    """Make the paper's figures, tables and verdicts on its claims, in one page.

    Runs what is missing, keeps what is finished, resumes what is broken.

    Ctrl-C ends cleanly; the same command goes on later.
    """
    threads = len(os.sched_getaffinity(0)) if workers is None else whole("workers", workers)
    whole("seeds", seeds)
    if deadline is not None:
        whole("deadline", deadline)
    powers = power.powers()
    folder = ReproductionFolder(out)
    chosen = selected(QUICK if quick else PAPER, names or ["all"])
    if deadline is not None:
        _check_deadline(chosen, deadline)
    with folder.locked(), stop_on_signals() as stopping:
        manifest = folder.ask(quick, _requests(chosen, deadline, seeds))
        failures = _train(folder, manifest, chosen, seeds, threads, stopping, quiet)
        _report(folder, manifest, failures, files=not stopping.asked, powers=powers)
    if stopping.asked:
        typer.echo("interrupted; the same command goes on from here", err=True)
        raise typer.Exit(INTERRUPTED)
    if failures:
        raise typer.Exit(SOME_FAILED)


def _check_deadline(chosen: Iterable[Experiment], deadline: int) -> None:
    """Refuse a deadline by which some run would have no round, before anything is written."""
    experiments = [with_deadline(experiment, deadline) for experiment in chosen]
    scenarios = [run.parameters.channel for run in all_runs(experiments, [0])]
    needed = max((s.compute_slots + s.communication_slots for s in scenarios), default=1)
    if deadline < needed:
        raise InputError("deadline", deadline, f"at least {needed}, the slots of the longest first round")


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


def _report(
    folder: ReproductionFolder,
    manifest: Manifest,
    failures: tuple[Failure, ...],
    *,
    files: bool,
    powers: Powers | None,
) -> None:
    for failure in failures:
        typer.echo(f"{failure.run.name}: {failure.reason}", err=True)
    from slotwise.paper.report import write_report  # noqa: PLC0415  (plotting libraries are slow to import)

    typer.echo(f"report: {write_report(folder, manifest, failures, files=files, powers=powers)}")
