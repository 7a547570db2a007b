"""RayCluster and RayWorker: objects in actors on the nodes of a Ray cluster, with one heartbeat for all."""

from __future__ import annotations

import pickle
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Event, Lock, Thread
from typing import Any

from slotwise.base.errors import InputError, UserError
from slotwise.base.extras import installed_version
from slotwise.workers.pool import ClusterLost, Failure, WorkerLost, WorkersGone
from slotwise.workers.ray_connection import answers, connect
from slotwise.workers.shared_object import pickled

PROBE_INTERVAL, HEAD_TIMEOUT = 2.0, 20.0  # seconds; Ray ends a process without a head after 60


class RayCluster:
    """A connection to a cluster that is running, until it is closed.

    Attributes:
        head: Address of the cluster's head.
        ready: How many workers have loaded and were not ended; ``lock`` is for those who count.
    """

    def __init__(self, ray: Any, head: str) -> None:
        """Use the ray module, which is connected."""
        self.ray, self.head, self.ready = ray, head, 0
        self._ended, self.lock = Event(), Lock()
        self._watching: Thread | None = None
        self._lost = False

    @classmethod
    def at(cls, address: str) -> RayCluster:
        """Connect to the cluster at an address: "auto", "HOST:PORT" of its head, or "ray://HOST:PORT"."""
        return cls(*connect(address))

    def nodes(self) -> list[Mapping[str, float]]:
        """Return the resources of each node."""
        with self.errors():
            return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    def put(self, value: object) -> Any:
        """Put an object into the object store; return its reference, with which it is freed."""
        with self.errors():
            return self.ray.put(value)

    def put_checked(self, value: object, name: str, further: int) -> Any:
        """Put an object that each node gets; there must be room for it and ``further`` bytes on all nodes.

        Ray would use the disk instead of memory that is missing, and be slow without saying so.

        Raises:
            UserError: it cannot be pickled, or the object store of a node is too small.
        """
        large: list[pickle.PickleBuffer] = []
        rest = pickled(import_module("ray.cloudpickle"), value, name, large.append)
        needed = len(rest) + sum(buffer.raw().nbytes for buffer in large) + further
        smallest = min(
            (int(node.get("object_store_memory", needed)) for node in self.nodes()), default=needed
        )
        if needed > smallest:
            raise UserError(
                f"the object store of a node of the Ray cluster is too small: it has {smallest / 1e6:,.0f} "
                f"MB, and {name} needs {needed / 1e6:,.0f}; see ray start --object-store-memory"
            )
        return self.put(value)

    def check_head(self) -> None:
        """Raise a ClusterLost if the head has not answered for a while; nodes may still work then."""
        if self._lost:
            raise self.lost()

    def lost(self) -> ClusterLost:
        """Return the error for a cluster whose head is lost."""
        kept = "everything until the last checkpoint is kept and can be resumed"
        return ClusterLost(f"lost the Ray cluster at {self.head}; {kept}")

    def await_head(self) -> None:
        """Return once the head answers; actors that are started without one are lost at once."""
        with self.lock:
            if self._watching is None:
                self._watching = Thread(target=self._watch_head, daemon=True)
                self._watching.start()
        while not answers(self.head):
            self.check_head()
            if self._ended.wait(PROBE_INTERVAL):
                raise WorkerLost("the connection to the cluster was closed")

    def _watch_head(self) -> None:
        answered = time.monotonic()
        while not self._ended.wait(PROBE_INTERVAL):
            if answers(self.head):
                answered = time.monotonic()
            elif time.monotonic() - answered > HEAD_TIMEOUT:
                self._lost = True
                return

    def close(self) -> None:
        """Disconnect; the cluster stays."""
        self._ended.set()
        with suppress(ConnectionError):  # the head is lost
            self.ray.shutdown()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Translate the errors of Ray."""
        errors = self.ray.exceptions
        try:
            yield
        except ConnectionError:  # with ray:// every call goes through the head
            raise self.lost() from None
        except (errors.ObjectStoreFullError, errors.OutOfDiskError):
            # These are RayErrors too, so they must come before them.
            full = "the object store of the Ray cluster is full; see ray start --object-store-memory"
            raise WorkersGone(full) from None
        except errors.RayError as error:
            # The methods of an actor raise nothing; making its object or what it is called with may.
            if isinstance(error, errors.RayTaskError) or getattr(error, "actor_init_failed", False):
                raise UserError(
                    f"a node of the cluster cannot load what it needs: {_last_line(error)}"
                ) from None
            is_actor = isinstance(error, errors.RayActorError)  # with a text of many lines
            reason = "" if is_actor else f": {_last_line(error)}"
            raise WorkerLost(f"its node or its process was lost{reason}") from None


class RayWorker:
    """A `Worker` on a node of a cluster. Arguments that are references get there as their objects."""

    def __init__(
        self,
        cluster: RayCluster,
        make: Callable[..., object],
        *arguments: Any,
        cpus: int = 1,
        gpus: float = 0.0,
        start_timeout: float | None = None,
    ) -> None:
        """Start an actor on some node, which calls ``make`` for its object.

        It waits for a free core; after ``start_timeout`` seconds without any other worker it gives up.
        """
        self._cluster, self._start_timeout, self._loaded, self._killed = cluster, start_timeout, False, False
        # A `Pool` replaces lost actors, because it also repeats their work.
        options = {"num_cpus": cpus, "num_gpus": gpus, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        cluster.await_head()
        with cluster.errors():
            self._actor = cluster.ray.remote(**options)(RayHost).remote(make, *arguments)

    def load(self) -> None:
        """Wait until the object is made; refuse a node with another version of slotwise."""
        end = time.monotonic() + (self._start_timeout or 0.0)

        def check() -> None:
            nonlocal end
            if self._cluster.ready:  # another worker works, and this one only waits for a free core
                end = time.monotonic() + (self._start_timeout or 0.0)
            if self._start_timeout is not None and time.monotonic() > end:
                raise WorkersGone(f"no node of the cluster at {self._cluster.head} can start a worker")

        node, installed = self._wait(self._actor.hello, check=check)
        if installed != (here := installed_version()):
            raise UserError(f"node {node} has slotwise {installed}; it must be {here}, as here")
        self._count(loaded=True)

    def call(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the object returns."""
        answer = self._wait(self._actor.call, method, *arguments)
        if isinstance(answer, Failure):
            raise answer.error()
        return answer

    def _wait(self, method: Any, *arguments: Any, check: Callable[[], None] = lambda: None) -> Any:
        """Call a method of the actor, and wait for its result; ``check`` is called meanwhile."""
        ray = self._cluster.ray
        self._cluster.check_head()  # nodes may answer for a while without a head
        with self._cluster.errors():
            reference = method.remote(*arguments)
            while not ray.wait([reference], timeout=PROBE_INTERVAL)[0]:
                self._cluster.check_head()
                if self._killed:
                    raise WorkerLost("its actor was ended")
                check()
            return ray.get(reference)

    def kill(self) -> None:
        """End the actor; it may be gone already, with its node."""
        self._killed = True
        with suppress(Exception):
            self._cluster.ray.kill(self._actor)

    def close(self) -> None:
        """End the actor on its node."""
        self._count(loaded=False)
        self.kill()

    def _count(self, *, loaded: bool) -> None:
        """Tell the cluster whether this worker is ready."""
        with self._cluster.lock:
            self._cluster.ready += loaded - self._loaded
            self._loaded = loaded


class RayHost:
    """The actor of a `RayWorker`: an object on a node. It knows nothing of the cluster."""

    def __init__(self, make: Callable[..., object], *arguments: Any) -> None:
        self._object = make(*arguments)

    def hello(self) -> tuple[str, str]:
        """Return the name of the node and its version of slotwise."""
        return platform.node(), installed_version()

    def call(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the object returns, or a Failure."""
        try:
            return getattr(self._object, method)(*arguments)
        except (Exception, SystemExit) as error:  # one that exits must not end the worker: others would, too
            return Failure.of(error)


def worker_count(nodes: Sequence[Mapping[str, float]], asked: int | None, gpus_per_worker: float) -> int:
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


def _last_line(error: Exception) -> str:
    """Return the last line of an error of Ray: those before it are the traceback on a node."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
