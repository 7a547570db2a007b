"""RayWorker: training on a node of a cluster, and the files of a run on their way there and back."""

from __future__ import annotations

import platform
import tempfile
import threading
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.job import Job, JobProgress
from slotwise.batch.serial import Executor, TaskCache, train_job
from slotwise.data import Dataset
from slotwise.files import write_atomically
from slotwise.observer import Observer
from slotwise.runs import RunFolder

NEWS_INTERVAL, NEWS_POLL = 1.0, 0.1  # seconds
CHECKPOINT = "checkpoint"
FILES = ("history.csv", "model.npz", "run.json")  # run.json last: its status speaks of the others
Files = dict[str, bytes]


@dataclass
class News:
    """Changes since the last news: the progress of the job, and files that are new."""

    progress: JobProgress | None = None
    files: Files = field(default_factory=dict)
    over: bool = False
    reason: str | None = None


class RayWorker(Observer):
    """Trains one job after another on a node, each in a temporary folder. It knows nothing of the cluster.

    `news` and `stop` are called while the training that `begin` started goes on in a thread. A worker that is
    killed leaves its folder among the temporary files of the node.
    """

    def __init__(self) -> None:
        self._tasks = TaskCache()
        self._stopping = threading.Event()

    def hello(self) -> tuple[str, str]:
        """Return the name of the node and its version of slotwise."""
        return platform.node(), version("slotwise")

    def begin(self, job: Job, threads: int, checkpoint_every: float, files: Files, dataset: Dataset) -> None:
        """Start to train a job from the files of its run."""
        self._tasks.add(dataset)
        self._scratch = tempfile.TemporaryDirectory(prefix="slotwise-")
        folder, place = BatchFolder(Path(self._scratch.name)), Executor()
        place.open(folder, 1, checkpoint_every, self)
        write_files(files, folder.run(job.run.name))
        self._changes = ChangedFiles(folder.run(job.run.name))
        self._progress: JobProgress | None = None
        self._reason: str | None = None
        self._over = threading.Event()
        threading.Thread(target=self._train, args=(place, job, threads), daemon=True).start()

    def news(self) -> News:
        """Return the news after a second, or as soon as there is a checkpoint or the job has ended."""
        end = time.monotonic() + NEWS_INTERVAL
        while not (over := self._over.wait(NEWS_POLL)) and not self._changes.has_checkpoint:
            if time.monotonic() >= end:
                break
        news = News(self._progress, self._changes.take(over=over), over, self._reason)
        if over:
            self._scratch.cleanup()
        return news

    def stop(self) -> None:
        """Ask for a checkpoint and an early end."""
        self._stopping.set()

    def wants_stop(self) -> bool:
        """Return whether to stop."""
        return self._stopping.is_set()

    def job_progress(self, job: Job, progress: JobProgress) -> None:
        """Remember the progress for the next news."""
        del job
        self._progress = progress

    def _train(self, place: Executor, job: Job, threads: int) -> None:
        try:
            self._reason = train_job(place, job, threads, self._tasks.make)
        finally:
            self._over.set()


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
        self._run = run
        self._sent = run.checkpoints.newest_name()

    @property
    def has_checkpoint(self) -> bool:
        """Return whether there is a new checkpoint."""
        return self._run.checkpoints.newest_name() != self._sent

    def take(self, *, over: bool) -> Files:
        """Return a new checkpoint and the curve until then; all files once the training is over."""
        files: Files = {}
        name = self._run.checkpoints.newest_name()
        if name != self._sent and (checkpoint := self._run.checkpoints.newest()) is not None:
            self._sent, files[CHECKPOINT] = name, checkpoint
        wanted = FILES if over else ("history.csv",) if files else ()
        paths = {name: self._run.path / name for name in wanted}
        return files | {name: path.read_bytes() for name, path in paths.items() if path.is_file()}
