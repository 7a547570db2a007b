"""slotwise train."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from slotwise.cli.fleet_options import FleetFlags
from slotwise.cli.option_groups import with_option_groups
from slotwise.cli.options import OUTPUT, Quiet, Workers
from slotwise.cli.power_options import PowerOptions
from slotwise.cli.progress import TrainingDisplay, stop_on_signals
from slotwise.cli.run_options import RunFlags, parameters_of
from slotwise.cli.spending_tables import spending_line
from slotwise.energy import Powers
from slotwise.errors import InputError, UserError
from slotwise.runs import RunConfig, RunResult, read_toml
from slotwise.runs import resume as resume_run
from slotwise.runs import run as start_run
from slotwise.runs.execution import SECONDS_BETWEEN_CHECKPOINTS, check_interval
from slotwise.scenario import whole
from slotwise.spending import Spending


@with_option_groups
def train(
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run: created, must not hold another.", rich_help_panel=OUTPUT),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Go on with the run in this folder; it keeps its parameters.", rich_help_panel=OUTPUT
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run in --out.", rich_help_panel=OUTPUT)
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file with any of the options; flags win.", rich_help_panel=OUTPUT),
    ] = None,
    workers: Workers = None,
    checkpoint_every: Annotated[
        float,
        typer.Option(
            help="Seconds between checkpoints, which is what a crash costs at most; 0: after every round.",
            rich_help_panel=OUTPUT,
        ),
    ] = SECONDS_BETWEEN_CHECKPOINTS,
    tensorboard: Annotated[
        Path | None,
        typer.Option(help="Also write the curve for TensorBoard into this folder.", rich_help_panel=OUTPUT),
    ] = None,
    quiet: Quiet = False,
    run: RunFlags,
    fleet: FleetFlags,
    power: PowerOptions,
) -> None:
    """Train a model along the schedule, exactly as the devices and the server would.

    The defaults are the paper's MNIST case with a group size of 10; with --data cifar10 they are its CIFAR-10
    case (N=20, S=5, 4 compute slots, T=100000, H=8). Ctrl-C ends early with a checkpoint.
    """
    given = {**run.given(), **fleet.given()}
    fleet.refuse_beside(run.compute_slots, run.samples_per_slot)
    threads = None if workers is None else whole("workers", workers)
    _check_tensorboard(tensorboard)
    session = _Session(threads, check_interval(checkpoint_every), quiet, tensorboard, power.powers())
    if resume is not None:
        _refuse_options(given, out, config, overwrite)
        session.resume(resume)
        return
    if out is None:
        raise InputError("out", "missing", "the folder of the new run (or --resume RUN)")
    options = read_toml(config) if config else {}
    parameters = parameters_of(options, given, source=config, tried_out=RunConfig.simulate)
    session.start(parameters, out, overwrite=overwrite)


def _check_tensorboard(folder: Path | None) -> None:
    """Refuse before the training what could not be written after it."""
    if folder is None:
        return
    if find_spec("tensorboard") is None:
        raise UserError("TensorBoard is not installed: pip install 'slotwise[tensorboard]'")
    if folder.exists() and not folder.is_dir():
        raise InputError("tensorboard", folder, "a folder, and this is a file")


def _refuse_options(given: dict[str, Any], out: Path | None, config: Path | None, overwrite: bool) -> None:
    others = {"out": out, "config": config, "overwrite": overwrite or None, **given}
    for name, value in others.items():
        if value is not None:
            raise InputError(name, value, "left out with --resume: the run keeps its parameters")


@dataclass(frozen=True)
class _Session:
    """What one call of the command decides and the result does not depend on."""

    workers: int | None
    checkpoint_every: float
    quiet: bool
    tensorboard: Path | None
    powers: Powers | None

    def start(self, config: RunConfig, out: Path, *, overwrite: bool) -> None:
        """Train a new run."""
        with self._display() as display:
            result = start_run(config, out, overwrite=overwrite, observer=display, **self._options())
        self._print(result)

    def resume(self, folder: Path) -> None:
        """Continue a run."""
        with self._display() as display:
            result = resume_run(folder, observer=display, **self._options())
        if not display.has_started:
            place = shlex.quote(str(folder))
            typer.echo(f"{folder}: finished already; slotwise show {place} shows it", err=True)
        else:
            self._print(result)

    def _options(self) -> dict[str, Any]:
        return {"workers": self.workers, "checkpoint_every": self.checkpoint_every}

    @contextmanager
    def _display(self) -> Iterator[TrainingDisplay]:
        with stop_on_signals() as stopping, TrainingDisplay(stopping, quiet=self.quiet) as display:
            yield display

    def _print(self, result: RunResult) -> None:
        history = result.history
        if self.tensorboard is not None:
            from slotwise.report.tensorboard import write_tensorboard  # noqa: PLC0415

            write_tensorboard(self.tensorboard, history.points)
        last = history.points[-1]
        typer.echo(
            f"{result.status} after {history.rounds} rounds: loss {last.loss:.4f}, "
            f"accuracy {last.accuracy:.2%} at slot {last.slot}  ({result.folder})"
        )
        if history.rounds:
            typer.echo(spending_line(Spending.of(result.timeline.first(history.rounds), self.powers)))
        if result.status == "interrupted":
            typer.echo(f"resume with: slotwise train --resume {shlex.quote(str(result.folder))}", err=True)
            raise typer.Exit(130)
