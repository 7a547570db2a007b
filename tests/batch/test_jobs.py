from collections import deque
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from slotwise.batch import (
    BatchFolder,
    BatchObserver,
    BatchResults,
    Job,
    JobProgress,
    Run,
    run_batch,
    run_jobs,
)
from slotwise.batch import job as job_module
from slotwise.batch.executors import PoolExecutor
from slotwise.batch.job_worker import Assignment, JobReport
from slotwise.runs import RunConfig, run_timeline
from slotwise.schedule import Timeline
from slotwise.workers import WorkerLost

POWERS = "computing = 1.0\nsending = 2.0\nreceiving = 3.0"

JOBS = [
    Job(Run(name, RunConfig().with_options(seed=seed)), work)
    for seed, (name, work) in enumerate([("small", 1.0), ("large", 9.0), ("middle", 5.0)])
]


class Script:
    """A worker that ends each job as a test says: with a reason, or with its own loss."""

    def __init__(self, executor: "Scripts") -> None:
        self._executor, self._killed = executor, Event()

    def load(self) -> None:
        if self._executor.has_no_room and self._executor.begun:
            assert self._killed.wait(60)
            raise WorkerLost("killed while it waited for a core")

    def call(self, method: str, *arguments: Any) -> Any:
        if method == "begin":
            self._executor.begun.append(arguments[0].job.run.name)
            return None
        if method == "report":
            return [], True
        _, stop = arguments
        if UNTIL_STOPPED in self._executor.ends:
            return JobReport([], {}, stop, None)
        end = self._executor.ends.popleft() if self._executor.ends else None
        if isinstance(end, WorkerLost):
            raise end
        return JobReport([JobProgress(1, 1)], {}, True, end)

    def kill(self) -> None:
        self._killed.set()

    def close(self) -> None:
        self._executor.closed = True


class Scripts(PoolExecutor):
    """Trains with one such worker after another."""

    retries = 1
    checkpoint_every = 7.0

    def __init__(self, *ends: str | WorkerLost | None) -> None:
        super().__init__()
        self.ends = deque(ends)
        self.begun: list[str] = []
        self.closed = self.has_no_room = False

    def divide(self, jobs: int) -> tuple[int, list[int]]:
        return 1, [1] * jobs

    def start_worker(self) -> Script:
        return Script(self)


KILLED, UNTIL_STOPPED = WorkerLost("killed"), "until it is stopped"


class Recorder(BatchObserver):
    def __init__(self, stop_after: int = 99) -> None:
        self.lines: list[str] = []
        self.stop_after = stop_after

    def batch_started(self, jobs, finished: int) -> None:
        self.lines.append(f"{len(jobs)} jobs, {finished} finished")

    def job_started(self, job: Job) -> None:
        self.lines.append(f"started {job.run.name}")

    def job_ended(self, job: Job, reason: str | None) -> None:
        self.lines.append(f"ended {job.run.name}")

    def batch_stopping(self) -> None:
        self.lines.append("stopping")

    def batch_ended(self) -> None:
        self.lines.append("batch ended")

    def job_retried(self, job: Job, reason: str) -> None:
        self.lines.append(f"retried {job.run.name}")

    def wants_stop(self) -> bool:
        return sum(line.startswith("ended") for line in self.lines) >= self.stop_after


@pytest.fixture
def folder(tmp_path) -> BatchFolder:
    return BatchFolder(tmp_path)


def test_all_are_trained_the_largest_first(folder: BatchFolder) -> None:
    executor, recorder = Scripts(), Recorder()
    assert run_jobs(folder, JOBS, executor, recorder, finished=4) == ()
    assert executor.begun == ["large", "middle", "small"]
    assert (recorder.lines[0], recorder.lines[-1]) == ("3 jobs, 4 finished", "batch ended")
    assert recorder.lines.count("batch ended") == 1
    assert (executor.checkpoint_every, executor.closed) == (7.0, True)


def test_one_that_fails_or_loses_every_worker_stops_no_other(folder: BatchFolder) -> None:
    executor = Scripts("diverged")
    (failure,) = run_jobs(folder, JOBS, executor)
    assert (failure.run.name, failure.reason) == ("large", "diverged")
    assert executor.begun == ["large", "middle", "small"]
    executor = Scripts(KILLED, KILLED)
    (failure,) = run_jobs(folder, JOBS, executor)
    assert failure.reason == "killed, 2 times"
    assert executor.begun == ["large", "large", "middle", "small"]


