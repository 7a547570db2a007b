"""slotwise train."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from slotwise.cli.flags import (
    NO_PROGRESS,
    OUTPUT,
    command,
    power_flags,
    refuse_with,
    run_flags,
    take_powers,
    whole_number,
)
from slotwise.cli.progress import TrainingDisplay, stop_on_signals
from slotwise.cli.run_options import parameters_of
from slotwise.cli.spending_tables import spending_line
from slotwise.costs import Costs, Powers
from slotwise.errors import InputError, UserError
from slotwise.learning import History, Task
from slotwise.runs import RunConfig, RunFolder, execute, read_toml
from slotwise.runs.build import build_task
from slotwise.runs.execute import SECONDS_BETWEEN_CHECKPOINTS, check_interval
from slotwise.scenario import whole

INTERRUPTED = 130


@command(*run_flags(), *power_flags())
def train(
    options: dict[str, Any],
    *,
    out: Annotated[
        Path | None, Parameter(help="Run folder; must not contain another run.", group=OUTPUT)
    ] = None,
    resume: Annotated[
        Path | None, Parameter(help="Resume the run in this folder; it keeps its options.", group=OUTPUT)
    ] = None,
    overwrite: Annotated[bool, Parameter(help="Replace the run in --out.", group=OUTPUT)] = False,
    config: Annotated[
        Path | None,
        Parameter(help="TOML file with any of the options; flags override the file.", group=OUTPUT),
    ] = None,
    workers: Annotated[
        int | None,
        Parameter(
            help="Parallel local trainings. Default: all cores. The result is the same.",
            group=OUTPUT,
            converter=whole_number,
        ),
    ] = None,
    checkpoint_every: Annotated[
        float,
        Parameter(
            help="Seconds between checkpoints, the most work a crash can lose; 0: after every round.",
            group=OUTPUT,
            show_default=True,
        ),
    ] = SECONDS_BETWEEN_CHECKPOINTS,
    tensorboard: Annotated[
        Path | None, Parameter(help="Also write the curve for TensorBoard into this folder.", group=OUTPUT)
    ] = None,
    quiet: Annotated[bool, NO_PROGRESS] = False,
) -> int:
    """Train a model along the schedule, exactly as the devices and the server would.

    The defaults are the paper's MNIST case with a group size of 10; with --data cifar10 they are its CIFAR-10
    case (N=20, S=5, 4 compute slots, T=100000, H=8). Ctrl-C ends early with a checkpoint.
    """
    powers = take_powers(options)
    threads = _cores() if workers is None else whole("workers", workers)
    _check_tensorboard(tensorboard)
    session = _Session(threads, check_interval(checkpoint_every), quiet, tensorboard, powers)
    if resume is not None:
        refuse_with("resume", {"out": out, "config": config, "overwrite": overwrite, **options})
        return _resume(RunFolder.open(resume), session)
    if out is None:
        raise InputError("out", "missing", "the folder of the new run (or --resume RUN)")
    from_file = read_toml(config) if config else {}
    chosen = parameters_of(from_file, options, source=config, tried_out=RunConfig.simulate)
    task = build_task(chosen)  # every mistake is reported before a folder is made
    folder = RunFolder.create(out, chosen, overwrite=overwrite)
    return session.run(folder, chosen, task=task)


def _check_tensorboard(folder: Path | None) -> None:
    """Refuse before the training what could not be written after it."""
    if folder is None:
        return
    if find_spec("tensorboard") is None:
        raise UserError("TensorBoard is not installed: pip install 'slotwise[tensorboard]'")
    if folder.exists() and not folder.is_dir():
        raise InputError("tensorboard", folder, "a folder, and this is a file")


def _resume(folder: RunFolder, session: _Session) -> int:
    if "live_run" in folder.description():
        raise UserError(f"{folder.path}: a live run; resume it with slotwise serve --resume")
    status = folder.status
    if status == "finished":
        shown = shlex.quote(str(folder.path))
        print(f"{folder.path}: finished already; slotwise show {shown} shows it", file=sys.stderr)
        return 0
    if status == "diverged":
        raise UserError(f"{folder.path}: diverged, and would again; start anew with other options")
    config = folder.parameters()
    with folder.held():  # refused before anything is printed
        history, damaged = folder.checkpoints.load()
    for path in damaged:
        print(f"{path}: damaged, skipped", file=sys.stderr)
    where = f"round {history.round}" if history else "the start (no checkpoint)"
    print(f"{folder.path}: resuming from {where}", file=sys.stderr)
    return session.run(folder, config, resume=history)


@dataclass(frozen=True)
class _Session:
    """Options of one call of the command that do not change the result."""

    workers: int
    checkpoint_every: float
    quiet: bool
    tensorboard: Path | None
    powers: Powers | None

    def run(
        self, folder: RunFolder, config: RunConfig, *, task: Task | None = None, resume: History | None = None
    ) -> int:
        """Train to the end, or until the user interrupts."""
        with stop_on_signals() as stopping, TrainingDisplay(stopping, quiet=self.quiet) as display:
            outcome = execute(
                folder,
                config,
                task=task,
                workers=self.workers,
                checkpoint_every=self.checkpoint_every,
                resume=resume,
                watcher=display,
            )
        if self.tensorboard is not None:
            from slotwise.report.tensorboard import write_tensorboard  # noqa: PLC0415

            write_tensorboard(self.tensorboard, outcome.history.points)
        last = outcome.history.points[-1]
        print(
            f"{outcome.status} after {outcome.history.round} rounds: loss {last.loss:.4f}, "
            f"accuracy {last.accuracy:.2%} at slot {last.slot}  ({folder.path})"
        )
        if outcome.history.round:
            played = config.simulate().first(outcome.history.round)
            print(spending_line(Costs.of(played, self.powers)))
        if outcome.status == "interrupted":
            path = shlex.quote(str(folder.path))
            print(f"resume with: slotwise train --resume {path}", file=sys.stderr)
            return INTERRUPTED
        return 0


def _cores() -> int:
    return len(os.sched_getaffinity(0))
