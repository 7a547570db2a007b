"""Which points are logged, and what happens if a library fails: a tracker that keeps its points in a list."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tracked_toy import Toy

from slotwise.base.errors import UserError
from slotwise.learning import Point, train
from slotwise.learning.task import RESERVED
from slotwise.runs import Observer, RunConfig, RunFolder, run
from slotwise.runs.session import RunEnd
from slotwise.tracking import Tracker, tracker
from slotwise.tracking.tracker_base import values_of


class ListTracker(Tracker):
    """Fails in the calls whose names are in ``failing``."""

    library = "list"

    def __init__(self, *failing: str) -> None:
        self.notices: list[str] = []
        super().__init__(notify=self.notices.append)
        self.failing = set(failing)
        self.slots: list[int] = []
        self.ends: list[str] = []

    def _call(self, name: str) -> None:
        if name in self.failing:
            raise ConnectionError("no network\nand a long explanation")

    def begin(self, folder: RunFolder, config: Mapping[str, Any]) -> int:
        self._call("begin")
        return int(self.state["slot"])

    def log(self, values: Mapping[str, float], slot: int) -> None:
        self._call("log")
        self.slots.append(slot)

    def end(self, status: RunEnd) -> None:
        self._call("end")
        self.ends.append(status)


@pytest.mark.parametrize("call", ["begin", "log", "end"])
def test_a_library_that_fails_is_told_once_and_does_not_end_the_training(
    call: str, config: RunConfig, tmp_path: Path
) -> None:
    failing = ListTracker(call)
    result = run(config, tmp_path / "run", task=Toy(), observer=failing)
    assert result.status == "finished"
    assert result.history.rounds == result.timeline.rounds
    (notice,) = failing.notices
    assert "list" in notice
    assert "no network" in notice
    assert "\n" not in notice


def test_points_that_could_not_be_logged_are_logged_at_the_end(config: RunConfig, tmp_path: Path) -> None:
    class Recovering(ListTracker):
        def round_done(self, round_number: int) -> None:
            self.failing = {"log"} if 10 <= round_number < 39 else set()

    recovering = Recovering()
    result = run(config, tmp_path / "run", task=Toy(), observer=recovering)
    assert len(recovering.notices) == 1
    assert recovering.slots == result.history.slot.tolist()
    assert recovering.ends == ["finished"]


def test_without_a_receiver_of_notices_a_failure_is_a_warning(config: RunConfig, tmp_path: Path) -> None:
    class Failing(Tracker):
        library = "mine"

        def begin(self, folder: RunFolder, config: Mapping[str, Any]) -> int:
            raise ConnectionError("no network")

        def log(self, values: Mapping[str, float], slot: int) -> None: ...

        def end(self, status: RunEnd) -> None: ...

    with pytest.warns(RuntimeWarning, match="no network"):
        run(config, tmp_path / "run", task=Toy(), observer=Failing())


def test_metrics_are_logged_by_name_and_no_accuracy_without_one() -> None:
    values = values_of(Point(7, 2, 0.5, 0.25, 1, {"test_loss": 1.5}))
    own = {"train_loss": 0.5, "test_accuracy": 0.25, "slot": 7, "round": 2, "staleness": 1}
    assert values == {"test_loss": 1.5, **own}
    assert {*own} <= {*RESERVED}  # so no metric has such a name
    assert "test_accuracy" not in values_of(Point(7, 2, 0.5, float("nan"), 1))
    older = Point(7, 2, 0.5, float("nan"), 1, {"test_accuracy": 0.5})  # the name was allowed once
    assert values_of(older)["test_accuracy"] == 0.5


def test_a_tracker_needs_a_sound_run_folder(config: RunConfig, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run folder"):
        train(config.simulate(), Toy(), observer=ListTracker())
    folder = RunFolder.create(tmp_path / "run", config)
    (folder.path / "tracking-list.json").write_text("{")
    with pytest.raises(UserError, match=r"tracking-list\.json"):
        ListTracker().run_opened(folder, config)


def test_a_tracked_run_keeps_its_project(
    config: RunConfig, tmp_path: Path, project: str, mlflow_store: Path
) -> None:
    class Stop(Observer):
        def wants_stop(self) -> bool:
            return True

    run(config, tmp_path / "run", task=Toy(), observer=Stop())
    folder = RunFolder(tmp_path / "run")
    first = tracker("mlflow", project=project)
    first.run_opened(folder, config)
    first.run_ended("interrupted")
    with pytest.raises(UserError, match=project):
        tracker("mlflow", project="another").run_opened(folder, config)


@pytest.mark.parametrize(
    "arguments",
    [
        {"library": "clearml"},
        {"library": "tensorboard", "project": "p"},
        {"library": "tensorboard", "name": "n"},
    ],
)
def test_arguments_without_effect_are_refused(arguments: dict[str, str]) -> None:
    with pytest.raises(UserError):
        tracker(**arguments)
