"""Jobs on a Ray cluster without a cluster: Ray is simulated, its workers are real."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slotwise.base.errors import UserError
from slotwise.batch import (
    BatchFolder,
    BatchObserver,
    BatchSpec,
    Failure,
    Job,
    JobProgress,
    Run,
    run_jobs,
    unfinished,
)
from slotwise.batch.executors import PoolExecutor, SerialExecutor
from slotwise.batch.ray_executor import RayExecutor
from slotwise.runs import RunConfig, RunFolder

from ..simulated_ray import RayActorError, SimulatedRay, cluster_of

Read = Callable[[str], BatchSpec]
TWO = "learning-rate = [0.01, 0.02]"
LONG = "deadline = 4000\nevaluate-every = 2000"  # long enough for a checkpoint to come back


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[BatchFolder]:
    found = BatchFolder(tmp_path / "out")
    with found.locked():
        yield found


Train = Callable[..., tuple[Failure, ...]]


@pytest.fixture
def trained(folder: BatchFolder, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Trains a batch on one worker after another; returns the failures."""
    monkeypatch.setattr(RayExecutor, "report_seconds", 0.05)

    def train(
        ray: SimulatedRay, spec: BatchSpec, observer: BatchObserver | None = None, *, answers: bool = True
    ):
        executor = RayExecutor(cluster_of(ray, monkeypatch, answers=answers), 1)
        return run_jobs(folder, unfinished(folder, spec.runs), executor, observer, checkpoint_every=0.05)

    return train


def statuses(folder: BatchFolder) -> list[str]:
    return [RunFolder(path).status for path in sorted(folder.runs.iterdir())]


def test_points_come_back_as_if_they_were_trained_here_and_data_is_sent_once(
    read: Read, folder: BatchFolder, trained: Train, train_all, outcome, tmp_path: Path
) -> None:
    spec, here, ray = read(TWO), BatchFolder(tmp_path / "here"), SimulatedRay()
    train_all(here, spec)
    assert trained(ray, spec) == ()
    assert outcome(folder) == outcome(here)
    assert (len(ray.puts), ray.shut) == (1, 1)


def test_a_task_of_the_user_needs_no_built_in_data(
    own_task: dict[str, Any], folder: BatchFolder, trained: Train
) -> None:
    ray = SimulatedRay()
    assert trained(ray, BatchSpec.of({"own": own_task})) == ()
    assert (ray.puts, statuses(folder)) == ([], ["finished"])


def test_a_cluster_that_is_lost_ends_a_sweep(read: Read, trained: Train) -> None:
    ray = SimulatedRay(lambda number, name: ConnectionError("GRPC failed") if name == "job_report" else None)
    with pytest.raises(UserError, match=r"^lost the Ray cluster at head:1"):
        trained(ray, read(TWO))
    assert ray.shut == 1


class Notes(BatchObserver):
    """How far a point was when it was begun, each time."""

    def __init__(self) -> None:
        self.first: list[int] = []
        self.reasons: list[str] = []
        self._new = True

    def job_started(self, job: Job) -> None:
        self._new = True

    def job_progress(self, job: Job, progress: JobProgress) -> None:
        if self._new:
            self.first.append(progress.done)
        self._new = False

    def job_retried(self, job: Job, reason: str) -> None:
        self.reasons.append(reason)


def test_a_point_whose_node_is_lost_goes_on_from_what_has_come_back(
    read: Read, folder: BatchFolder, trained: Train, train_all, outcome, tmp_path: Path
) -> None:
    spec, here, notes = read(LONG), BatchFolder(tmp_path / "here"), Notes()
    train_all(here, spec)

    def fate(number: int, name: str) -> Exception | None:
        come_back = list(folder.runs.glob("*/checkpoints/*.checkpoint"))
        return RayActorError("lost") if number == 1 and name == "job_report" and come_back else None

    assert trained(SimulatedRay(fate), spec, notes) == ()
    assert notes.reasons == ["its node or its process was lost"]
    assert notes.first[-1] > 0
    assert outcome(folder) == outcome(here)


@pytest.mark.parametrize("held", [0, 1])
def test_a_run_that_another_process_trains_stops_no_other(
    read: Read, folder: BatchFolder, trained: Train, held: int
) -> None:
    spec = read(TWO)
    run = spec.runs[held]
    with RunFolder.create(folder.run(run.name).path, run.config).held():
        (failure,) = trained(SimulatedRay(), spec)
    assert failure.run == run
    assert "another process is training this run" in failure.reason
    assert sorted(statuses(folder)) == ["finished", "running"]


@pytest.mark.parametrize(
    ("jobs", "workers", "size", "threads"), [(1, None, 1, 2), (2, None, 2, 1), (8, None, 2, 1), (8, 5, 5, 1)]
)
def test_there_are_as_many_workers_as_cores_that_are_there_or_as_is_said(
    folder: BatchFolder,
    monkeypatch: pytest.MonkeyPatch,
    jobs: int,
    workers: int | None,
    size: int,
    threads: int,
) -> None:
    executor = RayExecutor(cluster_of(SimulatedRay(), monkeypatch), workers)
    monkeypatch.setattr(PoolExecutor, "train", lambda self, *_: self.divide(jobs))
    found: Any = executor.train(folder, [Job(Run("one", RunConfig()))] * jobs, 1.0, BatchObserver())
    assert found == (size, [threads] * jobs)


def test_few_jobs_are_trained_from_here_with_workers_on_all_nodes(
    folder: BatchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = SimulatedRay()
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 2.0}}] * 3)
    monkeypatch.setattr(
        SerialExecutor, "train", lambda self, folder, jobs, *_: [self._workers.keywords, *jobs]
    )
    executor, job = RayExecutor(cluster_of(ray, monkeypatch)), Job(Run("one", RunConfig()))
    how, *jobs = executor.train(folder, [job, job], 1.0, BatchObserver())
    assert (how["count"], jobs) == (6, [job, job])
    assert ray.shut == 1
