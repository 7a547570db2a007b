"""RayExecutor: trains the jobs of a batch on the nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any

from slotwise.batch.batch_folder import BatchFolder
from slotwise.batch.executors import PoolExecutor, SerialExecutor
from slotwise.batch.job import BatchObserver, Failure, Job
from slotwise.batch.job_worker import Assignment, JobReport, JobWorker, resumable_files, write_files
from slotwise.learning.workers.ray_actors import RayWorkers
from slotwise.runs import RunConfig, RunFolder
from slotwise.workers import Worker
from slotwise.workers.ray_cluster import RayCluster, RayWorker


class RayExecutor(PoolExecutor):
    """Trains jobs on as many workers as the cluster has cores, or on ``workers``.

    If there are at least as many jobs as nodes, each job is trained on one node. Otherwise one job after
    another is trained from here, and the local trainings of each are spread over all nodes.

    Each data set is put into the cluster's object store once; a node fetches it once, and all its workers
    read that one copy.
    """

    retries = 3
    checkpoint_every = 30.0  # an S=1 run's checkpoint has megabytes, and all of them come to one machine
    report_seconds = 1.0

    def __init__(self, cluster: RayCluster, workers: int | None = None) -> None:
        super().__init__()
        self._cluster, self._wanted = cluster, workers
        self._datasets: dict[str, Any] = {}
        self._loading = Lock()

    def train(
        self, folder: BatchFolder, jobs: Sequence[Job], checkpoint_every: float, observer: BatchObserver
    ) -> list[Failure]:
        """Train the jobs, and disconnect from the cluster."""
        try:
            self._nodes = [cores for node in self._cluster.nodes() if (cores := int(node.get("CPU", 0)))]
            self._cores = max(1, sum(self._nodes) if self._wanted is None else self._wanted)
            if len(jobs) >= len(self._nodes):
                return super().train(folder, jobs, checkpoint_every, observer)
            spread = partial(RayWorkers, cluster=self._cluster, count=self._cores, disconnect=False)
            return SerialExecutor(spread).train(folder, jobs, checkpoint_every, observer)
        finally:
            self._cluster.close()

    def divide(self, jobs: int) -> tuple[int, list[int]]:
        """Divide the cores of the cluster; each job gets the same."""
        # The threads of a job are on one node, so no job gets more than the largest node has.
        self._each = max(1, min(self._cores // max(1, jobs), max(self._nodes, default=1)))
        return max(1, self._cores // self._each), [self._each] * jobs

    def start_worker(self) -> Worker:
        """Start an actor with the cores of a job."""
        return RayWorker(self._cluster, JobWorker, cpus=self._each)

    @contextmanager
    def assigned(self, assignment: Assignment) -> Iterator[list[Any]]:
        """Hold the folder of the run, and send what it has so far."""
        config, run = assignment.job.run.config, self.folder.run(assignment.job.run.name)
        with run.held() if run.is_run else RunFolder.creating(run.path, config):
            yield [assignment._replace(files=resumable_files(run)), self._dataset(config)]

    def received(self, job: Job, report: JobReport) -> None:
        """Write the files that are new."""
        write_files(report.files, self.folder.run(job.run.name))

    def _dataset(self, config: RunConfig) -> Any:
        """Return the reference of a run's data set; None for a task of the user's, which has its own data."""
        if config.model.is_own:
            return None
        source = config.dataset.source
        with self._loading:
            if source not in self._datasets:
                self._datasets[source] = self._cluster.put(config.dataset.load())
            return self._datasets[source]
