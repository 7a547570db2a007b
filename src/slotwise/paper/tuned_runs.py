"""`tune`: train what the tuned study needs next, stage after stage, and keep the curves.

The curves that the package contains are not trained again. histories/ has those of everything else that has
ended; runs/ has the run folders, from which an interrupted training resumes and which can be deleted once
their curves are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from slotwise.base.observer import BaseObserver
from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.executors import Executor, ProcessExecutor
from slotwise.batch.job import Failure, Job, run_work
from slotwise.batch.jobs import run_jobs
from slotwise.paper.histories import Histories
from slotwise.paper.tuned import Trial, needed
from slotwise.paper.tuned_cases import METHODS, Method
from slotwise.runs.saved_run import SavedRun

ENDED = ("finished", "diverged")
TRAINED = Path(__file__).parent / "tuned_curves"
"""The curves that the package contains."""
TRIALS_AT_ONCE = 4  # few, because what is trained next depends on them


@dataclass(frozen=True)
class Tuning:
    """The result of `tune`."""

    path: Path
    histories: Histories
    failures: tuple[Failure, ...] = ()  # runs that failed; a run that diverged is a result
    missing: tuple[Trial, ...] = ()  # what the next call trains first

    @property
    def is_finished(self) -> bool:
        """True if every method has been judged."""
        return not self.missing


def tune(
    out: Path | str,
    methods: Sequence[Method] = METHODS,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    observer: BaseObserver | None = None,
) -> Tuning:
    """Tune the step size of each method and judge it: train what is missing in a folder, resume the rest.

    Args:
        out: Folder of histories/ and runs/; created, or resumed.
        methods: What is compared.
        workers: Parallel trainings. Default: all cores. The result is the same.
        executor: Trains the runs, in place of local processes.
        observer: Callbacks; it may ask to stop early.
    """
    folder = BatchFolder(Path(out), "slotwise reproduce tuned", "tuned.json")
    histories = Histories(folder.path / "histories", TRAINED)
    asked = BaseObserver.of(observer)
    failures: tuple[Failure, ...] = ()
    with folder.locked():
        folder.write_manifest({"methods": [method.name for method in methods]})
        while (trials := needed(methods, histories.loss)) and not failures and not asked.wants_stop():
            if _keep_ended(folder, histories, trials):
                continue
            next_trials = trials[: max(TRIALS_AT_ONCE, workers or 0)]
            jobs = [Job(trial.run(), run_work(trial.run().config)) for trial in next_trials]
            failed = run_jobs(folder, jobs, executor or ProcessExecutor(workers), observer)
            _keep_ended(folder, histories, trials)
            failures = tuple(failure for failure in failed if not _diverged(folder, failure))
    return Tuning(folder.path, histories, failures, needed(methods, histories.loss))


def _keep_ended(folder: BatchFolder, histories: Histories, trials: Iterable[Trial]) -> bool:
    """Add the curves of runs that have ended to the histories; return whether there were any."""
    ended = False
    for trial in trials:
        saved = SavedRun.find(folder.runs / trial.name)
        if saved is not None and saved.status in ENDED and saved.config == trial.run().config:
            histories.add(trial, saved)
            ended = True
    return ended


def _diverged(folder: BatchFolder, failure: Failure) -> bool:
    saved = SavedRun.find(folder.runs / failure.run.name)
    return saved is not None and saved.status == "diverged"
