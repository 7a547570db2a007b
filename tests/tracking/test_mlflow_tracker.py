"""Properties of MLflow that the other libraries do not have."""

from pathlib import Path
from typing import Any

import pytest
from stored_runs import Stored, read_mlflow
from tracked_toy import Toy

from slotwise.base.errors import UserError
from slotwise.base.observer import Observers
from slotwise.runs import Observer, RunConfig, RunFolder, resume, run
from slotwise.tracking.trackers import MlflowTracker


class AtRound(Observer):
    """Delete the run in round 10 and restore it in round 38, or only stop in round 20."""

    def __init__(self, project: str, *, stop: bool = False) -> None:
        self._project, self._stop, self._round = project, stop, 0

    def round_done(self, round_number: int) -> None:
        self._round = round_number
        if round_number == 10 and not self._stop:
            self._id = delete_run(self._project).partition("/")[2]
        if round_number == 38 and not self._stop:
            client().restore_run(self._id)

    def wants_stop(self) -> bool:
        return self._stop and self._round >= 20


def client() -> Any:
    from mlflow import MlflowClient

    return MlflowClient()


def delete_run(project: str) -> str:
    """Delete the only run of a project; return its id."""
    (stored,) = read_mlflow(project)
    client().delete_run(stored.id.partition("/")[2])
    return stored.id


def assert_all_points_are_stored(folder: Path, project: str) -> Stored:
    (stored,) = read_mlflow(project)
    assert stored.steps == [point.slot for point in RunFolder(folder).points()]
    return stored


def test_a_store_that_refuses_for_a_while_has_all_points_in_the_end(
    config: RunConfig, tmp_path: Path, project: str, mlflow_store: Path
) -> None:
    notices: list[str] = []
    tracking = MlflowTracker(project=project, notify=notices.append)
    run(config, tmp_path / "run", task=Toy(), observer=Observers(tracking, AtRound(project)))
    assert len(notices) == 1
    stored = assert_all_points_are_stored(tmp_path / "run", project)
    assert stored.status == ("FINISHED", "finished")


def test_a_run_that_was_deleted_is_logged_again_when_resumed(
    config: RunConfig, tmp_path: Path, project: str, mlflow_store: Path
) -> None:
    stopping = Observers(MlflowTracker(project=project), AtRound(project, stop=True))
    run(config, tmp_path / "run", task=Toy(), observer=stopping)
    before = delete_run(project)
    resume(tmp_path / "run", task=Toy(), observer=MlflowTracker(project=project))
    assert assert_all_points_are_stored(tmp_path / "run", project).id != before


def test_characters_that_mlflow_refuses_are_replaced(
    config: RunConfig, tmp_path: Path, project: str, mlflow_store: Path
) -> None:
    tracking = MlflowTracker(project=project)
    folder = RunFolder.create(tmp_path / "run", config)
    tracking.run_opened(folder, config)
    tracking.log({"top-1 (%)": 0.5, "class/7": 1.0}, 3)
    tracking.run_ended("finished")
    (stored,) = read_mlflow(project)
    metrics = client().get_run(stored.id.partition("/")[2]).data.metrics
    assert metrics == {"top-1 ___": 0.5, "class/7": 1.0}


def test_the_variable_of_the_experiment_is_respected(
    config: RunConfig, tmp_path: Path, project: str, mlflow_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", project)
    run(config, tmp_path / "run", task=Toy(), observer=MlflowTracker())
    assert len(read_mlflow(project)) == 1


def test_a_store_that_cannot_be_used_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "gopher://example")
    with pytest.raises(UserError, match="gopher"):
        MlflowTracker()
