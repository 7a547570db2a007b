"""A worker of jobs: what it reports, and the files that come back from a node. No process is started."""

from collections.abc import Callable
from pathlib import Path

import pytest

from slotwise.base.errors import UserError
from slotwise.batch import BatchFolder, BatchSpec, Job, job_worker
from slotwise.batch.job_worker import (
    Assignment,
    ChangedFiles,
    JobReport,
    JobWorker,
    TaskCache,
    resumable_files,
    write_files,
)
from slotwise.data import Dataset, load_mnist
from slotwise.runs import Observer, RunConfig, RunFolder, resume
from slotwise.runs import run as train_run

Read = Callable[[str], BatchSpec]


@pytest.fixture(scope="module")
def mnist() -> Dataset:
    return load_mnist()


def begun(worker: JobWorker, folder: BatchFolder, spec: BatchSpec, mnist: Dataset) -> RunFolder:
    """Begin the run of a batch on a node."""
    (run,) = spec.runs
    own = RunFolder.create(folder.run(run.name).path, run.config)
    worker.begin(Assignment(Job(run), 1, 0.0, None, resumable_files(own)), mnist)
    return own


def all_reports(worker: JobWorker, *, stop: bool = False) -> list[JobReport]:
    reports = [worker.job_report(0.1, stop)]
    while not reports[-1].over:
        reports.append(worker.job_report(0.1, stop))
    return reports


def test_a_job_comes_back_as_if_it_were_trained_here_and_leaves_nothing_on_the_node(
    read: Read, train_all, outcome, tmp_path: Path, mnist: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, here, there = read(""), BatchFolder(tmp_path / "here"), BatchFolder(tmp_path / "there")
    train_all(here, spec)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    worker = JobWorker()
    own = begun(worker, there, spec, mnist)
    assert list((tmp_path / "scratch").iterdir())
    reports = all_reports(worker)
    for report in reports:
        write_files(report.files, own)
    assert outcome(there) == outcome(here)
    assert list((tmp_path / "scratch").iterdir()) == []
    last = [report.progress[-1] for report in reports if report.progress][-1]
    assert last.done == last.rounds


def test_a_worker_in_the_folder_of_the_batch_trains_one_job_after_another(
    read: Read, train_all, outcome, tmp_path: Path
) -> None:
    spec = read("learning-rate = [0.01, 0.02]")
    here, there = BatchFolder(tmp_path / "here"), BatchFolder(tmp_path / "there")
    train_all(here, spec)
    worker = JobWorker(there)
    for run in spec.runs:
        worker.begin(Assignment(Job(run), 1, 1000.0, None))
        last = all_reports(worker)[-1]
        assert (last.reason, last.files) == (None, {})
    assert outcome(there) == outcome(here)


def test_a_worker_that_is_asked_to_stop_sends_its_checkpoint(
    read: Read, tmp_path: Path, mnist: Dataset
) -> None:
    worker = JobWorker()
    own = begun(worker, BatchFolder(tmp_path / "out"), read("deadline = 100_000"), mnist)
    first = worker.job_report(0.1, False)
    for report in [first, *all_reports(worker, stop=True)]:
        write_files(report.files, own)
    assert own.status == "interrupted"
    assert own.checkpoints.newest() is not None


def test_a_failure_is_told(read: Read, tmp_path: Path, mnist: Dataset) -> None:
    worker = JobWorker()
    begun(worker, BatchFolder(tmp_path / "out"), read("samples-per-device = 50_000"), mnist)
    assert "InputError: samples_per_device" in (all_reports(worker)[-1].reason or "")


def test_a_worker_waits_for_a_predecessor_that_still_saves_the_run(
    read: Read, outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, (run,) = BatchFolder(tmp_path / "out"), read("").runs
    predecessor = RunFolder.create(folder.run(run.name).path, run.config).held()
    predecessor.__enter__()
    waited = []

    def end_predecessor(seconds: float) -> None:
        waited.append(seconds)
        predecessor.__exit__(None, None, None)

    monkeypatch.setattr(job_worker.time, "sleep", end_predecessor)
    worker = JobWorker(folder)
    worker.begin(Assignment(Job(run), 1, 1000.0, None))
    assert all_reports(worker)[-1].reason is None
    assert len(waited) == 1
    assert set(outcome(folder)) == {run.name}


def test_runs_that_differ_in_their_schedule_share_a_task() -> None:
    cache, config = TaskCache(), RunConfig().with_options(devices=4, group_size=2, samples_per_device=20)
    task = cache.make(config)
    assert cache.make(config.with_options(group_size=4, schedule="sync", aggregation="fedbuff")) is task
    changed = ({"seed": 1}, {"devices": 5}, {"learning_rate": 0.5}, {"bits": 8}, {"hidden": (3,)})
    for other in (*changed, {"attack": "noise", "attack_share": 0.5}):
        assert cache.make(config.with_options(**other)) is not task


class Until(Observer):
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
