"""The train command: start or resume a run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from slotwise.base.errors import ConflictError, InputError, MissingError, UserError
from slotwise.base.machine import available_cores
from slotwise.base.observer import BaseObserver, Observers, stop_on_signals
from slotwise.cli.app import INTERRUPTED
from slotwise.cli.flags import (
    RAY_ADDRESS,
    WORKERS,
    Quiet,
    command,
    number,
    output,
    power_flags,
    refuse_with,
    run_flags,
    take_powers,
    whole_number,
)
from slotwise.learning.workers import Processes, RayActors, WorkerPlan
from slotwise.report.number_text import counted, loss_text, percent
from slotwise.report.progress import TrainingProgress
from slotwise.report.tables import cost_line
from slotwise.runs import RunConfig, RunFolder, RunResult
from slotwise.runs import resume as resume_run
from slotwise.runs import run as start_run
from slotwise.runs.session import SECONDS_BETWEEN_CHECKPOINTS
from slotwise.runs.toml_options import blaming_file, read_toml
from slotwise.schedule.costs import Costs, Powers
from slotwise.setting.slot_duration import powers_of_run
from slotwise.tracking import TRACKERS, tracker

CONFIG = output("TOML file with any of the options but those of Energy and Output; flags override the file.")
CHECKPOINT_EVERY = output(
    "Seconds between checkpoints, the most work a crash can lose; 0: after every round.",
    converter=number,
    show_default=True,
)
PROCESSES = output(
    "Train in processes instead of threads: for a --task that is written in Python and holds its lock."
)
RAY = output(f"Train on this Ray cluster: {RAY_ADDRESS}")
GPUS_PER_WORKER = output(
    "GPUs of each worker on Ray; several workers may share one, as with 0.25.", converter=number
)
TRACK = output(
    "Log the run to experiment trackers: wandb, trackio, mlflow, tensorboard, or several separated by commas."
)
TRACK_PROJECT = output("Project of wandb and trackio, experiment of MLflow. Default: slotwise.")


@command(*run_flags(), *power_flags())
def train(
    options: dict[str, Any],
    *,
    out: Annotated[Path | None, output("Run folder; must not contain another run.")] = None,
    resume: Annotated[Path | None, output("Resume the run in this folder; it keeps its options.")] = None,
    overwrite: Annotated[bool, output("Replace the run in --out.")] = False,
    config: Annotated[Path | None, CONFIG] = None,
    workers: Annotated[int | None, output(WORKERS.help, converter=whole_number)] = None,
    processes: Annotated[bool, PROCESSES] = False,
    ray: Annotated[str | None, RAY] = None,
    gpus_per_worker: Annotated[float | None, GPUS_PER_WORKER] = None,
    checkpoint_every: Annotated[float, CHECKPOINT_EVERY] = SECONDS_BETWEEN_CHECKPOINTS,
    track: Annotated[str | None, TRACK] = None,
    track_project: Annotated[str | None, TRACK_PROJECT] = None,
    quiet: Quiet = False,
) -> int:
    """Train a model along the schedule, exactly as the devices and the server would.

    The defaults are the paper's MNIST case with a group size of 10; with --data cifar10 they are its CIFAR-10
    case (N=20, S=5, 4 compute slots, T=100000, H=8). Ctrl-C ends early with a checkpoint.
    """
    powers = take_powers(options)
    trackers = _tracker_names(track, track_project)
    if ray is None and gpus_per_worker is not None:
        raise InputError("gpus_per_worker", gpus_per_worker, "omitted without --ray")
    begin: Callable[..., RunResult]
    if resume is not None:
        refuse_with("resume", {"out": out, "config": config, "overwrite": overwrite, **options})
        from slotwise.batch.batch_folder import BatchFolder  # noqa: PLC0415  (slow to import)

        if BatchFolder(resume).is_batch:
            raise UserError(f"{resume}: this is a batch; the command that made it resumes it: slotwise sweep")
        chosen = RunFolder.open(resume).parameters() if gpus_per_worker or powers else None
        begin = partial(resume_run, resume)
    elif out is None:
        raise MissingError("out", "the folder of the new run (or --resume RUN)")
    else:
        given = {**(read_toml(config) if config else {}), **options}
        with blaming_file(config, options):
            chosen = RunConfig.from_options(given)
        begin = partial(start_run, chosen, out, overwrite=overwrite)
    if gpus_per_worker and chosen and not chosen.model.is_own and chosen.model.backend != "torch":
        raise InputError("gpus_per_worker", gpus_per_worker, "omitted with --backend numba")
    if powers and chosen:
        powers = powers_of_run(powers, chosen)
    how: dict[str, Any] = {"checkpoint_every": checkpoint_every}
    how["workers"] = _plan(workers, ray, gpus_per_worker or 0.0, processes=processes)
    with stop_on_signals() as stopping, TrainingProgress(stopping, quiet=quiet) as display:
        how["observer"] = _with_trackers(display, trackers, track_project)
        with blaming_file(config, options):
            result = begin(**how)
    return _print(result, powers, trained=display.has_started, track=track)


def _plan(
    workers: int | None, ray: str | None, gpus_per_worker: float, *, processes: bool
) -> int | WorkerPlan | None:
    """Return the workers that the options ask for."""
    if ray is not None and processes:
        raise ConflictError("ray", "processes")
    if ray is not None:
        # Connected before signals are handled: Ray replaces whatever handler there is by its own.
        return RayActors(ray, workers, gpus_per_worker).connected()
    return Processes(available_cores() if workers is None else workers) if processes else workers


def _tracker_names(track: str | None, project: str | None) -> list[str]:
    """Return the trackers that --track names."""
    names = [name.strip() for name in track.split(",")] if track is not None else []
    if not set(names) <= set(TRACKERS):
        raise InputError("track", track, f"{', '.join(TRACKERS)}, or several of them separated by commas")
    if repeated := [name for name in TRACKERS if names.count(name) > 1]:
        raise InputError("track", track, f"a list that names each tracker once; {repeated[0]} is repeated")
    if project is not None and set(names) <= {"tensorboard"}:
        raise InputError("track_project", project, "omitted without --track wandb, trackio or mlflow")
    return names


def _with_trackers(display: BaseObserver, names: Sequence[str], project: str | None) -> BaseObserver:
    """Return an observer for the display and the named trackers."""
    if not names:
        return display
    projects = {name: None if name == "tensorboard" else project for name in names}
    made = [tracker(name, project=projects[name], notify=display.notice) for name in names]
    return Observers(display, *made)


def _print(result: RunResult, powers: Powers | None, *, trained: bool, track: str | None) -> int:
    history, path = result.history, shlex.quote(str(result.folder))
    if not trained:
        print(f"{result.folder}: finished already; slotwise show {path} shows it", file=sys.stderr)
        return 0
    last = history.points[-1]
    print(
        f"{result.status} after {counted(history.rounds, 'round')}: loss {loss_text(last.loss)}, "
        f"accuracy {percent(last.accuracy, 2)} at slot {last.slot}  ({result.folder})"
    )
    if history.rounds:
        print(cost_line(Costs.of(result.timeline.first(history.rounds), powers)))
    if result.status == "interrupted":
        tracked = "" if track is None else f" --track {shlex.quote(track)}"
        print(f"resume with: slotwise train --resume {path}{tracked}", file=sys.stderr)
        return INTERRUPTED
    return 0
