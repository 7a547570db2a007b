"""JobWorker: trains one job after another in a worker; `train_job` trains one in any process.

In a process of this machine a job is trained in the folder of the batch. On a node of a cluster it is trained
in a temporary folder, and the files that are new in it are part of each report, so the folder of the batch is
as if the job were trained here, and a job whose node is lost resumes elsewhere from what has come back.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from slotwise.aggregation import device_half
from slotwise.base.errors import UserError
from slotwise.base.files import write_atomically
from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import BatchObserver, Job, JobProgress
from slotwise.data import Dataset
from slotwise.learning import Diverged, History, Point, Task
from slotwise.learning.workers import WorkerPlan
from slotwise.runs import Observer, RunConfig, RunFolder, RunSession
from slotwise.runs.execution import build_task
from slotwise.runs.run_timeline import SCHEDULE, TIMELINE, SavedSchedule, keep_timeline, schedule_timeline
from slotwise.schedule import Timeline
from slotwise.workers import Background, ClusterLost

PROGRESS_INTERVAL = 0.25  # seconds
REPORT_POLL = 0.1  # seconds between two looks for a checkpoint
PREDECESSOR_TIMEOUT = 10.0  # seconds
CHECKPOINT = "checkpoint"
# run.json last: its status describes the others
FILES = ("history.csv", "model.npz", SCHEDULE, TIMELINE, "run.json")
MakeTask = Callable[[RunConfig], Task]
Files = dict[str, bytes]


class TaskCache:
    """Builds tasks; data sets are loaded once, and runs that differ in their schedule only share a task."""

    def __init__(self) -> None:
        self._datasets: dict[str, Dataset] = {}
        self._last: tuple[object, Task] | None = None

    def add(self, dataset: Dataset) -> None:
        """Use this data set for the runs that name it."""
        self._datasets[dataset.name] = dataset

    def make(self, config: RunConfig) -> Task:
        """Return the task of a run; a user's own task may depend on every option and is built each time."""
        if config.model.is_own:
            return build_task(config)
        # With the number of devices, all that a built-in task depends on.
        sent = (config.bits, config.compressor, config.adversary, config.metric, device_half(config.rule))
        key = (config.dataset, config.model, config.training, *sent, config.channel.devices)
        if self._last is None or self._last[0] != key:
            if config.dataset.source not in self._datasets:
                self.add(config.dataset.load())
            self._last = (key, build_task(config, self._datasets[config.dataset.source]))
        return self._last[1]


def train_job(
    folder: BatchFolder,
    job: Job,
    *,
    workers: int | WorkerPlan,
    make_task: MakeTask,
    checkpoint_every: float,
    observer: BatchObserver,
) -> str | None:
    """Train or resume a job here; return the reason if it fails."""
    run_folder, config = folder.run(job.run.name), job.run.config
    try:
        timeline = schedule_timeline(config)
        session = RunSession(
            run_folder,
            config,
            task=make_task(config),
            timeline=timeline,
            workers=workers,
            checkpoint_every=checkpoint_every,
            resume=run_folder.is_run,
            observer=_JobObserver(job, observer),
        )
        try:
            with session:
                session.train()
        finally:
            _save_schedule(run_folder)
    except Diverged as error:
        return f"diverged in round {error.round}"
    except ClusterLost:
        # Without its cluster no other job can be trained either.
        raise
    except (Exception, SystemExit) as error:  # whatever it is, the other jobs go on
        return f"{type(error).__name__}: {error}"
    return None


def _save_schedule(folder: RunFolder) -> None:
    """Save what the results need of a timeline, as far as the run has been trained."""
    if folder.is_run and (points := (run := folder.read()).points):
        SavedSchedule.of(run.trained, points).save(folder.path, folder.description(), points)


class _JobObserver(Observer):
    """Reports the progress of a run as that of a job, a few times a second."""

    def __init__(self, job: Job, observer: BatchObserver) -> None:
        self._job, self._observer = job, observer
        self._point: Point | None = None
        self._done, self._last = 0, 0.0

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:
        until, config = self._job.until, self._job.run.config
        # Of a schedule that is decided meanwhile it is only known about how long it is.
        rounds = schedule_timeline(config).rounds if config.decides_by_learning else timeline.rounds
        self._rounds = rounds if until is None else min(rounds, until)
        if resumed:
            self._done, self._point = resumed.rounds, resumed.points[-1] if resumed.points else None
        self._report()

    def round_done(self, round_number: int) -> None:
        self._done = round_number + 1
        if self._done == self._rounds or time.monotonic() - self._last >= PROGRESS_INTERVAL:
            self._report()

    def evaluated(self, point: Point) -> None:
        self._point = point
        if point.round == self._rounds:
            self._report()

    def wants_stop(self) -> bool:
        return self._observer.wants_stop() or (self._job.until is not None and self._done >= self._job.until)

    def _report(self) -> None:
        self._last = time.monotonic()
        loss, accuracy = (self._point.loss, self._point.accuracy) if self._point else (None, None)
        progress = JobProgress(self._done, max(self._done, self._rounds), loss, accuracy)
        self._observer.job_progress(self._job, progress)


