"""run_batch and run_jobs: train what is missing of many runs.

Finished runs are kept, interrupted ones resume from their last checkpoint, and one that fails stops no other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from slotwise.base.errors import UserError
from slotwise.base.extras import require
from slotwise.base.files import write_atomically, write_csv
from slotwise.base.observer import BaseObserver
from slotwise.batch.batch_folder import BatchFolder, check_same_batch, write_spec
from slotwise.batch.executors import Executor, SerialExecutor, make_executor
from slotwise.batch.figure import batch_figure
from slotwise.batch.job import BatchObserver, Failure, Job, Run, run_work
from slotwise.batch.results import BatchResults
from slotwise.batch.specification import BatchSpec
from slotwise.data.dataset_cache import missing_notice
from slotwise.learning.models import NetworkModel
from slotwise.runs.device_data import DataUse, refuse_mixed_data
from slotwise.runs.saved_run import COMPLETE
from slotwise.runs.session import check_interval

FETCH_CIFAR10 = missing_notice("cifar10")
TO_TRAIN = "the runs to train"


def run_batch(
    spec: BatchSpec | Path | str,
    out: Path | str,
    *,
    executor: Executor | str = "processes",
    workers: int | None = None,
    checkpoint_every: float | None = None,
    observer: BaseObserver | None = None,
) -> BatchResults:
    """Train what is missing in a folder, keep what is finished, resume what was interrupted.

    The folder gets runs/, batch.json, results.csv, curves.csv and curves.png.

    Args:
        spec: A specification, or the TOML file to read it from.
        out: Folder of the batch; created, or resumed if it holds the same batch or a part of it.
        executor: ``processes``, ``serial``, ``ray:ADDRESS`` (``ray:auto``), or an executor.
        workers: Parallel local trainings over all runs. Default: all cores. The result is the same.
        checkpoint_every: Seconds between checkpoints, the most work a crash can lose. Default: 10; 30 on Ray.
        observer: Is told of the progress of all jobs, and may ask to stop early.

    Raises:
        UserError: the specification or the folder cannot be used, or the executor cannot start.
    """
    if checkpoint_every is not None:
        check_interval(checkpoint_every)
    asked = spec if isinstance(spec, BatchSpec) else BatchSpec.read(Path(spec))
    # Refuse what would fail in every process.
    for run in asked.runs:
        if isinstance(run.config.model, NetworkModel):
            if missing := run.config.dataset.missing:
                raise UserError(missing)
            run.config.model.check()
    require("matplotlib")
    folder = BatchFolder(Path(out))
    # Before an executor is made, which may take long; and once more under the lock, as another process
    # may have used the folder meanwhile.
    check_same_batch(folder, asked)
    chosen = make_executor(executor, workers) if isinstance(executor, str) else executor
    with folder.locked():
        check_same_batch(folder, asked)
        jobs = unfinished(folder, asked.runs)
        write_spec(folder, asked)  # after all that may refuse: another specification is not taken on
        finished, every = len(asked.runs) - len(jobs), checkpoint_every
        failures = run_jobs(folder, jobs, chosen, observer, finished=finished, checkpoint_every=every)
        results = BatchResults.read(folder)
        return replace(results, failures=failures, files=_write_results(folder.path, results))


def _write_results(path: Path, results: BatchResults) -> tuple[Path, ...]:
    """Write results.csv, curves.csv and, once there is a curve, curves.png; return their paths."""
    tables = {"results.csv": results.columns(), "curves.csv": results.curve_columns()}
    for name, columns in tables.items():
        write_csv(path / name, [*columns], zip(*columns.values(), strict=True))
    files = [path / name for name in tables]
    figure = batch_figure(results)
    if figure.panels:
        from slotwise.report.plotting import plot_figure, save_figure  # noqa: PLC0415

        files.append(path / "curves.png")
        write_atomically(files[-1], save_figure(plot_figure(figure), "png"))
    return tuple(files)


def unfinished(
    folder: BatchFolder, runs: Iterable[Run], combined_with: Iterable[Run] = ()
) -> tuple[Job, ...]:
    """Return a job for each run to train or resume; all of them must have the data of ``combined_with``, too.

    Raises:
        UserError: a folder holds another run, or the data have changed since some of the runs were trained.
    """
    every, jobs = tuple(runs), []
    for run in every:
        found = folder.run(run.name)
        if found.is_run:
            found.refuse_other_options(run.config)
            if found.status in {*COMPLETE, "diverged"}:
                continue
        jobs.append(Job(run, run_work(run.config)))
    current = {job.run.config.dataset.source: job.run.config.dataset for job in jobs}
    now = [DataUse(TO_TRAIN, source, dataset.content_hash) for source, dataset in current.items()]
    refuse_mixed_data([*folder.data_uses(run.name for run in (*every, *combined_with)), *now])
    return tuple(jobs)


def can_train(run: Run) -> bool:
    """Return whether the data set of a run is on this machine."""
    return run.config.model.is_own or run.config.dataset.missing is None


def run_jobs(
    folder: BatchFolder,
    jobs: Iterable[Job],
    executor: Executor | None = None,
    observer: BaseObserver | None = None,
    *,
    finished: int = 0,
    checkpoint_every: float | None = None,
) -> tuple[Failure, ...]:
    """Train jobs, the largest first, so that no long one is left for the end; return those that failed.

    By default they are trained one after the other in this process. The observer is told that ``finished``
    runs were finished before, and of all starts, progress and ends; it may ask to stop early.
    """
    waiting = tuple(jobs)
    executor, observer = executor or SerialExecutor(), BatchObserver.of(observer)
    seconds = executor.checkpoint_every if checkpoint_every is None else checkpoint_every
    try:
        observer.batch_started(waiting, finished)
        largest_first = sorted(waiting, key=lambda job: job.work, reverse=True)
        return tuple(executor.train(folder, largest_first, seconds, observer))
    finally:
        observer.batch_ended()
