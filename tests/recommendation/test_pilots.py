"""A pilot is the beginning of the real run: to the bit, and nothing of it is trained twice."""

from pathlib import Path

import numpy as np
import pytest

from slotwise.errors import UserError
from slotwise.learning import Evaluation
from slotwise.observer import Observer
from slotwise.recommendation.pilots import Interrupted, Pilot, PilotTasks
from slotwise.runs import RunConfig, RunFolder, execute

from .conftest import Pulling

PARAMETERS = RunConfig().with_options(
    devices=6, group_size=2, compute_slots=4, deadline=320, local_steps=1, evaluate_every=5
)


@pytest.fixture
def pilot(tmp_path: Path) -> Pilot:
    return Pilot(RunFolder(tmp_path / "pilot"), PARAMETERS)


def test_a_pilot_resumed_to_the_end_is_the_run(pilot: Pilot, tasks: PilotTasks, tmp_path: Path) -> None:
    whole = execute(RunFolder.create(tmp_path / "run", PARAMETERS), PARAMETERS, task=Pulling(PARAMETERS))
    rounds = PARAMETERS.simulate().rounds
    beginning = pilot.climb(10, tasks=tasks)
    end = pilot.climb(rounds, tasks=tasks)
    assert beginning == tuple(point for point in whole.history.points if point.round <= 10)
    assert end == whole.history.points
    assert pilot.folder.status == "finished"
    assert (
        pilot.folder.description()["model_sha256"]
        == RunFolder(tmp_path / "run").description()["model_sha256"]
    )


def test_a_pilot_stops_with_the_last_round_of_its_rung(pilot: Pilot, tasks: PilotTasks) -> None:
    pilot.climb(10, tasks=tasks)
    history, _ = pilot.folder.checkpoints.load()
    assert history is not None
    assert (history.rounds, pilot.folder.status) == (10, "interrupted")


def test_what_is_there_is_not_trained_again(pilot: Pilot, tasks: PilotTasks, made: list[Pulling]) -> None:
    first = pilot.climb(10, tasks=tasks)
    count = len(made[0].trainings)
    assert pilot.climb(10, tasks=tasks) == first
    assert len(pilot.climb(4, tasks=tasks) or ()) < len(first or ())
    assert len(made[0].trainings) == count


def test_a_rung_before_the_first_round_shows_the_first_model(pilot: Pilot, tasks: PilotTasks) -> None:
    points = pilot.climb(0, tasks=tasks)
    assert [point.round for point in points or ()] == [0]


class Exploding(Pulling):
    """Its loss leaves the numbers in the second half of the run."""

    def evaluate(self, model: np.ndarray) -> Evaluation:  # type: ignore[type-arg]
        return Evaluation(float("inf") if len(self.trainings) > 40 else 1.0, 0.5)


def test_a_pilot_that_diverges_is_out_from_then_on_but_not_before(pilot: Pilot) -> None:
    tasks = PilotTasks(Exploding)
    before = pilot.climb(10, tasks=tasks)
    assert before is not None
    assert pilot.climb(40, tasks=tasks) is None
    assert pilot.climb(40, tasks=tasks) is None
    assert pilot.climb(10, tasks=tasks) == before


class Impatient(Observer):
    def __init__(self) -> None:
        self.rounds = 0

    def round_done(self, round_number: int) -> None:
        self.rounds += 1

    def wants_stop(self) -> bool:
        return self.rounds >= 3


def test_a_pilot_that_is_broken_off_goes_on_later(pilot: Pilot, tasks: PilotTasks, tmp_path: Path) -> None:
    undisturbed = Pilot(RunFolder(tmp_path / "other"), PARAMETERS).climb(10, tasks=tasks)
    with pytest.raises(Interrupted):
        pilot.climb(10, tasks=tasks, watcher=Impatient())
    assert pilot.climb(10, tasks=tasks) == undisturbed


def test_a_folder_with_another_run_is_refused(tmp_path: Path, tasks: PilotTasks) -> None:
    RunFolder.create(tmp_path / "pilot", RunConfig())
    with pytest.raises(UserError, match="made with other parameters"):
        Pilot(RunFolder(tmp_path / "pilot"), PARAMETERS).climb(1, tasks=tasks)


def test_a_built_in_task_is_made_once_for_each_seed_and_an_own_one_for_each_run() -> None:
    calls: list[RunConfig] = []
    tasks = PilotTasks(lambda parameters: calls.append(parameters) or Pulling(parameters))  # type: ignore[func-returns-value]
    tasks.of(RunConfig().with_options(group_size=5))
    tasks.of(RunConfig().with_options(group_size=10))
    tasks.of(RunConfig().with_options(seed=1))
    assert len(calls) == 2
    tasks.of(RunConfig().with_options(task="a:b"))
    tasks.of(RunConfig().with_options(task="a:b"))
    assert len(calls) == 4
