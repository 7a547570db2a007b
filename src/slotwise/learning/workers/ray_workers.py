"""RayWorkers: local trainings by actors on the nodes of a Ray cluster.

The task is put into the cluster's object store once and each node fetches it once; so is each model, when its
first training starts, and it is dropped after its last. An actor or a node that is lost is replaced.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from threading import Event, Lock, Thread
from typing import Any

from slotwise.aggregation import Vector
from slotwise.errors import InputError, UserError
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.task import DeviceState, Evaluation, TrainingStart
from slotwise.learning.workers.ray_connection import (
    RayConnection,
    check_node_version,
    connect,
    last_line,
    node_version,
)
from slotwise.learning.workers.remote_workers import RemoteWorkers, WorkerLost, WorkersGone
from slotwise.learning.workers.task_worker import Failure, TaskWorker, cannot_be_sent, checked
from slotwise.learning.workers.worker_protocol import Job, Trained, WorkerPlan, Workers
from slotwise.scenario import whole

PROBE_INTERVAL, HEAD_TIMEOUT = 2.0, 20.0  # seconds; Ray ends a process without a head after 60
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
        cluster = connect(self.address)
        return lambda task: RayWorkers(task, cluster, self.count, self.gpus_per_worker)


class ClusterLost(WorkersGone):
    """The head of the cluster does not answer any more."""

    def __init__(self, head: str) -> None:
        super().__init__(
            f"lost the Ray cluster at {head}; everything until the last checkpoint is kept and can be resumed"
        )


class RayWorkers(RemoteWorkers):
    """Actors of a Ray cluster, which stays when they end."""

    def __init__(
        self,
        task: CheckedTask,
        cluster: RayConnection,
        count: int | None = None,
        gpus_per_worker: float = 0.0,
        *,
        disconnect: bool = True,
    ) -> None:
        """Start the actors; with ``disconnect``, closing them ends the connection to the cluster."""
        self._cluster, self._ray, self._disconnects = cluster, cluster.ray, disconnect
        self._options = {
            "num_cpus": 1,
            "num_gpus": gpus_per_worker,
            # `RemoteWorkers` replaces lost actors, because it also repeats their work.
            "max_restarts": 0,
            "scheduling_strategy": "SPREAD",
        }
        try:
            chosen = _count(_alive_nodes(self._ray), count, gpus_per_worker)
            _check_room(task, self._ray)
            self._shared = self._put(task)
        except BaseException:
            self._disconnect()
            raise
        self._models: dict[int, Any] = {}
        self._putting = Lock()
        self._worked = time.monotonic()
        self._ended = Event()
        # The threads that this starts use all of the above.
        super().__init__(task, chosen)
        Thread(target=self._watch_head, daemon=True).start()

    def start_worker(self) -> _Actor:
        """Start an actor on some node."""
        with self._errors():
            return _Actor(self, self._ray.remote(**self._options)(TaskActor).remote(self._shared))

    def model(self, round_number: int, vector: Vector, *, keep: bool) -> Any:
        """Return the reference of a model, which is put into the object store unless it is there.

        With ``keep`` it stays there until `drop`; without, as long as the reference exists.
        """
        # Two threads must not put the same model.
        with self._putting:
            found = self._models.get(round_number)
            if found is None:
                found = self._put(vector)
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
        self._ended.set()
        super().close()
        self._models.clear()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._disconnects:
            with suppress(ConnectionError):  # the head is lost
                self._ray.shutdown()

    def end(self, actor: Any) -> None:
        """End an actor; it may be gone already, with its node."""
        with suppress(Exception):
            self._ray.kill(actor)

    def call(self, method: Any, *arguments: Any, starting: bool = False) -> Any:
        """Call a method of an actor, and wait for its result.

        Raises:
            WorkerLost: the actor or its node is gone.
            WorkersGone: the head of the cluster does not answer, or no node can start a worker.
        """
        with self._errors():
            reference = method.remote(*arguments)
            while not self._ray.wait([reference], timeout=PROBE_INTERVAL)[0]:
                if self._gone is not None:
                    raise self._gone
                if self._closing:
                    raise WorkerLost("the training has ended")
                # While another worker is ready, this one only waits for a free core.
                if self.ready:
                    self._worked = time.monotonic()
                elif starting and time.monotonic() - self._worked > START_TIMEOUT:
                    raise WorkersGone(f"no node of the cluster at {self._cluster.head} can start a worker")
            result = self._ray.get(reference)
        self._worked = time.monotonic()
        return result

    def _put(self, value: object) -> Any:
        with self._errors():
            return self._ray.put(value)

    def _watch_head(self) -> None:
        """Give up when the head has not answered for a while; nodes may still work then."""
        answered = time.monotonic()
        while not self._ended.wait(PROBE_INTERVAL):
            if self._cluster.answers():
                answered = time.monotonic()
            elif time.monotonic() - answered > HEAD_TIMEOUT:
                self._give_up(ClusterLost(self._cluster.head))
                return

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate the errors of Ray."""
        errors = self._ray.exceptions
        try:
            yield
        except ConnectionError:  # with ray:// every call goes through the head
            raise ClusterLost(self._cluster.head) from None
        except (errors.ObjectStoreFullError, errors.OutOfDiskError):
            # These are RayErrors too, so they must come before them.
            full = "the object store of the Ray cluster is full; see ray start --object-store-memory"
            raise WorkersGone(full) from None
        except errors.RayError as error:
            # The methods of an actor raise nothing; loading its task or what it is called with may.
            if isinstance(error, errors.RayTaskError) or getattr(error, "actor_init_failed", False):
                loading = "a node of the cluster cannot load the task"
                raise WorkersGone(f"{loading}: {last_line(error)}") from None
            is_actor = isinstance(error, errors.RayActorError)  # with a text of many lines
            raise WorkerLost("its process or node was lost" if is_actor else last_line(error)) from None


