import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from slotwise.aggregation import Vector
from slotwise.base.errors import InputError, UserError
from slotwise.learning import Diverged, Evaluation, History, Point, Task, TrainingStart
from slotwise.runs import Observer, RunConfig, RunFolder, RunResult, model_sha256, resume, run
from slotwise.runs.checkpoints import Checkpoints
from slotwise.schedule import Timeline

from .conftest import train_in


class StopAfter(Observer):
    def __init__(self, rounds: int) -> None:
        self._left = rounds

    def round_done(self, round_number: int) -> None:
        self._left -= 1

    def wants_stop(self) -> bool:
        return self._left <= 0


@pytest.fixture
def straight(tmp_path: Path, parameters: RunConfig, toy: Task) -> RunFolder:
    """The same run, undisturbed."""
    folder = RunFolder.create(tmp_path / "straight", parameters)
    train_in(folder, parameters, task=toy)
    return folder


def result(folder: RunFolder) -> tuple[object, ...]:
    """Everything that must be the same, however the run went."""
    document = folder.description()
    files = [(folder.path / name).read_bytes() for name in ("history.csv", "model.npz")]
    return (document["status"], document["rounds"], document["final"], document["model_sha256"], *files)


def stopped(folder: RunFolder, parameters: RunConfig, toy: Task, rounds: int) -> RunResult:
    return train_in(folder, parameters, task=toy, checkpoint_every=0, observer=StopAfter(rounds))


def test_a_finished_run_says_all_and_its_history_has_no_gap(straight: RunFolder, toy: Task) -> None:
    document = straight.description()
    history, _ = straight.checkpoints.load()
    assert history is not None
    assert document["status"] == "finished"
    assert document["rounds"] == history.rounds == 40
    assert document["model_sha256"] == model_sha256(history.model)
    assert document["final"] == straight.points()[-1]._asdict()
    assert document["seconds"] >= 0
    assert straight.points() == list(history.points)
    with np.load(straight.path / "model.npz") as archive:
        assert np.array_equal(archive["weight"], toy.named_arrays(history.model)["weight"])
    rounds = [point.round for point in straight.points()]
    assert rounds == sorted(set(rounds))
    assert len(rounds) == 14  # 0, 10, …, 120 and the last, 122


@pytest.mark.parametrize("rounds", [0, 1, 17, 39])
def test_a_stopped_run_goes_on_to_the_same_end(
    rounds: int, folder: RunFolder, parameters: RunConfig, toy: Task, straight: RunFolder
) -> None:
    outcome = stopped(folder, parameters, toy, rounds)
    assert outcome.status == folder.status == "interrupted"
    assert outcome.history.rounds == rounds
    train_in(folder, parameters, task=toy, workers=2)
    assert result(folder) == result(straight)


def test_a_run_stopped_after_its_last_round_is_finished(
    folder: RunFolder, parameters: RunConfig, toy: Task
) -> None:
    assert stopped(folder, parameters, toy, 40).status == "finished"


def test_a_damaged_checkpoint_costs_rounds_but_changes_nothing(
    folder: RunFolder, parameters: RunConfig, toy: Task, straight: RunFolder
) -> None:
    stopped(folder, parameters, toy, 20)
    (folder.path / "checkpoints" / "round-000000020.checkpoint").write_bytes(b"\0" * 500)
    history, damaged = folder.checkpoints.load()
    assert history is not None
    assert (history.rounds, len(damaged)) == (19, 1)
    train_in(folder, parameters, task=toy)
    assert result(folder) == result(straight)


