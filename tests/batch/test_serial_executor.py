import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.aggregation import Vector
from slotwise.base.errors import UserError
from slotwise.batch import (
    BatchFolder,
    BatchObserver,
    Job,
    JobProgress,
    Run,
    SerialExecutor,
    run_jobs,
    unfinished,
)
from slotwise.learning import Evaluation, Task, TrainingStart
from slotwise.runs import RunConfig

RUNS = [
    Run(f"S{size}", RunConfig().with_options(group_size=size, deadline=400, evaluate_every=200))
    for size in (1, 10, 50, 100)
]


class Halving:
    """A model of three numbers that every update halves; the loss is its length."""

    def __init__(self) -> None:
        self.updates = 0

    def initial_model(self) -> Vector:
        return np.ones(3, dtype=np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        self.updates += 1
        return (model / 2).astype(np.float32)

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(float(np.linalg.norm(model)) + 0.1, 0.5)

    def named_arrays(self, model: Vector) -> Mapping[str, NDArray[np.float32]]:
        return {"model": model}


class Exploding(Halving):
    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        return model * np.float32(np.inf)


class StopAfter(BatchObserver):
    """Asks to stop once a job has made progress twice."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.left = 2

    def job_started(self, job: Job) -> None:
        self.seen.append(job.run.name)

    def job_progress(self, job: Job, progress: JobProgress) -> None:
        self.left -= 1

    def wants_stop(self) -> bool:
        return self.left <= 0


@pytest.fixture
def folder(tmp_path: Path) -> BatchFolder:
    return BatchFolder(tmp_path / "out")


@pytest.fixture(autouse=True)
def every_round_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotwise.batch.job_worker.PROGRESS_INTERVAL", 0.0)


@pytest.fixture
def task() -> Halving:
    return Halving()


def executor(task: Task) -> SerialExecutor:
    return SerialExecutor(make_task=lambda config: task)


def test_all_runs_are_trained_once_and_then_kept(folder: BatchFolder, task: Halving) -> None:
    assert run_jobs(folder, unfinished(folder, RUNS), executor(task)) == ()
    assert [folder.run(run.name).status for run in RUNS] == ["finished"] * 4
    assert task.updates == sum(len(run.config.simulate()) for run in RUNS)
    assert unfinished(folder, RUNS) == ()


def test_a_run_that_was_stopped_resumes_and_ends_the_same(
    folder: BatchFolder, task: Halving, tmp_path: Path
) -> None:
    observer, first = StopAfter(), RUNS[0]
    run_jobs(folder, unfinished(folder, RUNS[:1]), executor(task), observer)
    assert observer.seen == [first.name]
    assert folder.run(first.name).status == "interrupted"
    before = task.updates
    run_jobs(folder, unfinished(folder, RUNS[:1]), executor(task))
    assert task.updates - before < len(first.config.simulate())
    other = BatchFolder(tmp_path / "other")
    run_jobs(other, unfinished(other, RUNS[:1]), executor(task))
    assert folder.run(first.name).points() == other.run(first.name).points()


def test_a_job_may_stop_after_some_rounds_and_be_resumed(folder: BatchFolder, task: Halving) -> None:
    run = RUNS[0]
    for until in (3, 5):
        assert run_jobs(folder, [Job(run, until=until)], executor(task)) == ()
        history, _ = folder.run(run.name).checkpoints.load()
        assert history is not None
        assert history.rounds == until
    assert run_jobs(folder, unfinished(folder, [run]), executor(task)) == ()
    assert folder.run(run.name).status == "finished"


@pytest.mark.parametrize(("until", "rounds"), [(0, 0), (3, 3), (10**6, None), (None, None)])
def test_progress_counts_the_rounds_that_a_job_is_to_train(
    folder: BatchFolder, task: Halving, until: int | None, rounds: int | None
) -> None:
    seen: set[int] = set()

    class Totals(BatchObserver):
        def job_progress(self, job: Job, progress: JobProgress) -> None:
            seen.add(progress.rounds)

    assert run_jobs(folder, [Job(RUNS[1], until=until)], executor(task), Totals()) == ()
    assert seen == {RUNS[1].config.simulate().rounds if rounds is None else rounds}


def test_a_run_that_diverges_or_fails_stops_no_other(folder: BatchFolder, task: Halving) -> None:
    def make_task(config: RunConfig) -> Task:
        if config.channel.group_size == 1:
            return Exploding()
        if config.channel.group_size == 10:
            raise RuntimeError("no memory")
        if config.channel.group_size == 50:
            raise SystemExit(3)  # as a task that calls sys.exit does
        return task

    failures = run_jobs(folder, unfinished(folder, RUNS), SerialExecutor(make_task=make_task))
    assert {failure.run.name: failure.reason for failure in failures} == {
        "S1": "diverged in round 0",
        "S10": "RuntimeError: no memory",
        "S50": "SystemExit: 3",
    }
    assert not folder.run("S10").path.exists()
    assert [folder.run(name).status for name in ("S1", "S100")] == ["diverged", "finished"]
    assert [job.run.name for job in unfinished(folder, RUNS)] == ["S10", "S50"]


def test_a_run_folder_with_other_options_is_refused(folder: BatchFolder, task: Halving) -> None:
    run_jobs(folder, unfinished(folder, RUNS[:1]), executor(task))
    path = folder.run(RUNS[0].name).path / "run.json"
    document = json.loads(path.read_text())
    document["parameters"]["learning_rate"] = 0.5
    path.write_text(json.dumps(document))
    with pytest.raises(UserError, match="made with other options"):
        unfinished(folder, RUNS)


def write_data(folder: Path, shift: int) -> None:
    """Write a data folder for two devices."""
    folder.mkdir(exist_ok=True)
    for name in ("device-1", "device-2", "test"):
        np.savez(folder / f"{name}.npz", x=np.full((4, 1, 28, 28), shift, np.uint8), y=np.arange(4))


def test_a_run_is_not_resumed_with_other_data(folder: BatchFolder, task: Halving, tmp_path: Path) -> None:
    write_data(tmp_path / "data", 1)
    options = {"data_folder": str(tmp_path / "data"), "group_size": 1, "deadline": 400}
    runs = [Run("first", RunConfig.from_options(options))]
    run_jobs(folder, unfinished(folder, runs), executor(task), StopAfter())
    write_data(tmp_path / "data", 2)
    with pytest.raises(UserError, match="has changed"):
        unfinished(folder, runs)
    write_data(tmp_path / "data", 1)
    run_jobs(folder, unfinished(folder, runs), executor(task))
    write_data(tmp_path / "data", 2)
    assert unfinished(folder, runs) == ()  # it is finished


class PressesCtrlC(BatchObserver):
    """Interrupts the first job after its first round."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def job_started(self, job: Job) -> None:
        self.started.append(job.run.name)

    def job_progress(self, job: Job, progress: JobProgress) -> None:
        if len(self.started) == 1 and progress.done:
            raise KeyboardInterrupt


def test_ctrl_c_ends_the_batch_with_a_checkpoint_or_before_a_job(folder: BatchFolder, task: Halving) -> None:
    watch = PressesCtrlC()
    with pytest.raises(KeyboardInterrupt):
        run_jobs(folder, [Job(run) for run in RUNS], SerialExecutor(1, lambda _: Halving()), watch)
    assert len(watch.started) == 1
    interrupted = folder.run(watch.started[0])
    assert interrupted.status == "interrupted"
    assert interrupted.checkpoints.load()[0] is not None
    with pytest.raises(KeyboardInterrupt):
        run_jobs(folder, [Job(run) for run in RUNS], executor(task), PressesCtrlCTooEarly())
    assert task.updates == 0


class PressesCtrlCTooEarly(BatchObserver):
    """Interrupts before the first job has begun."""

    def job_started(self, job: Job) -> None:
        raise KeyboardInterrupt
