"""The train command: start or resume a run."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from slotwise.cli.app import INTERRUPTED
from slotwise.cli.flags import (
    WORKERS,
    Quiet,
    command,
    output,
    power_flags,
    refuse_with,
    run_flags,
    take_powers,
    whole_number,
)
from slotwise.costs import Costs, Powers
from slotwise.errors import InputError, UserError
from slotwise.report.progress import TrainingProgress, stop_on_signals
from slotwise.report.tables import cost_line
from slotwise.runs import RunConfig, RunResult
from slotwise.runs import resume as resume_run
from slotwise.runs import run as start_run
from slotwise.runs.execution import SECONDS_BETWEEN_CHECKPOINTS
from slotwise.runs.toml_options import blaming_file, read_toml

CONFIG = output("TOML file with any of the options; flags override the file.")
CHECKPOINT_EVERY = output(
    "Seconds between checkpoints, the most work a crash can lose; 0: after every round.", show_default=True
)
TENSORBOARD = output("Also write the curve for TensorBoard into this folder.")


@command(*run_flags(), *power_flags())
def train(
    options: dict[str, Any],
    *,
    out: Annotated[Path | None, output("Run folder; must not contain another run.")] = None,
    resume: Annotated[Path | None, output("Resume the run in this folder; it keeps its options.")] = None,
    overwrite: Annotated[bool, output("Replace the run in --out.")] = False,
    config: Annotated[Path | None, CONFIG] = None,
    workers: Annotated[int | None, output(WORKERS.help, converter=whole_number)] = None,
    checkpoint_every: Annotated[float, CHECKPOINT_EVERY] = SECONDS_BETWEEN_CHECKPOINTS,
    tensorboard: Annotated[Path | None, TENSORBOARD] = None,
    quiet: Quiet = False,
) -> int:
    """Train a model along the schedule, exactly as the devices and the server would.

    The defaults are the paper's MNIST case with a group size of 10; with --data cifar10 they are its CIFAR-10
    case (N=20, S=5, 4 compute slots, T=100000, H=8). Ctrl-C ends early with a checkpoint.
    """
    powers = take_powers(options)
    if tensorboard is not None:  # refuse before the training what could not be written after it
        if find_spec("tensorboard") is None:
            raise UserError("TensorBoard is not installed: pip install 'slotwise[tensorboard]'")
        if tensorboard.exists() and not tensorboard.is_dir():
            raise InputError("tensorboard", tensorboard, "a folder, and this is a file")
    how: dict[str, Any] = {"workers": workers, "checkpoint_every": checkpoint_every}
    with stop_on_signals() as stopping, TrainingProgress(stopping, quiet=quiet) as display:
        if resume is not None:
            refuse_with("resume", {"out": out, "config": config, "overwrite": overwrite, **options})
            result = resume_run(resume, observer=display, **how)
        elif out is None:
            raise InputError("out", "missing", "the folder of the new run (or --resume RUN)")
        else:
            from_file = read_toml(config) if config else {}
            with blaming_file(config, options):
                chosen = RunConfig.from_options({**from_file, **options})
                result = start_run(chosen, out, overwrite=overwrite, observer=display, **how)
    if tensorboard is not None:
        from slotwise.report.plotting import write_tensorboard  # noqa: PLC0415

        write_tensorboard(tensorboard, result.history.points)
    return _print(result, powers, trained=display.has_started)


def _print(result: RunResult, powers: Powers | None, *, trained: bool) -> int:
    history, path = result.history, shlex.quote(str(result.folder))
    if not trained:
        print(f"{result.folder}: finished already; slotwise show {path} shows it", file=sys.stderr)
        return 0
    last = history.points[-1]
    print(
        f"{result.status} after {history.rounds} rounds: loss {last.loss:.4f}, "
        f"accuracy {last.accuracy:.2%} at slot {last.slot}  ({result.folder})"
    )
    if history.rounds:
        print(cost_line(Costs.of(result.timeline.first(history.rounds), powers)))
    if result.status == "interrupted":
        print(f"resume with: slotwise train --resume {path}", file=sys.stderr)
        return INTERRUPTED
    return 0
