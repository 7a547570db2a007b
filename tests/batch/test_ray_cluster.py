"""The executor and workers of a Ray cluster without a cluster: Ray is simulated, its workers are real."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slotwise.batch import (
    BatchFolder,
    BatchSpec,
    Failure,
    Job,
    JobProgress,
    ray_cluster,
    run_jobs,
    unfinished,
)
from slotwise.batch.job import BatchObserver
from slotwise.batch.ray_cluster import (
    ChangedFiles,
    JobReport,
    RayExecutor,
    RayWorker,
    resumable_files,
    write_files,
)
from slotwise.data import Dataset, load_mnist
from slotwise.errors import UserError
from slotwise.runs import RunConfig, RunFolder, resume
from slotwise.runs import run as train_run

Read = Callable[[str], BatchSpec]
TWO = "learning-rate = [0.01, 0.02]"
LONG = "deadline = 4000\nevaluate-every = 2000"  # long enough for a checkpoint to come back
LOST = "lost the Ray cluster at head:1"


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class Actor:
    """A trainer; ``fate`` may put an error in the place of an answer."""

    def __init__(self, number: int, worker: RayWorker, fate: Callable[[int, str], Exception | None]) -> None:
        self._number, self._worker, self._fate = number, worker, fate
        self._at_work = False

    def __getattr__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(remote=lambda *values: self._called(name, values))

    def _called(self, name: str, values: tuple[object, ...]) -> Callable[[], object]:
        def answer() -> object:
            if error := self._fate(self._number, name):
                raise error
            result = getattr(self._worker, name)(*values)
            self._at_work = name == "begin" or (name == "report" and not result.over)
            return result

        return answer

    def end(self) -> None:
        """Its thread is a thread of the tests."""
        self._worker.stop()
        while self._at_work:
            self._at_work = not self._worker.report().over


class SimulatedRay:
    """As much of Ray as the executor uses."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, fate: Callable[[int, str], Exception | None] = lambda number, name: None) -> None:
        self._fate = fate
        self.made = self.shut = 0
        self.puts: list[object] = []

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 64.0}}]

    def put(self, value: object) -> object:
        self.puts.append(value)
        return value

    def remote(self, **options: object) -> Callable[[type[RayWorker]], SimpleNamespace]:
        def make(kind: type[RayWorker]) -> Actor:
            self.made += 1
            return Actor(self.made, kind(), self._fate)

        return lambda kind: SimpleNamespace(remote=lambda: make(kind))

    def wait(self, calls: list[object], timeout: float) -> tuple[list[object], list[object]]:
        return calls, []

    def get(self, call: Callable[[], object]) -> object:
        return call()

    def kill(self, actor: Actor) -> None:
        actor.end()

    def shutdown(self) -> None:
        self.shut += 1


class Cluster:
    """A connection to it."""

    head = "head:1"

    def __init__(self, ray: SimulatedRay, there: bool = True) -> None:
        self.ray, self.there = ray, there

    def answers(self) -> bool:
        return self.there


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[BatchFolder]:
    found = BatchFolder(tmp_path / "out")
    with found.locked():
        yield found


def trained(
    ray: SimulatedRay, folder: BatchFolder, spec: BatchSpec, observer: BatchObserver | None = None
) -> tuple[Failure, ...]:
    """Train a batch on one worker after another; return the failures."""
    executor = RayExecutor(Cluster(ray), 1)  # type: ignore[arg-type]
    return run_jobs(folder, unfinished(folder, spec.runs), executor, observer, checkpoint_every=0.05)


def statuses(folder: BatchFolder) -> list[str]:
    return [RunFolder(path).status for path in sorted(folder.runs.iterdir())]


def test_points_come_back_as_if_they_were_trained_here_and_data_is_sent_once(
    read: Read, folder: BatchFolder, train_all, outcome, tmp_path: Path
) -> None:
    spec, here, ray = read(TWO), BatchFolder(tmp_path / "here"), SimulatedRay()
    train_all(here, spec)
    assert trained(ray, folder, spec) == ()
    assert outcome(folder) == outcome(here)
    assert (len(ray.puts), ray.shut) == (1, 1)


OWN_TASK = """
import numpy as np

class Task:
    def initial_model(self):
        return np.ones(3, dtype=np.float32)

    def local_update(self, model, start):
        return model / 2

    def evaluate(self, model):
        return float(model.sum()), 0.5

    def named_arrays(self, model):
        return {"model": model}

def make_task(config):
    return Task()
"""