def test_zero_seconds_between_checkpoints_means_every_round(
    folder: RunFolder, parameters: RunConfig, toy: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[int] = []
    monkeypatch.setattr(Checkpoints, "save", lambda _, history: saved.append(history.rounds))
    train_in(folder, parameters, task=toy, checkpoint_every=0)
    assert saved == [*range(1, 41), 40]


def test_a_short_run_writes_one_checkpoint_at_its_end(
    folder: RunFolder, parameters: RunConfig, toy: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[int] = []
    monkeypatch.setattr(Checkpoints, "save", lambda _, history: saved.append(history.rounds))
    train_in(folder, parameters, task=toy, checkpoint_every=1000)
    assert saved == [40]


def test_the_watcher_is_told_the_schedule_the_rounds_and_the_points(
    folder: RunFolder, parameters: RunConfig, toy: Task
) -> None:
    class Diary(Observer):
        def __init__(self) -> None:
            self.entries: list[object] = []

        def run_started(self, timeline: object, resumed: History | None) -> None:
            self.entries.append((timeline, resumed))

        def round_done(self, round_number: int) -> None:
            self.entries.append(round_number)

        def evaluated(self, point: Point) -> None:
            self.entries.append(point)

    diary = Diary()
    outcome = train_in(folder, parameters, task=toy, observer=diary)
    assert diary.entries[0] == (parameters.simulate(), None)
    assert [entry for entry in diary.entries if isinstance(entry, int)] == list(range(40))
    assert tuple(entry for entry in diary.entries if isinstance(entry, Point)) == outcome.history.points


class Ends(Observer):
    """What an observer is told of the beginning and the end of a run, with the status in run.json then."""

    def __init__(self, rounds: int = 1000) -> None:
        self._left, self.told = rounds, []

    def run_opened(self, folder: RunFolder, config: RunConfig) -> None:
        self._folder = folder
        self.told.append(("opened", config))

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:
        self.told.append("started")

    def run_ended(self, status: str) -> None:
        self.told.append((status, self._folder.status))

    def round_done(self, round_number: int) -> None:
        self._left -= 1

    def wants_stop(self) -> bool:
        return self._left <= 0


@pytest.mark.parametrize(("rounds", "end"), [(1000, "finished"), (5, "interrupted")])
def test_the_observer_is_told_of_the_end_when_the_files_are_written(
    folder: RunFolder, parameters: RunConfig, toy: Task, rounds: int, end: str
) -> None:
    observer = Ends(rounds)
    train_in(folder, parameters, task=toy, observer=observer)
    assert observer.told == [("opened", parameters), "started", (end, end)]


def test_the_observer_is_told_of_a_failure(folder: RunFolder, parameters: RunConfig, toy: Task) -> None:
    class Failing(Ends):
        def round_done(self, round_number: int) -> None:
            raise ZeroDivisionError

    observer = Failing()
    with pytest.raises(ZeroDivisionError):
        train_in(folder, parameters, task=toy, observer=observer)
    assert observer.told[-1] == ("failed", "interrupted")


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_the_last_good_checkpoint(
    failing: str,
    folder: RunFolder,
    parameters: RunConfig,
    toy: Task,
    straight: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped(folder, parameters, toy, 20)
    target = os if failing == "fsync" else Path

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(target, failing, full)
        with pytest.raises(UserError, match=r"^cannot write .*: No space left on device \(free some"):
            train_in(folder, parameters, task=toy, checkpoint_every=0)
    after, damaged = folder.checkpoints.load()
    assert damaged == []
    assert after is not None
    assert after.rounds == 20
    train_in(folder, parameters, task=toy)
    assert result(folder) == result(straight)


class Poisoned:
    """NaN from device 1 in its second training: round 3."""

    def __init__(self, toy: Task) -> None:
        self._toy = toy
        self.initial_model, self.named_arrays = toy.initial_model, toy.named_arrays
        self.evaluate = toy.evaluate

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        update = self._toy.local_update(model, start)
        return update * np.float32("nan") if (start.device, start.training) == (1, 1) else update


def test_a_diverged_run_keeps_what_there_was(folder: RunFolder, toy: Task, straight: RunFolder) -> None:
    parameters = RunConfig().with_options(
        schedule="async", devices=6, group_size=2, compute_slots=2, deadline=122, evaluate_every=1
    )
    with pytest.raises(Diverged, match="in round 3"):
        train_in(folder, parameters, task=Poisoned(toy))
    document = json.loads((folder.path / "run.json").read_text())
    history, _ = folder.checkpoints.load()
    assert history is not None
    assert (document["status"], document["diverged_in_round"], document["rounds"]) == ("diverged", 3, 3)
    assert document["model_sha256"] == model_sha256(history.model)
    assert [point.round for point in folder.points()] == [0, 1, 2, 3]
    with np.load(folder.path / "model.npz") as archive:
        assert all(np.isfinite(archive[name]).all() for name in archive.files)


@pytest.mark.parametrize(
    "history",
    [
        History((), {41: np.zeros(7, np.float32)}, 41),  # more rounds than there are
        History((), {20: np.zeros(7, np.float32)}, 20),  # without the models that round 20 needs
        History((), {0: np.zeros(8, np.float32)}, 0),  # another network
    ],
    ids=["rounds", "models", "network"],
)
def test_a_checkpoint_of_another_run_is_refused(
    history: History, folder: RunFolder, parameters: RunConfig, toy: Task
) -> None:
    folder.checkpoints.save(history)
    with pytest.raises(UserError, match="belong to different runs"):
        train_in(folder, parameters, task=toy)


def test_run_trains_in_a_new_folder_and_refuses_a_run_that_is_there(
    tmp_path: Path, parameters: RunConfig, toy: Task, straight: RunFolder, folder: RunFolder
) -> None:
    found = run(parameters, tmp_path / "new", task=toy)
    assert (found.status, found.folder) == ("finished", tmp_path / "new")
    assert found.timeline == parameters.simulate()
    assert result(RunFolder.open(found.folder)) == result(straight)
    with pytest.raises(InputError) as caught:
        run(parameters, folder.path, task=toy)
    assert caught.value.parameter == "out"
    assert run(parameters, folder.path, task=toy, overwrite=True).status == "finished"


def test_a_run_simulates_its_timeline_once(
    tmp_path: Path, parameters: RunConfig, toy: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated: list[RunConfig] = []
    simulate = RunConfig.simulate

    def counting(config: RunConfig, rounds: int | None = None) -> Timeline:
        simulated.append(config)
        return simulate(config, rounds)

    monkeypatch.setattr(RunConfig, "simulate", counting)
    run(parameters, tmp_path / "new", task=toy)
    assert len(simulated) == 1


@pytest.mark.parametrize("rounds", [1, 20])
def test_resume_goes_on_from_the_newest_checkpoint(
    rounds: int, folder: RunFolder, parameters: RunConfig, toy: Task, straight: RunFolder
) -> None:
    stopped(folder, parameters, toy, rounds)
    resumed: list[History | None] = []

    class Started(Observer):
        def run_started(self, timeline: Timeline, history: History | None) -> None:
            resumed.append(history)

    assert resume(folder.path, task=toy, observer=Started()).status == "finished"
    assert [history.rounds for history in resumed if history] == [rounds]
    assert result(folder) == result(straight)


def test_resume_starts_a_run_without_checkpoints_again(
    folder: RunFolder, toy: Task, straight: RunFolder
) -> None:
    resume(folder, task=toy)
    assert result(folder) == result(straight)


def test_resume_tells_of_damaged_checkpoints(folder: RunFolder, parameters: RunConfig, toy: Task) -> None:
    stopped(folder, parameters, toy, 20)
    damaged = folder.path / "checkpoints" / "round-000000020.checkpoint"
    damaged.write_bytes(b"\0")
    notices: list[str] = []

    class Notices(Observer):
        def notice(self, message: str) -> None:
            notices.append(message)

    resume(folder, task=toy, observer=Notices())
    assert len(notices) == 2
    assert str(damaged) in notices[0]
    assert "round 19" in notices[1]


@pytest.mark.parametrize("with_checkpoints", [True, False])
def test_a_finished_run_is_returned_as_it_is(straight: RunFolder, with_checkpoints: bool) -> None:
    before = result(straight)
    if not with_checkpoints:
        straight.checkpoints.clear()
    found = resume(straight.path)
    assert (found.status, found.history.rounds) == ("finished", 40)
    assert list(found.history.points) == straight.points()
    assert result(straight) == before


def test_a_diverged_a_live_or_a_locked_run_is_not_resumed(
    folder: RunFolder, toy: Task, tmp_path: Path, parameters: RunConfig
) -> None:
    with folder.held(), pytest.raises(UserError, match="another process"):
        resume(folder, task=toy)
    with pytest.raises(Diverged):
        train_in(folder, folder.parameters(), task=Poisoned(toy))
    with pytest.raises(UserError, match="diverged"):
        resume(folder, task=toy)
    folder = RunFolder.create(tmp_path / "live", parameters, live_run="abc")
    with pytest.raises(UserError, match="live run"):
        resume(folder, task=toy)


class Failing:
    """Fails in a local training or in an evaluation, unless it is corrected."""

    def __init__(self, toy: Task, method: str) -> None:
        self._toy, self._method, self.corrected = toy, method, False
        self.initial_model, self.named_arrays = toy.initial_model, toy.named_arrays
        self._evaluations = 0

    def local_update(self, model: Vector, start: TrainingStart) -> Vector:
        if self._method == "local_update" and start.training == 5 and not self.corrected:
            raise RuntimeError("in the user's task")
        return self._toy.local_update(model, start)

    def evaluate(self, model: Vector) -> Evaluation:
        self._evaluations += 1
        if self._method == "evaluate" and self._evaluations == 4 and not self.corrected:
            raise RuntimeError("in the user's task")
        return self._toy.evaluate(model)


@pytest.mark.parametrize("method", ["local_update", "evaluate"])
def test_a_task_that_fails_leaves_a_run_that_is_resumed_when_it_is_corrected(
    folder: RunFolder, parameters: RunConfig, toy: Task, straight: RunFolder, method: str
) -> None:
    task = Failing(toy, method)
    with pytest.raises(RuntimeError, match="in the user's task") as caught:
        train_in(folder, parameters, task=task, checkpoint_every=0)
    description = folder.description()
    assert description["status"] == "interrupted"
    assert "RuntimeError: in the user's task" in description["error"]
    checkpoint, _ = folder.checkpoints.load()
    assert checkpoint is not None
    assert checkpoint.rounds > 0
    assert "continue it with: slotwise train --resume" in caught.value.__notes__[0]
    task.corrected = True
    resume(folder, task=task)
    assert result(folder) == result(straight)


def test_a_task_object_is_needed_again_to_resume(tmp_path: Path, parameters: RunConfig, toy: Task) -> None:
    whole = run(parameters, tmp_path / "whole", task=toy)
    part = run(parameters, str(tmp_path / "part"), task=toy, observer=StopAfter(10))
    assert part.status == "interrupted"
    with pytest.raises(UserError, match="Toy"):
        resume(tmp_path / "part")
    assert resume(tmp_path / "part", task=toy).status == "finished"
    assert result(RunFolder.open(str(tmp_path / "part"))) == result(RunFolder.open(whole.folder))
    assert RunFolder.open(whole.folder).description()["task_object"] == "Toy"


def test_a_task_object_sends_quantised_updates(tmp_path: Path, parameters: RunConfig, toy: Task) -> None:
    rough = parameters.with_options(bits=2)
    models = [
        run(config, tmp_path / str(config.bits), task=toy).history.model for config in (parameters, rough)
    ]
    assert not np.array_equal(*models)


def test_a_task_object_with_too_few_devices_leaves_no_folder(
    tmp_path: Path, parameters: RunConfig, toy: Task
) -> None:
    toy.devices = parameters.channel.devices - 1  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="devices"):
        run(parameters, tmp_path / "few", task=toy)
    assert not (tmp_path / "few").exists()
