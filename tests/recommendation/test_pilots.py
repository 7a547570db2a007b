"""A pilot is the beginning of the real run: to the bit, and nothing of it is trained twice."""

from pathlib import Path

import numpy as np
import pytest

from slotwise.base.errors import UserError
from slotwise.batch.executors import SerialExecutor
from slotwise.batch.job import Job, Run
from slotwise.batch.jobs import run_jobs
from slotwise.recommendation.candidates import FolderTrainer, Pilot, pilot_folder
from slotwise.runs import RunConfig, RunFolder, run

from .conftest import Pulling, Tasks

CONFIG = RunConfig().with_options(
    devices=6, group_size=2, compute_slots=4, deadline=320, local_steps=1, evaluate_every=5
)


def train(path: Path, tasks: Tasks, rounds: int | None) -> RunFolder:
    folder = pilot_folder(path)
    run_jobs(folder, [Job(Run("pilot", CONFIG), until=rounds)], SerialExecutor(1, tasks.make))
    return folder.run("pilot")


def test_a_pilot_resumed_to_the_end_is_the_run(tasks: Tasks, tmp_path: Path) -> None:
    points = run(CONFIG, tmp_path / "run", task=Pulling(CONFIG)).history.points
    beginning = train(tmp_path, tasks, 10).points()
    pilot = train(tmp_path, tasks, None)
    assert beginning == [point for point in points if point.round <= 10]
    assert tuple(pilot.points()) == points
    assert pilot.status == "finished"
    assert pilot.description()["model_sha256"] == RunFolder(tmp_path / "run").description()["model_sha256"]


@pytest.mark.parametrize("rounds", [0, 10])
def test_a_pilot_stops_with_its_last_round(tasks: Tasks, tmp_path: Path, rounds: int) -> None:
    pilot = train(tmp_path, tasks, rounds)
    history, _ = pilot.checkpoints.load()
    assert history is not None
    assert (history.rounds, pilot.status) == (rounds, "interrupted")
    assert pilot.points()[0].round == 0


def test_a_pilot_is_not_resumed_with_other_data(tasks: Tasks, tmp_path: Path) -> None:
    for name in ("device-1", "test"):
        np.savez(tmp_path / f"{name}.npz", x=np.zeros((4, 1, 28, 28), np.uint8), y=np.arange(4))
    config = RunConfig.from_options({"data_folder": str(tmp_path), "group_size": 1, "deadline": 200})
    pilots = [Pilot(Run("pilot", config), 100, 1, 1)]
    FolderTrainer(pilot_folder(tmp_path / "out"), make_task=tasks.make)(pilots)
    np.savez(tmp_path / "device-1.npz", x=np.ones((4, 1, 28, 28), np.uint8), y=np.arange(4))
    with pytest.raises(UserError, match="has changed"):
        FolderTrainer(pilot_folder(tmp_path / "out"), make_task=tasks.make)(pilots)