def test_a_task_of_the_user_needs_no_built_in_data(
    folder: BatchFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "task_on_ray.py").write_text(OWN_TASK)
    monkeypatch.syspath_prepend(tmp_path)
    options = {"devices": 4, "group_size": 2, "compute_slots": 4, "deadline": 60}
    ray, spec = SimulatedRay(), BatchSpec.of({"own": {**options, "task": "task_on_ray:make_task"}})
    assert trained(ray, folder, spec) == ()
    assert (ray.puts, statuses(folder)) == ([], ["finished"])


def test_workers_that_are_lost_before_they_greet_end_a_sweep_at_last(read: Read, folder: BatchFolder) -> None:
    ray = SimulatedRay(lambda number, name: RayError("its node\nhas no memory"))
    with pytest.raises(UserError, match=r"^the cluster cannot start slotwise: has no memory$"):
        trained(ray, folder, read(TWO))
    assert ray.made == ray_cluster.FALSE_STARTS


def test_a_worker_that_comes_up_resets_the_count_of_false_starts(read: Read, folder: BatchFolder) -> None:
    def fate(number: int, name: str) -> Exception | None:
        lost = (name == "hello" and number in (1, 2, 4, 5)) or (name == "report" and number == 3)
        return RayError("lost") if lost else None

    ray = SimulatedRay(fate)
    assert trained(ray, folder, read("")) == ()
    assert (ray.made, statuses(folder)) == (6, ["finished"])


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
    read: Read, folder: BatchFolder, train_all, outcome, tmp_path: Path
) -> None:
    spec, here, notes = read(LONG), BatchFolder(tmp_path / "here"), Notes()
    train_all(here, spec)

    def fate(number: int, name: str) -> Exception | None:
        come_back = list(folder.runs.glob("*/checkpoints/*.checkpoint"))
        return RayError("lost") if number == 1 and name == "report" and come_back else None

    assert trained(SimulatedRay(fate), folder, spec, notes) == ()
    assert notes.reasons == ["its node or its process was lost"]
    assert notes.first[-1] > 0
    assert outcome(folder) == outcome(here)


def test_a_node_with_another_slotwise_is_named(
    read: Read, folder: BatchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RayWorker, "hello", lambda worker: ("node 7", "0.0.1"))
    with pytest.raises(UserError, match=r"^node node 7 has slotwise 0\.0\.1"):
        trained(SimulatedRay(), folder, read(TWO))


def test_a_node_without_slotwise_is_told(read: Read, folder: BatchFolder) -> None:
    ray = SimulatedRay(lambda number, name: RayTaskError("Traceback:\nModuleNotFoundError: slotwise"))
    with pytest.raises(UserError, match="cannot run slotwise: ModuleNotFoundError: slotwise"):
        trained(ray, folder, read(TWO))


@pytest.mark.parametrize("held", [0, 1])
def test_a_run_that_another_process_trains_stops_no_other(read: Read, folder: BatchFolder, held: int) -> None:
    spec = read(TWO)
    run = spec.runs[held]
    with RunFolder.create(folder.run(run.name).path, run.config).held():
        (failure,) = trained(SimulatedRay(), folder, spec)
    assert failure.run == run
    assert "another process is training this run" in failure.reason
    assert sorted(statuses(folder)) == ["finished", "running"]


@pytest.mark.parametrize("call", ["hello", "begin", "report"])
def test_a_head_that_is_lost_to_a_client_is_told(read: Read, folder: BatchFolder, call: str) -> None:
    ray = SimulatedRay(
        lambda number, name: ConnectionError("GRPC connection failed") if name == call else None
    )
    with pytest.raises(UserError, match=f"^{LOST}"):
        trained(ray, folder, read(TWO))
    assert ray.shut == 1


def test_a_head_that_does_not_answer_any_more_is_told(
    read: Read, folder: BatchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_cluster, "PROBE_INTERVAL", 0.0)
    monkeypatch.setattr(ray_cluster, "HEAD_TIMEOUT", 0.0)
    executor = RayExecutor(Cluster(SimulatedRay(), there=False), 1)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=f"^{LOST}"):
        run_jobs(folder, unfinished(folder, read("").runs), executor)


@pytest.mark.parametrize(
    ("jobs", "workers", "started"), [(1, None, 1), (2, None, 2), (8, None, 2), (8, 5, 5)]
)
def test_there_are_as_many_workers_as_cores_that_are_there_or_as_is_said(
    folder: BatchFolder, read: Read, jobs: int, workers: int | None, started: int
) -> None:
    ray = SimulatedRay()
    executor = RayExecutor(Cluster(ray), workers)  # type: ignore[arg-type]
    executor.open(folder, jobs, 1.0, BatchObserver())
    assert not executor.submit(unfinished(folder, read("").runs)[0], jobs)
    assert ray.made == started
    executor.close()


