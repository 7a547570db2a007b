"""Train what is missing: finished runs are kept, broken ones resumed, and one that fails stops no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slotwise.batch.job import Run
from slotwise.batch.results_folder import ResultsFolder
from slotwise.batch.work import Extent, run_work
from slotwise.data import cifar10_path
from slotwise.errors import UserError
from slotwise.learning import Diverged, Task
from slotwise.observer import Observer
from slotwise.runs import RunConfig, execute
from slotwise.runs.execution import SECONDS_BETWEEN_CHECKPOINTS
from slotwise.runs.tasks import build_task

FETCH_CIFAR10 = "CIFAR-10 is not on this machine: slotwise data fetch cifar10"


@dataclass(frozen=True)
class Job:
    """A run that is not finished, and how much there is to compute in all of it."""

    run: Run
    work: float


@dataclass(frozen=True)
class Failure:
    """A run that ended badly, and why."""

    run: Run
    reason: str


class JobsWatcher:
    """What a caller is told and asked while the jobs go on; this one stays silent."""

    def started(self, job: Job) -> Observer:
        """A job begins; the answer is told how it goes on."""
        del job
        return Observer()

    def ended(self, job: Job, reason: str | None) -> None:
        """A job has ended; ``reason`` says why, if it has failed."""

    def wants_stop(self) -> bool:
        """Whether to leave the rest for another time."""
        return False


def unfinished(
    folder: ResultsFolder,
    runs: Iterable[Run],
    *,
    extent: Callable[[RunConfig], Extent] = RunConfig.simulate,
) -> tuple[Job, ...]:
    """The runs to train or to resume; ``extent`` says how long a run is.

    Raises:
        UserError: a run folder is damaged, or holds another run.
    """
    return tuple(
        Job(run, run_work(run.parameters, extent(run.parameters)))
        for run in runs
        if _status(folder, run) not in {"finished", "diverged"}
    )


def train_jobs(
    folder: ResultsFolder,
    jobs: Iterable[Job],
    *,
    workers: int = 1,
    checkpoint_every: float = SECONDS_BETWEEN_CHECKPOINTS,
    watcher: JobsWatcher | None = None,
    make_task: Callable[[RunConfig], Task] = build_task,
) -> tuple[Failure, ...]:
    """Train one job after the other; those that diverge or fail are told, the others go on."""
    watch = watcher or JobsWatcher()
    failures = []
    for job in jobs:
        if watch.wants_stop():
            break
        reason = None
        try:
            _train(folder, job, workers, checkpoint_every, watch.started(job), make_task)
        except Diverged as error:
            reason = f"diverged in round {error.round}"
        except Exception as error:  # whatever it is, the other curves are still wanted
            reason = f"{type(error).__name__}: {error}"
        if reason is not None:
            failures.append(Failure(job.run, reason))
        watch.ended(job, reason)
    return tuple(failures)


def can_train(run: Run) -> bool:
    """Whether the data is on this machine."""
    return run.parameters.dataset.data == "mnist" or cifar10_path().is_file()


def _train(
    folder: ResultsFolder,
    job: Job,
    workers: int,
    checkpoint_every: float,
    watcher: Observer,
    make_task: Callable[[RunConfig], Task],
) -> None:
    run_folder, parameters = folder.run(job.run.name), job.run.parameters
    resume = None
    if run_folder.is_run:
        resume, _ = run_folder.checkpoints.load()
    else:
        run_folder = run_folder.create(run_folder.path, parameters)
    execute(
        run_folder,
        parameters,
        task=make_task(parameters),
        workers=workers,
        checkpoint_every=checkpoint_every,
        resume=resume,
        observer=watcher,
    )


def _status(folder: ResultsFolder, run: Run) -> str:
    run_folder = folder.run(run.name)
    if not run_folder.is_run:
        return "missing"
    if run_folder.parameters() != run.parameters:
        raise UserError(f"{run_folder.path}: made with other parameters; remove it to train it anew")
    return run_folder.status
