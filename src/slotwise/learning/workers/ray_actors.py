"""RayWorkers: local trainings by actors on the nodes of a Ray cluster.

The task is put into the cluster's object store once and each node fetches it once; so is each model, when its
first training starts, and it is dropped after its last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, cast

from slotwise.aggregation import Vector
from slotwise.base.errors import InputError
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.task import DeviceState, Evaluation
from slotwise.learning.workers.processes import RemoteWorkers, TaskWorker
from slotwise.learning.workers.threads import Trained, TrainingJob, WorkerPlan, Workers
from slotwise.options.checks import whole
from slotwise.workers.ray_cluster import RayCluster, RayWorker, worker_count

START_TIMEOUT = 120.0  # seconds without any worker
MODELS_AT_ONCE = 4  # on a node, at least: a model and an update of two trainings


@dataclass(frozen=True)
class RayActors:
    """Compute local trainings on a Ray cluster that is running. Needs the extra ``slotwise[ray]``.

    Attributes:
        address: Address of the cluster: "auto", "HOST:PORT" of its head, or "ray://HOST:PORT".
        count: Workers, each with one core. Default: one for each core of the cluster, or for each share of a
            GPU.
        gpus_per_worker: GPUs of a worker; several may share one, as with 0.25.
    """

    address: str = "auto"
    count: int | None = None
    gpus_per_worker: float = 0.0

    def __post_init__(self) -> None:
        if self.count is not None:
            whole("workers", self.count)
        gpus = self.gpus_per_worker
        if not 0 <= gpus <= 16 or (gpus > 1 and gpus != int(gpus)):
            raise InputError("gpus_per_worker", gpus, "a number from 0 to 1, or a whole number up to 16")

    def __call__(self, task: CheckedTask) -> Workers:
        """Connect to the cluster, and start the actors."""
        return self.connected()(task)

    def connected(self) -> WorkerPlan:
        """Connect to the cluster now; the actors are started later, once."""
        cluster = RayCluster.at(self.address)
        return lambda task: RayWorkers(task, cluster, self.count, self.gpus_per_worker)


class RayWorkers(RemoteWorkers):
    """Actors of a Ray cluster, which stays when they end."""

    def __init__(
        self,
        task: CheckedTask,
        cluster: RayCluster,
        count: int | None = None,
        gpus_per_worker: float = 0.0,
        *,
        disconnect: bool = True,
    ) -> None:
        """Start the actors; with ``disconnect``, closing them ends the connection to the cluster."""
        self._cluster, self._disconnects = cluster, disconnect
        try:
            chosen = worker_count(cluster.nodes(), count, gpus_per_worker)
            name, room = f"task {task.name}", MODELS_AT_ONCE * 4 * task.size
            shared = cluster.put_checked(task, name, room)
        except BaseException:
            self._disconnect()
            raise
        self._models: dict[int, Any] = {}
        self._putting = Lock()
        # The threads that this starts use all of the above.
        super().__init__(task, chosen, lambda: _TaskActor(self, cluster, shared, gpus_per_worker))

    def model(self, round_number: int, vector: Vector, *, keep: bool) -> Any:
        """Return the reference of a model, which is put into the object store unless it is there.

        With ``keep`` it stays there until `drop`; without, as long as the reference exists.
        """
        # Two threads must not put the same model.
        with self._putting:
            found = self._models.get(round_number)
            if found is None:
                found = self._cluster.put(vector)
                if keep:
                    self._models[round_number] = found
            return found

    def drop(self, rounds: Collection[int]) -> None:
        """Free these models in the object store."""
        with self._putting:
            for number in rounds:
                self._models.pop(number, None)

    def close(self) -> None:
        """Drop all work, end the actors, and disconnect."""
        super().close()
        self._models.clear()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._disconnects:
            self._cluster.close()


class _TaskActor(RayWorker):
    """An actor that holds the task."""

    def __init__(self, workers: RayWorkers, cluster: RayCluster, task: Any, gpus: float) -> None:
        super().__init__(cluster, TaskWorker, task, gpus=gpus, start_timeout=START_TIMEOUT)
        self._workers = workers

    def train(self, jobs: Sequence[TrainingJob]) -> Trained:
        rounds = {job.start.round: job.model for job in jobs}
        # Ray replaces references by objects only if they are arguments themselves, not inside a list.
        references = [self._workers.model(number, model, keep=True) for number, model in rounds.items()]
        return cast(Trained, self.call("train", [job.start for job in jobs], list(rounds), *references))

    def evaluate(self, round_number: int, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:
        # The evaluation may begin after `drop`: what it kept then would never be freed.
        reference = self._workers.model(round_number, model, keep=False)
        return cast(Evaluation, self.call("evaluate", reference, states))
