"""run_batch: train all runs of a specification, and write its tables and figure."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from slotwise.batch.batch_figure import batch_figure
from slotwise.batch.batch_folder import BatchFolder, BatchManifest, check_same_batch
from slotwise.batch.jobs import FETCH_CIFAR10, Executor, can_train, run_jobs, unfinished
from slotwise.batch.processes import ProcessExecutor, available_cores
from slotwise.batch.results import BatchResults, table_csv
from slotwise.batch.serial import SerialExecutor
from slotwise.batch.specification import BatchSpec
from slotwise.errors import InputError, UserError
from slotwise.files import write_atomically
from slotwise.observer import Observer
from slotwise.runs.execute import check_interval
from slotwise.scenario import whole


def run_batch(
    spec: BatchSpec | Path | str,
    out: Path | str,
    *,
    executor: Executor | str = "processes",
    workers: int | None = None,
    checkpoint_every: float | None = None,
    observer: Observer | None = None,
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
    _check_trainable(asked)
    folder = BatchFolder(Path(out))
    check_same_batch(folder, asked)
    chosen = make_executor(executor, workers) if isinstance(executor, str) else executor
    with folder.locked():
        check_same_batch(folder, asked)
        BatchManifest.of(asked).write(folder)
        jobs = unfinished(folder, asked.runs)
        finished = len(asked.runs) - len(jobs)
        failures = run_jobs(
            folder, jobs, chosen, observer, finished=finished, checkpoint_every=checkpoint_every
        )
        results = BatchResults.read(folder)
        return replace(results, failures=failures, files=write_results(folder, results))


def make_executor(name: str, workers: int | None = None) -> Executor:
    """Return the executor called ``processes``, ``serial`` or ``ray:ADDRESS``.

    Raises:
        UserError: the name or the number is not allowed, or there is no cluster at the address.
    """
    if workers is not None:
        whole("workers", workers)
    if name == "processes":
        return ProcessExecutor(workers)
    if name == "serial":
        return SerialExecutor(workers or available_cores())
    if name.startswith("ray:"):
        from slotwise.batch.ray_cluster import RayExecutor  # noqa: PLC0415
        from slotwise.batch.ray_connection import connect  # noqa: PLC0415

        return RayExecutor(connect(name.removeprefix("ray:")), workers)
    raise InputError("executor", name, "processes, serial or ray:ADDRESS")


def write_results(folder: BatchFolder, results: BatchResults) -> tuple[Path, ...]:
    """Write results.csv, curves.csv and, once there is a curve, curves.png; return their paths."""
    contents: dict[str, bytes | str] = {
        "results.csv": table_csv(results.columns()),
        "curves.csv": table_csv(results.curve_columns()),
    }
    figure = batch_figure(results)
    if figure.panels:
        from slotwise.report.curve_figures import draw_figure  # noqa: PLC0415

        contents["curves.png"] = draw_figure(figure, "png")
    for name, content in contents.items():
        write_atomically(folder.path / name, content)
    return tuple(folder.path / name for name in contents)


def _check_trainable(spec: BatchSpec) -> None:
    """Refuse what would fail in every process."""
    if not all(can_train(run) for run in spec.runs):
        raise UserError(FETCH_CIFAR10)
    if any(run.config.model.backend == "torch" for run in spec.runs) and find_spec("torch") is None:
        raise UserError("PyTorch is not installed: pip install 'slotwise[torch]'")
