from pathlib import Path

import numpy as np
import pytest

from slotwise.aggregation import Vector
from slotwise.base.observer import Observers, Stop
from slotwise.batch import BatchObserver, BatchSpec, Job, JobProgress, Run, run_batch
from slotwise.learning import Evaluation, History, Point, TrainingStart, train
from slotwise.report.progress import (
    MOST_BARS,
    BatchProgress,
    ProgressBar,
    StageProgress,
    TrainingProgress,
    duration,
)
from slotwise.runs import RunConfig, RunFolder
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate

POINT = Point(10, 3, 0.5, 0.75, 2)
OWN_TASK = {"task_object": "TorchTask"}


@pytest.fixture
def timeline() -> Timeline:
    return simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=6)


def test_a_training_stops_when_it_was_asked_to() -> None:
    stop = Stop()
    progress = TrainingProgress(stop, quiet=True)
    assert not progress.wants_stop()
    stop.requested = True
    assert progress.wants_stop()


@pytest.mark.parametrize("resumed", [None, History((POINT,), {}, 3)], ids=["new", "resumed"])
def test_the_bar_shows_slots_rounds_and_the_newest_figures(
    timeline: Timeline, resumed: History | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with TrainingProgress(Stop()) as progress:
        progress.run_started(timeline, resumed)
        progress.evaluated(POINT)
        for k in range(3 if resumed else 0, 6):
            progress.round_done(k)
    shown = capsys.readouterr().err
    assert "async S=2" in shown
    for part in ("slot 20/20", "round 6/6", "loss 0.500", "acc 75.0%", "stale 2"):
        assert part in shown


@pytest.mark.parametrize(
    ("options", "more", "compiled"),
    [({}, {}, True), ({"backend": "torch"}, {}, False), ({"task": "a:b"}, {}, False), ({}, OWN_TASK, False)],
    ids=["numba", "torch", "own", "object"],
)
def test_only_networks_on_kernels_are_said_to_be_compiled(
    timeline: Timeline,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: dict[str, str],
    more: dict[str, str],
    compiled: bool,
) -> None:
    config = RunConfig.from_options(options)
    with TrainingProgress(Stop()) as progress:
        progress.run_opened(RunFolder.create(tmp_path / "run", config, **more), config)
        progress.run_started(timeline, None)
    assert ("compiled" in capsys.readouterr().err) is compiled


def test_a_quiet_training_shows_nothing(timeline: Timeline, capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingProgress(Stop(), quiet=True) as progress:
        progress.run_started(timeline, None)
        progress.round_done(0)
    assert capsys.readouterr() == ("", "")


def test_every_stage_has_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with StageProgress() as bars:
        bars.progress("training", 1, 3)
        bars.progress("training", 3, 3)
        bars.progress("gradients", 1, 2)
    shown = capsys.readouterr().err
    for part in ("training", "3/3", "gradients", "1/2"):
        assert part in shown


def test_without_a_stage_or_when_quiet_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with StageProgress():
        pass
    with StageProgress(quiet=True) as bars:
        bars.progress("training", 1, 3)
    assert capsys.readouterr() == ("", "")


def jobs(count: int) -> list[Job]:
    return [Job(Run(f"run{number}", RunConfig()), work=1.0) for number in range(1, count + 1)]


def test_a_job_that_ends_is_a_line_with_its_last_figures(capsys: pytest.CaptureFixture[str]) -> None:
    first, second, third = jobs(3)
    with BatchProgress(lambda: False) as progress:
        progress.batch_started([first, second, third], finished=2)
        for job in (first, second):
            progress.job_started(job)
        progress.job_progress(first, JobProgress(0, 10))
        progress.job_progress(first, JobProgress(5, 10, 0.25, 0.75))
        progress.job_ended(first, None)
        progress.job_ended(second, "diverged in round 3")
        progress.job_started(third)
    shown = capsys.readouterr().err
    assert "run1: loss 0.25, 75.0% (" in shown
    assert "run2: diverged in round 3 (" in shown
    assert "2 of 3 runs (2 finished before)" in shown
    assert "run3" in shown
    assert "preparing" in shown


def test_a_job_that_lost_its_worker_is_announced_and_waits(capsys: pytest.CaptureFixture[str]) -> None:
    (job,) = jobs(1)
    with BatchProgress(lambda: False) as progress:
        progress.batch_started([job], finished=0)
        progress.job_started(job)
        progress.job_retried(job, "its process was ended by SIGKILL")
        progress._show_all()
    shown = capsys.readouterr().err
    assert "run1: its process was ended by SIGKILL; it is resumed" in shown
    assert "0 of 1 runs" in shown
    assert "waiting for a worker" in shown


def test_a_job_that_is_stopped_has_not_ended(capsys: pytest.CaptureFixture[str]) -> None:
    job, other = jobs(2)
    stop = Stop()
    with BatchProgress(lambda: stop.requested) as progress:
        progress.batch_started([job, other], finished=0)
        progress.job_started(job)
        progress.job_started(other)
        stop.requested = True
        progress.job_progress(other, JobProgress(1, 10))
        progress.job_ended(job, None)
    shown = capsys.readouterr().err
    assert "run1:" not in shown
    assert "0 of 2 runs" in shown
    assert "stopping" in shown


def test_more_jobs_than_bars_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    many = jobs(MOST_BARS + 2)
    with BatchProgress(lambda: False) as progress:
        progress.batch_started(many, finished=0)
        for job in many:
            progress.job_started(job)
            progress.job_progress(job, JobProgress(1, 10))
        progress.job_ended(many[-1], None)
    shown = capsys.readouterr().err
    assert shown.count("run") - shown.count(" runs") == MOST_BARS + 1  # bars, and the line of the last job
    assert f"{MOST_BARS + 1} in training" in shown


def test_rungs_of_a_search_share_one_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with BatchProgress(lambda: False) as progress:
        for slot, count in ((100, 2), (200, 1)):
            progress.rung_started(slot, ["async S=1", "idfl S=2"][:count])
            progress.batch_started(jobs(count), finished=0)
    shown = capsys.readouterr().err
    assert "to slot 100: async S=1, idfl S=2" in shown
    assert shown.count(" runs") == 1
    assert "0 of 1 runs" in shown


def test_a_batch_without_jobs_or_a_quiet_one_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with BatchProgress(lambda: False) as progress:
        progress.batch_started([], finished=3)
    with BatchProgress(lambda: False, quiet=True) as progress:
        (job,) = jobs(1)
        progress.batch_started([job], finished=0)
        progress.job_started(job)
        progress.job_ended(job, None)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (91, "2 min"), (3600, "60 min"), (7500, "2 h 05 min")]
)
def test_durations_are_in_the_largest_unit_that_is_not_too_coarse(seconds: float, text: str) -> None:
    assert duration(seconds) == text


