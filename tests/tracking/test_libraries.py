"""The same runs in all four libraries: what each has stored is what the run folder has."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stored_runs import Stored, read_stored
from tracked_toy import OPTIONS, Diverging, Failing, Toy

from slotwise.base.observer import Observers
from slotwise.learning import Diverged
from slotwise.runs import Observer, RunConfig, RunFolder, resume, run
from slotwise.tracking import TRACKERS, tracker

each_library = pytest.mark.parametrize("library", TRACKERS, indirect=True)


class StopAfter(Observer):
    def __init__(self, rounds: int) -> None:
        self._left = rounds

    def round_done(self, round_number: int) -> None:
        self._left -= 1

    def wants_stop(self) -> bool:
        return self._left <= 0


def tracked(library: str, project: str) -> Observer:
    return tracker(library, project=None if library == "tensorboard" else project)


def assert_has_points_of(folder: Path, stored: Stored) -> None:
    points = RunFolder(folder).points()
    assert len(points) > 5
    assert stored.steps == [point.slot for point in points]
    columns = [(p.loss, p.accuracy, p.slot, p.round, p.staleness, p.metrics["test_loss"]) for p in points]
    assert stored.rows == [pytest.approx(column, rel=1e-6) for column in columns]


def joined(library: str, stored: list[Stored]) -> Stored:
    """The runs as one. wandb has a file for each time that an offline run was resumed, with the same id."""
    if library == "wandb":
        first, *others = stored
        assert {other.id for other in others} <= {first.id}
        steps, rows = ([item for part in stored for item in getattr(part, n)] for n in ("steps", "rows"))
        return stored[-1]._replace(steps=steps, rows=rows)
    (only,) = stored
    return only


@each_library
def test_every_point_is_logged_with_its_slot_as_the_step_and_the_options_as_configuration(
    library: str, project: str, config: RunConfig, tmp_path: Path
) -> None:
    run(config, tmp_path / "run", task=Toy(), observer=tracked(library, project))
    (stored,) = read_stored(library, tmp_path, project)
    assert_has_points_of(tmp_path / "run", stored)
    options = config.options()
    assert stored.config.keys() >= options.keys()
    assert str(stored.config["group_size"]) in ("2", "2.0")
    assert stored.config["schedule"] == options["schedule"]


ENDS: dict[str, dict[str, Any]] = {
    "finished": {"wandb": 0, "trackio": None, "mlflow": ("FINISHED", "finished"), "tensorboard": 1},
    "interrupted": {"wandb": 255, "trackio": None, "mlflow": ("KILLED", "interrupted"), "tensorboard": None},
    "diverged": {"wandb": 1, "trackio": None, "mlflow": ("FAILED", "diverged"), "tensorboard": 2},
    "failed": {"wandb": 1, "trackio": None, "mlflow": ("FAILED", "failed"), "tensorboard": None},
}


@each_library
@pytest.mark.parametrize("end", ENDS)
def test_the_tracker_is_told_how_the_run_ended(
    library: str, project: str, end: str, config: RunConfig, tmp_path: Path
) -> None:
    task = {"diverged": Diverging(), "failed": Failing()}.get(end, Toy())
    observer = Observers(tracked(library, project), StopAfter(20 if end == "interrupted" else 1000))
    try:
        run(config, tmp_path / "run", task=task, observer=observer)
    except (Diverged, ZeroDivisionError):
        assert end in ("diverged", "failed")
    (stored,) = read_stored(library, tmp_path, project)
    assert stored.status == ENDS[end][library]


@each_library
def test_a_resumed_run_continues_the_run_of_the_tracker(
    library: str, project: str, config: RunConfig, tmp_path: Path
) -> None:
    stopping = Observers(StopAfter(20), tracked(library, project))
    run(config, tmp_path / "run", task=Toy(), observer=stopping)
    resume(tmp_path / "run", task=Toy(), observer=tracked(library, project))
    stored = joined(library, read_stored(library, tmp_path, project))
    assert_has_points_of(tmp_path / "run", stored)
    assert stored.status == ENDS["finished"][library]


@each_library
def test_a_run_that_is_tracked_only_when_resumed_is_complete(
    library: str, project: str, config: RunConfig, tmp_path: Path
) -> None:
    run(config, tmp_path / "run", task=Toy(), observer=StopAfter(20))
    resume(tmp_path / "run", task=Toy(), observer=tracked(library, project))
    (stored,) = read_stored(library, tmp_path, project)
    assert_has_points_of(tmp_path / "run", stored)


@each_library
def test_a_run_that_replaces_another_is_a_new_one_for_the_tracker(
    library: str, project: str, config: RunConfig, tmp_path: Path
) -> None:
    run(config, tmp_path / "run", task=Toy(), observer=tracked(library, project))
    longer = config.with_options(deadline=150)
    run(longer, tmp_path / "run", task=Toy(), overwrite=True, observer=tracked(library, project))
    *first, second = read_stored(library, tmp_path, project)
    assert_has_points_of(tmp_path / "run", second)
    if library != "tensorboard":  # its files are those of the run folder
        assert len(first) == 1
        assert first[0].id != second.id


@pytest.mark.slow
@each_library
def test_no_point_is_lost_or_logged_twice_after_a_kill(
    library: str, project: str, config: RunConfig, tmp_path: Path
) -> None:
    words = ["train", "--task", "tracked_toy:make_killer", *OPTIONS, "--checkpoint-every", "0", "--quiet"]
    words += ["--out", str(tmp_path / "run"), "--track", library]
    words += [] if library == "tensorboard" else ["--track-project", project]
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "SLOTWISE_KILL": "1", "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", "from slotwise.cli import main; main()", *words],
        check=False,
        env=environment,
        timeout=240,
        capture_output=True,
    )
    assert done.returncode == -9, done.stderr.decode()
    resume(tmp_path / "run", observer=tracked(library, project))
    *before, stored = read_stored(library, tmp_path, project)
    assert_has_points_of(tmp_path / "run", stored)
    if library == "wandb":  # offline it may have lost points of the killed process, so it has another run
        assert len(before) == 1
        assert before[0].id != stored.id
    else:
        assert before == []
