"""Worker processes: the results of threads, replaced when they die, and errors in one line."""

import os
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
from worker_tasks import Counting, Hanging, Killing, Locked, NotThere, Raising

from slotwise.aggregation import Vector
from slotwise.base.errors import InputError, UserError
from slotwise.learning import Evaluation, History, Task, Training, TrainingStart, train
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.engine import TrainingObserver
from slotwise.learning.workers import Processes, Threads, TrainingJob, WorkerPlan
from slotwise.learning.workers.processes import ProcessWorkers, RemoteWorkers
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate
from slotwise.workers import Worker, WorkersGone

MODEL = np.ones(1000, dtype=np.float32)
TIMELINE = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=24)


def trained(
    task: Task,
    workers: int | WorkerPlan,
    timeline: Timeline = TIMELINE,
    observer: TrainingObserver | None = None,
) -> History:
    return train(timeline, task, workers=workers, evaluate_every=20, aggregation="fedavg", observer=observer)


def same(one: History, other: History) -> bool:
    states = [{d: int(s["count"]) for d, s in history.device_states.items()} for history in (one, other)]
    losses = [history.loss.tolist() for history in (one, other)]
    return one.model.tobytes() == other.model.tobytes() and losses[0] == losses[1] and states[0] == states[1]


@pytest.mark.parametrize(("count", "size"), [(1, 1000), (2, 300_000), (4, 1000)])
def test_the_result_is_that_of_threads(count: int, size: int) -> None:
    here, away = trained(Counting(size), 2), trained(Counting(size), Processes(count))
    assert same(here, away)
    assert {point.metrics["main"] for point in here.points} == {1.0}
    assert {point.metrics["main"] for point in away.points} == {0.0}


def test_work_of_a_process_that_is_killed_is_repeated(tmp_path: Path) -> None:
    task = Killing(tmp_path / "killed")
    assert same(trained(Counting(), 1), trained(task, Processes(2)))
    assert (tmp_path / "killed").exists()


def test_a_training_that_kills_every_process_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"device 3 on model 0 has lost its worker 3 times: .*SIGKILL"):
        trained(Killing(tmp_path / "killed", always=True), Processes(2))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Raising(), "task Raising failed: ZeroDivisionError: no samples"),
        (Locked(), "task Locked: cannot be sent to another process: .*; use threads"),
        (NotThere(ModuleNotFoundError("gpu_layers")), "ModuleNotFoundError: gpu_layers"),
    ],
)
def test_an_error_of_the_task_is_one_line(task: Task, message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        trained(task, Processes(2))
    assert "\n" not in str(raised.value)


def test_a_task_that_asks_for_it_gets_processes_for_several_workers_and_none_for_one() -> None:
    task = Counting()
    task.one_per_process = True  # type: ignore[attr-defined]
    for workers, elsewhere in ((1, 1.0), (Threads(1), 1.0), (2, 0.0)):
        assert {point.metrics["main"] for point in trained(task, workers).points} == {elsewhere}
    with pytest.raises(UserError, match="use Processes"):
        trained(task, Threads(2))


class Gone(RemoteWorkers):
    """There are no workers."""

    def __init__(self, task: Counting) -> None:
        def start() -> Worker:
            raise WorkersGone("lost the cluster")

        super().__init__(CheckedTask.of(task), 1, start)

    def drop(self, rounds: Collection[int]) -> None:
        """Forget nothing."""


def test_without_workers_trainings_fail_and_evaluations_are_computed_here() -> None:
    workers = Gone(Counting())
    with pytest.raises(WorkersGone, match="lost the cluster"):
        workers.train([TrainingJob(MODEL, TrainingStart(1, 0))]).result(60)
    # A checkpoint needs the evaluation.
    assert workers.evaluate(1, MODEL).result(60).metrics == {"main": 1.0}
    workers.close()


@pytest.mark.parametrize("error", [ValueError("no data"), SystemExit(3)], ids=["error", "exit"])
def test_an_evaluation_that_fails_here_as_well_says_so(error: BaseException) -> None:
    class Failing(Counting):
        def evaluate(self, model: Vector) -> Evaluation:
            raise error

    workers = Gone(Failing())
    with pytest.raises(type(error)):
        workers.evaluate(1, MODEL).result(60)
    workers.close()


def test_a_process_keeps_a_model_until_it_is_dropped() -> None:
    task = CheckedTask.of(Counting())
    workers = ProcessWorkers(task, 1)
    try:
        first, second = task.initial_model(), task.initial_model() * 2
        alone = [task.local_update(model, TrainingStart(1, 0, k)) for k, model in enumerate((first, second))]
        jobs = [TrainingJob(first, TrainingStart(1, 0, 0)), TrainingJob(second, TrainingStart(1, 0, 1))]
        for _ in range(2):
            found = workers.train(jobs).result(60).updates
            assert [r.update.tolist() for r in found] == [r.update.tolist() for r in alone]
        workers.drop([0, 1])
        changed = [TrainingJob(second, TrainingStart(1, 0, 0))]  # not a thing the engine does: sent again
        (result,) = workers.train(changed).result(60).updates
        assert result.update.tolist() == alone[1].update.tolist()
    finally:
        workers.close()


def test_a_task_that_computes_for_ever_is_ended_with_the_training(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hangs")
    with Training(TIMELINE, Hanging(tmp_path / "hangs"), workers=Processes(2)) as training:
        training.advance()
        assert (tmp_path / "hangs").read_text().startswith("now")  # of one worker or of both
        training.stop()


def test_stopping_early_ends_the_processes() -> None:
    with Training(TIMELINE, Counting(), workers=Processes(2)) as training:
        training.advance()
        started = [worker._process for worker in training._workers.pool.workers]  # type: ignore[attr-defined]
    assert all(process.poll() is not None for process in started)


@pytest.mark.parametrize("workers", [0, -1, True, 1.5, "2", Processes])
def test_what_is_no_number_and_no_plan_is_refused(workers: object) -> None:
    with pytest.raises(InputError, match="workers"):
        trained(Counting(), workers)  # type: ignore[arg-type]