class Halving:
    """A task that may fail in its third training."""

    def __init__(self, fails: bool) -> None:
        self._fails = fails

    def initial_model(self) -> Vector:
        return np.ones(3, dtype=np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        if self._fails and start.device == 3:
            raise RuntimeError("broken device")
        return np.asarray(model / 2, dtype=np.float32)

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(float(model.sum()), 0.75)

    def named_arrays(self, model: Vector) -> dict[str, Vector]:
        return {"model": model}


def test_a_bar_for_python_ends_with_its_training(
    timeline: Timeline, capsys: pytest.CaptureFixture[str]
) -> None:
    bar = ProgressBar()
    for _ in range(2):
        train(timeline, Halving(fails=False), observer=bar)
        shown = capsys.readouterr().err
        assert shown.count("async S=2") == 1
        assert "round 6/6" in shown
        assert "acc 75.0%" in shown
    with pytest.raises(RuntimeError, match="broken device"):
        train(timeline, Halving(fails=True), observer=bar)
    assert "async S=2" in capsys.readouterr().err


def test_a_bar_for_python_ends_with_its_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = {"devices": 6, "group_size": 2, "compute_slots": 3, "deadline": 20, "network": "logistic"}
    spec = BatchSpec.of({"few": case, "many": {**case, "group_size": 3}})
    bar = ProgressBar()
    run_batch(spec, tmp_path, executor="serial", observer=bar)
    shown = capsys.readouterr().err
    assert "many,seed=0: loss" in shown
    assert "2 of 2 runs" in shown  # without a terminal it is printed when the bar stops
    run_batch(spec, tmp_path, executor="serial", observer=bar)
    assert capsys.readouterr().err == ""  # nothing was left to train


def test_runs_of_a_batch_that_was_interrupted_are_not_called_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupting(BatchObserver):
        def job_progress(self, job: Job, progress: JobProgress) -> None:
            raise KeyboardInterrupt

    case = {"devices": 6, "group_size": 2, "compute_slots": 3, "deadline": 200, "network": "logistic"}
    spec = BatchSpec.of({"few": case, "many": {**case, "group_size": 3}})
    with pytest.raises(KeyboardInterrupt):
        run_batch(spec, tmp_path, executor="serial", observer=Observers(ProgressBar(), Interrupting()))
    shown = capsys.readouterr().err
    assert "0 of 2 runs" in shown
    assert "stopping" in shown
    assert "seed=0: " not in shown