def test_a_job_that_lost_its_worker_is_tried_again(folder: BatchFolder) -> None:
    executor, recorder = Scripts(KILLED), Recorder()
    assert run_jobs(folder, JOBS, executor, recorder) == ()
    assert executor.begun == ["large", "large", "middle", "small"]
    assert recorder.lines[1:5] == ["started large", "retried large", "started large", "ended large"]


def test_when_asked_to_stop_no_other_job_is_started(folder: BatchFolder) -> None:
    executor, recorder = Scripts(UNTIL_STOPPED), Recorder(stop_after=0)
    assert run_jobs(folder, JOBS, executor, recorder, checkpoint_every=0.5) == ()
    assert executor.begun in ([], ["large"])  # it may have begun before
    assert recorder.lines.count("stopping") == 1
    assert (executor.stopping, executor.closed, executor.checkpoint_every) == (True, True, 0.5)


def test_a_job_that_lost_its_worker_and_waits_for_another_ends_when_asked_to_stop(
    folder: BatchFolder,
) -> None:
    class StopsAfterLoss(Recorder):
        def wants_stop(self) -> bool:
            return "retried large" in self.lines

    executor, recorder = Scripts(KILLED), StopsAfterLoss()
    executor.has_no_room = True
    assert run_jobs(folder, JOBS, executor, recorder) == ()
    assert recorder.lines[1:] == ["started large", "retried large", "stopping", "ended large", "batch ended"]


def test_the_end_is_told_also_if_the_executor_fails(
    folder: BatchFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError("no workers")

    executor, recorder = Scripts(), Recorder()
    monkeypatch.setattr(executor, "divide", fail)
    with pytest.raises(OSError, match="no workers"):
        run_jobs(folder, JOBS, executor, recorder)
    assert recorder.lines[-1] == "batch ended"


def test_an_interrupt_lets_jobs_save_and_closes_the_executor(folder: BatchFolder) -> None:
    class Interrupted(Recorder):
        def job_started(self, job: Job) -> None:
            super().job_started(job)
            raise KeyboardInterrupt

    executor, recorder = Scripts(UNTIL_STOPPED), Interrupted()
    with pytest.raises(KeyboardInterrupt):
        run_jobs(folder, JOBS, executor, recorder)
    assert recorder.lines[1:] == ["started large", "stopping", "ended large", "batch ended"]
    assert (executor.stopping, executor.closed) == (True, True)


@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_each_timeline_of_a_sweep_is_simulated_once(
    executor: str, read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated: list[tuple[int, int]] = []
    simulate, known = RunConfig.simulate, run_timeline.Timelines()

    def count(config: RunConfig, *rounds: int) -> Timeline:
        simulated.append((config.channel.group_size, config.deadline))
        return simulate(config, *rounds)

    monkeypatch.setattr(run_timeline, "_TIMELINES", known)
    monkeypatch.setattr(job_module, "_summary", job_module._summary.__wrapped__)
    monkeypatch.setattr(RunConfig, "simulate", count)
    given: list[Assignment] = []
    assigned = PoolExecutor.assigned

    def keep(executor: PoolExecutor, assignment: Assignment) -> Any:
        given.append(assignment)
        return assigned(executor, assignment)

    monkeypatch.setattr(PoolExecutor, "assigned", keep)
    spec = read("group-size = [1, 2, 4]\nlearning-rate = [0.01, 0.02]\n[powers]\n" + POWERS)
    results = run_batch(spec, tmp_path / "out", executor=executor, workers=2)
    assert results.is_finished
    assert sorted(simulated) == [(1, 60), (2, 60), (4, 60)]
    assert [job.timeline is not None for job in given] == [True] * (6 if executor == "processes" else 0)
    monkeypatch.setattr(run_timeline, "_TIMELINES", run_timeline.Timelines())  # as in another command
    again = BatchResults.read(tmp_path / "out")
    assert again.columns() == results.columns()
    assert again.curve_columns() == results.curve_columns()
    assert len(simulated) == 3
