"""Workers on a Ray cluster without a cluster: Ray is simulated. Real nodes: learning/workers, batch."""

import pytest

from slotwise.base.errors import UserError
from slotwise.workers import ClusterLost, WorkerLost, WorkersGone, ray_cluster
from slotwise.workers.ray_cluster import RayHost, RayWorker, worker_count

from ..simulated_ray import (
    Fate,
    ObjectStoreFullError,
    RayActorError,
    RayError,
    RayTaskError,
    SimulatedRay,
    cluster_of,
)


class Adder:
    """The object of the workers."""

    def __init__(self, first: int) -> None:
        self._first = first

    def add(self, second: int) -> int:
        return self._first + second

    def fail(self) -> None:
        raise ZeroDivisionError("no samples")

    def leave(self) -> None:
        raise SystemExit(3)


def fate(method: str, error: Exception) -> Fate:
    return lambda number, name: error if name == method else None


def test_methods_are_called_on_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = SimulatedRay()
    cluster = cluster_of(ray, monkeypatch)
    worker = RayWorker(cluster, Adder, 3, cpus=2, gpus=0.5)
    worker.load()
    assert (worker.call("add", 4), cluster.ready) == (7, 1)
    assert (ray.options[0]["num_cpus"], ray.options[0]["num_gpus"], ray.options[0]["max_restarts"]) == (
        2,
        0.5,
        0,
    )
    for method, message in (("fail", "ZeroDivisionError: no samples"), ("leave", "SystemExit: 3")):
        with pytest.raises(UserError, match=message):
            worker.call(method)
    worker.close()
    worker.close()
    cluster.close()
    assert (cluster.ready, ray.shut) == (0, 1)


LOST = "its node or its process was lost"


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (RayActorError("The actor died.\nMany\nlines"), WorkerLost, f"^{LOST}$"),
        (RayError("object\nlost"), WorkerLost, f"^{LOST}: lost$"),
        (RayTaskError("Traceback\nModuleNotFoundError: my_task"), UserError, "load .*: ModuleNotFoundError"),
        (ConnectionError("GRPC connection failed"), ClusterLost, "^lost the Ray cluster at head:1; "),
        (ObjectStoreFullError(), WorkersGone, "the object store of the Ray cluster is full"),
    ],
)
@pytest.mark.parametrize("method", ["hello", "add"])
def test_errors_of_ray_say_who_is_lost(
    monkeypatch: pytest.MonkeyPatch, method: str, error: Exception, kind: type[Exception], message: str
) -> None:
    cluster = cluster_of(SimulatedRay(fate(method, error)), monkeypatch)
    worker = RayWorker(cluster, Adder, 3)
    if method == "add":
        worker.load()
    with pytest.raises(kind, match=message):
        worker.load() if method == "hello" else worker.call("add", 4)
    worker.close()
    cluster.close()


def test_a_node_with_another_slotwise_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RayHost, "hello", lambda host: ("node 7", "0.0.1"))
    cluster = cluster_of(SimulatedRay(), monkeypatch)
    with pytest.raises(UserError, match=r"^node node 7 has slotwise 0\.0\.1"):
        RayWorker(cluster, Adder, 3).load()
    cluster.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "PROBE_INTERVAL", 0.001)
    monkeypatch.setattr(ray_cluster, "HEAD_TIMEOUT", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_head_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = SimulatedRay(ready=False)
    cluster = cluster_of(ray, monkeypatch)
    worker = RayWorker(cluster, Adder, 3)
    monkeypatch.setattr(ray_cluster, "answers", lambda head: False)
    with pytest.raises(ClusterLost):  # by who waits for a result
        worker.load()
    with pytest.raises(ClusterLost):  # and by who starts another worker
        RayWorker(cluster, Adder, 3)
    assert ray.made == 1
    cluster.close()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("end", ["kill", "close"])
def test_a_worker_that_is_ended_waits_for_nothing(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    cluster = cluster_of(SimulatedRay(ready=False), monkeypatch)
    worker = RayWorker(cluster, Adder, 3)
    getattr(worker, end)()
    with pytest.raises(WorkerLost):
        worker.load()
    cluster.close()


@pytest.mark.usefixtures("impatient")
def test_without_any_worker_a_start_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of(SimulatedRay(ready=False), monkeypatch)
    worker = RayWorker(cluster, Adder, 3, start_timeout=0.0)
    with pytest.raises(WorkersGone, match="no node of the cluster at head:1 can start a worker"):
        worker.load()
    cluster.close()


@pytest.mark.parametrize(
    ("nodes", "asked", "gpus", "count"),
    [
        ([{"CPU": 4.0}], None, 0, 4),
        ([{"CPU": 4.0}, {"CPU": 2.0}, {}], None, 0, 6),
        ([{"CPU": 4.0}], 3, 0, 3),
        ([{"CPU": 8.0, "GPU": 1.0}], None, 0.25, 4),
        ([{"CPU": 8.0, "GPU": 3.0}] * 2, None, 2, 2),  # a third pair of GPUs is in no node
        ([{"CPU": 8.0}, {"CPU": 1.0, "GPU": 8.0}], None, 1, 1),  # nor are seven more cores with a GPU
    ],
)
def test_there_are_as_many_workers_as_cores_and_shares_of_gpus(
    nodes: list[dict[str, float]], asked: int | None, gpus: float, count: int
) -> None:
    assert worker_count(nodes, asked, gpus) == count


@pytest.mark.parametrize(
    ("nodes", "asked", "gpus"),
    [
        ([{"CPU": 4.0}], 5, 0),
        ([{"CPU": 4.0}], None, 0.5),
        ([{"CPU": 4.0, "GPU": 1.0}], 3, 0.5),
        ([{"CPU": 4.0, "GPU": 2.0}] * 2, None, 4),
        ([{}], None, 0),
        ([], None, 0),
    ],
)
def test_more_workers_than_the_cluster_has_room_for_are_refused(
    nodes: list[dict[str, float]], asked: int | None, gpus: float
) -> None:
    with pytest.raises(UserError, match="cluster has"):
        worker_count(nodes, asked, gpus)