class Assignment(NamedTuple):
    """A job for a worker, and how to train it."""

    job: Job
    threads: int
    checkpoint_every: float
    timeline: Timeline | None  # that of the job, if it is known already
    files: Files | None = None  # of the run so far, on a node


class JobReport(NamedTuple):
    """Progress of a job, and the files that are new since the last report."""

    progress: list[JobProgress]
    files: Files
    over: bool
    reason: str | None


class JobWorker(Background, BatchObserver):
    """Trains one job after another: in the folder of the batch, or each in a temporary folder of its node.

    A worker that is killed leaves its temporary folder behind.
    """

    def __init__(self, folder: BatchFolder | None = None) -> None:
        super().__init__()
        self._folder, self._tasks = folder, TaskCache()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._changes: ChangedFiles | None = None

    def begin(self, assignment: Assignment, dataset: Dataset | None = None) -> None:
        """Start to train a job; ``dataset`` is its data set, if that is not read here."""
        job, folder = assignment.job, self._folder
        if dataset is not None:
            self._tasks.add(dataset)
        if assignment.timeline is not None:
            keep_timeline(job.run.config, assignment.timeline)
        if folder is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="slotwise-")
            folder = BatchFolder(Path(self._scratch.name))
            write_files(assignment.files or {}, folder.run(job.run.name))
            self._changes = ChangedFiles(folder.run(job.run.name))
        self._reason: str | None = "the training has ended with an error"

        def train() -> None:
            _await_predecessor(folder.run(job.run.name))
            self._reason = train_job(
                folder,
                job,
                workers=assignment.threads,
                make_task=self._tasks.make,
                checkpoint_every=assignment.checkpoint_every,
                observer=self,
            )

        self.run(train)

    def job_report(self, seconds: float, stop: bool) -> JobReport:
        """Return what is new after some seconds, or as soon as the job has ended; with ``stop`` it should."""
        messages, over = self.report(0 if self._changes else seconds, stop)
        end = time.monotonic() + seconds
        # A checkpoint is sent at once: it is what a lost node costs nothing up to.
        while self._changes and not (over or self._changes.has_checkpoint()) and time.monotonic() < end:
            more, over = self.report(REPORT_POLL, stop)
            messages += more
        # ``over`` was read before the files are: what the training writes last is not missed.
        files = self._changes.take(over=over) if self._changes else {}
        if over and self._scratch is not None:
            self._scratch.cleanup()
        return JobReport(messages[-1:], files, over, self._reason if over else None)

    def close(self) -> None:
        """Save the job, if there is one."""
        super().close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def job_progress(self, job: Job, progress: JobProgress) -> None:
        """Remember the progress for the next report."""
        del job
        self.tell(progress)


def _await_predecessor(run: RunFolder) -> None:
    """Wait for a worker whose main process was killed, and that may still be saving this run."""
    end = time.monotonic() + PREDECESSOR_TIMEOUT
    while run.is_run and time.monotonic() < end:
        try:
            with run.held():
                return
        except UserError:
            time.sleep(0.1)


def resumable_files(run: RunFolder) -> Files:
    """Return the files of a run that it takes to resume it elsewhere."""
    files = {"run.json": (run.path / "run.json").read_bytes()}
    checkpoint = run.checkpoints.newest()
    return files if checkpoint is None else {CHECKPOINT: checkpoint, **files}


def write_files(files: Files, run: RunFolder) -> None:
    """Write files into a run folder, in the order in which a training writes them."""
    run.path.mkdir(parents=True, exist_ok=True)
    if CHECKPOINT in files:
        run.checkpoints.receive(files[CHECKPOINT])
    for name in FILES:
        if name in files:
            write_atomically(run.path / name, files[name])


class ChangedFiles:
    """The files of a run that have changed since they were last taken."""

    def __init__(self, run: RunFolder) -> None:
        self._run, self._sent = run, run.checkpoints.newest_name()

    def has_checkpoint(self) -> bool:
        """Return whether there is a new checkpoint."""
        return self._run.checkpoints.newest_name() != self._sent

    def take(self, *, over: bool) -> Files:
        """Return a new checkpoint and the curve until then; all files once the training is over."""
        files: Files = {}
        # The name is read first: a checkpoint that is written in between is sent twice, and never missed.
        name = self._run.checkpoints.newest_name()
        if name != self._sent and (checkpoint := self._run.checkpoints.newest()) is not None:
            self._sent, files[CHECKPOINT] = name, checkpoint
        wanted = FILES if over else ("history.csv",) if files else ()
        paths = {name: self._run.path / name for name in wanted}
        return files | {name: path.read_bytes() for name, path in paths.items() if path.is_file()}