class _Actor:
    """One actor, seen from here."""

    def __init__(self, workers: RayWorkers, actor: Any) -> None:
        self._workers, self._actor = workers, actor

    def load(self) -> None:
        check_node_version(*self._workers.call(self._actor.hello, starting=True))

    def train(self, jobs: Sequence[Job]) -> Trained:
        rounds = {job.start.round: job.model for job in jobs}
        references = [self._workers.model(number, model, keep=True) for number, model in rounds.items()]
        starts = [job.start for job in jobs]
        # Ray replaces references by objects only if they are arguments themselves, not inside a list.
        answer = checked(self._workers.call(self._actor.train, starts, list(rounds), *references))
        assert isinstance(answer, Trained)
        return answer

    def evaluate(self, round_number: int, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:
        # The evaluation may begin after `drop`: what it kept then would never be freed.
        reference = self._workers.model(round_number, model, keep=False)
        answer = checked(self._workers.call(self._actor.evaluate, reference, states))
        assert isinstance(answer, Evaluation)
        return answer

    def kill(self) -> None:
        self._workers.end(self._actor)

    def close(self) -> None:
        self._workers.end(self._actor)


class TaskActor:
    """A `TaskWorker` on a node. It knows nothing of the cluster."""

    def __init__(self, task: CheckedTask) -> None:
        self._worker = TaskWorker(task)

    def hello(self) -> tuple[str, str]:
        """Return the name of the node and its version of slotwise."""
        return node_version()

    def train(self, starts: Sequence[TrainingStart], rounds: Sequence[int], *models: Vector) -> Any:
        """Return the updates of local trainings on these models, or a Failure."""
        return self._worker.train(starts, dict(zip(rounds, models, strict=True)))

    def evaluate(self, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation | Failure:
        """Return the evaluation of a model, or a Failure."""
        return self._worker.evaluate(model, states)


def _alive_nodes(ray: Any) -> list[Mapping[str, float]]:
    """Return the resources of each node of the cluster."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _count(nodes: Sequence[Mapping[str, float]], asked: int | None, gpus_per_worker: float) -> int:
    """Return the number of workers; refuse more than the nodes have cores and GPUs for."""
    most = sum(_room(node, gpus_per_worker) for node in nodes)
    cores, gpus = (sum(int(node.get(name, 0)) for node in nodes) for name in ("CPU", "GPU"))
    has, needs = f"{cores} cores", "1 core"
    if gpus_per_worker:
        has, needs = f"{has} and {gpus} GPUs", f"{needs} and {gpus_per_worker:g} GPUs on one node"
    if most < 1:
        raise UserError(f"the Ray cluster has {has}, and a worker needs {needs}")
    if asked is not None and asked > most:
        raise InputError("workers", asked, f"from 1 to {most}: the cluster has {has}")
    return most if asked is None else asked


def _room(node: Mapping[str, float], gpus_per_worker: float) -> int:
    """Return how many workers one node has cores and GPUs for."""
    cores, gpus = int(node.get("CPU", 0)), int(node.get("GPU", 0))
    if not gpus_per_worker:
        return cores
    # Workers share a GPU, and none has parts of two.
    shares = int(1 / gpus_per_worker + 1e-9) * gpus
    return min(cores, shares if gpus_per_worker <= 1 else int(gpus / gpus_per_worker))


def _check_room(task: CheckedTask, ray: Any) -> None:
    """Refuse a task that cannot be pickled, or for which the object stores of the nodes are too small.

    Ray would use the disk instead of memory that is missing, and be slow without saying so.
    """
    large: list[pickle.PickleBuffer] = []
    try:
        rest = import_module("ray.cloudpickle").dumps(task, protocol=5, buffer_callback=large.append)
    except Exception as error:
        raise cannot_be_sent(task, error) from error
    needed = len(rest) + sum(buffer.raw().nbytes for buffer in large) + MODELS_AT_ONCE * 4 * task.size
    nodes = _alive_nodes(ray)
    smallest = min((int(node.get("object_store_memory", needed)) for node in nodes), default=needed)
    if needed > smallest:
        raise UserError(
            f"the object store of a node of the Ray cluster is too small: it has {smallest / 1e6:,.0f} MB, "
            f"and task, models and updates need {needed / 1e6:,.0f}; see ray start --object-store-memory"
        )