@pytest.fixture(scope="module")
def mnist() -> Dataset:
    return load_mnist()


def begun(worker: RayWorker, folder: BatchFolder, spec: BatchSpec, mnist: Dataset) -> RunFolder:
    (run,) = spec.runs
    own = RunFolder.create(folder.run(run.name).path, run.config)
    worker.begin(Job(run), 1, 0.0, resumable_files(own), mnist)
    return own


def all_reports(worker: RayWorker) -> list[JobReport]:
    reports = [worker.report()]
    while not reports[-1].over:
        reports.append(worker.report())
    return reports


def test_a_job_comes_back_as_if_it_were_trained_here(
    read: Read, train_all, outcome, tmp_path: Path, mnist: Dataset
) -> None:
    spec, here, there = read(""), BatchFolder(tmp_path / "here"), BatchFolder(tmp_path / "there")
    train_all(here, spec)
    worker = RayWorker()
    own = begun(worker, there, spec, mnist)
    for report in all_reports(worker):
        write_files(report.files, own)
    assert outcome(there) == outcome(here)


def test_a_worker_that_is_asked_to_stop_sends_its_checkpoint(
    read: Read, tmp_path: Path, mnist: Dataset
) -> None:
    worker = RayWorker()
    own = begun(worker, BatchFolder(tmp_path / "out"), read("deadline = 100_000"), mnist)
    first = worker.report()
    worker.stop()
    for report in [first, *all_reports(worker)]:
        write_files(report.files, own)
    assert own.status == "interrupted"
    assert own.checkpoints.newest() is not None


def test_a_failure_is_told(read: Read, tmp_path: Path, mnist: Dataset) -> None:
    worker = RayWorker()
    begun(worker, BatchFolder(tmp_path / "out"), read("samples-per-device = 50_000"), mnist)
    assert "InputError: samples_per_device" in (all_reports(worker)[-1].reason or "")


def test_the_folder_on_the_node_is_gone_afterwards(
    read: Read, tmp_path: Path, mnist: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    worker = RayWorker()
    begun(worker, BatchFolder(tmp_path / "out"), read(""), mnist)
    assert list((tmp_path / "scratch").iterdir())
    all_reports(worker)
    assert list((tmp_path / "scratch").iterdir()) == []


class Until(BatchObserver):
    """Stops after some rounds."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def round_done(self, round_number: int) -> None:
        self.left -= 1

    def wants_stop(self) -> bool:
        return self.left <= 0


@pytest.fixture
def config(read: Read) -> RunConfig:
    return read("").points[0].run.config


@pytest.fixture
def broken(tmp_path: Path, config: RunConfig) -> RunFolder:
    """A run that was stopped after three rounds."""
    return RunFolder(train_run(config, tmp_path / "broken", observer=Until(3)).folder)


def test_a_run_goes_on_elsewhere_and_comes_back_the_same(
    broken: RunFolder, config: RunConfig, tmp_path: Path
) -> None:
    away = RunFolder(tmp_path / "away")
    write_files(resumable_files(broken), away)
    history, _ = away.checkpoints.load()
    assert history is not None
    assert history.rounds == 3
    changes = ChangedFiles(away)
    resume(away)
    write_files(changes.take(over=True), broken)
    whole = RunFolder(train_run(config, tmp_path / "whole").folder)
    assert broken.description()["model_sha256"] == whole.description()["model_sha256"]
    for name in ("history.csv", "model.npz"):
        assert (broken.path / name).read_bytes() == (whole.path / name).read_bytes()
    assert broken.status == "finished"


def test_only_what_is_new_is_sent(broken: RunFolder, config: RunConfig) -> None:
    changes = ChangedFiles(broken)
    assert changes.take(over=False) == {}
    resume(broken, observer=Until(2))
    assert set(changes.take(over=False)) == {"checkpoint", "history.csv"}
    assert changes.take(over=False) == {}
    assert set(changes.take(over=True)) == {"history.csv", "model.npz", "run.json"}


def test_a_checkpoint_that_is_damaged_on_the_way_is_refused(broken: RunFolder, tmp_path: Path) -> None:
    files = resumable_files(broken)
    files["checkpoint"] = files["checkpoint"][:-1]
    with pytest.raises(UserError, match="a checkpoint arrived damaged"):
        write_files(files, RunFolder(tmp_path / "away"))
