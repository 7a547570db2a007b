"""Trainings of the explorer as the page shows them: what the events of a process change."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from slotwise.base.errors import UserError
from slotwise.web import trainings
from slotwise.web.trainings import Training, Trainings, TrainingWorker
from slotwise.workers import WorkerLost


@pytest.fixture
def training() -> Training:
    return Training(1, Path("runs/mnist"), {}, [(0, 0)])


def take(training: Training, *events: dict[str, Any]) -> None:
    for event in events:
        training.take(event)


def test_events_of_a_training_are_its_state(training: Training) -> None:
    assert (training.status, training.is_over) == ("starting", False)
    take(training, {"event": "started", "rounds": 9, "slots": 90}, {"event": "round", "round": 2})
    assert (training.status, training.rounds, training.round) == ("training", 9, 2)
    take(training, {"event": "point", "slot": 30, "round": 3, "loss": 1.5, "accuracy": 0.5})
    take(training, {"event": "point", "slot": 10, "round": 1, "loss": 2.5, "accuracy": float("nan")})
    assert training.points == [(30, 3, 1.5, 0.5), (10, 1, 2.5, None)]
    assert training.round == 3
    take(training, {"event": "news"}, {"event": "ended", "status": "finished", "rounds": 9})
    assert (training.status, training.round, training.is_over) == ("finished", 9, True)
    assert training.as_dict()["name"] == "mnist"


def test_a_refused_training_says_why(training: Training) -> None:
    take(training, {"event": "ended", "status": "refused", "message": "no data", "parameter": None})
    assert (training.status, training.message, training.round) == ("refused", "no data", 0)


def test_without_a_training_there_is_nothing_to_stop(tmp_path: Path) -> None:
    async def close() -> list[dict[str, Any]]:
        no_trainings = Trainings(tmp_path)
        no_trainings.stop()
        await no_trainings.close()
        return no_trainings.as_dicts()

    assert asyncio.run(close()) == []


class FakeProcess:
    """A process whose training goes on until it is stopped."""

    def __init__(self, *_: object, **__: object) -> None:
        self.closed = False

    def load(self) -> None:
        pass

    def call(self, method: str, seconds: float, stop: bool) -> tuple[list[dict[str, Any]], bool]:
        ended = {"event": "ended", "status": "interrupted", "rounds": 1}
        return ([ended], True) if stop else ([{"event": "started", "rounds": 9}], False)

    def close(self) -> None:
        self.closed = True


PLAN = {"name": "mnist", "given": {}, "options": {}, "planned": []}


def test_one_training_at_a_time_which_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainings, "ProcessWorker", FakeProcess)

    async def start_twice() -> Training:
        all_trainings = Trainings(tmp_path)
        first = all_trainings.start(PLAN)
        with pytest.raises(UserError, match="still training"):
            all_trainings.start(PLAN)
        await all_trainings.close()
        assert len(all_trainings.as_dicts()) == 1
        return first

    assert asyncio.run(start_twice()).status == "interrupted"


def test_a_training_whose_process_cannot_start_is_not_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [OSError("no memory")]

    def start_process(*_: object, **__: object) -> FakeProcess:
        if errors:
            raise errors.pop()
        return FakeProcess()

    monkeypatch.setattr(trainings, "ProcessWorker", start_process)

    async def start_twice() -> int:
        all_trainings = Trainings(tmp_path)
        with pytest.raises(OSError, match="no memory"):
            all_trainings.start(PLAN)
        all_trainings.start(PLAN)
        await all_trainings.close()
        return len(all_trainings.as_dicts())

    assert asyncio.run(start_twice()) == 1


def test_a_training_whose_process_is_lost_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_: object) -> None:
        raise WorkerLost("its process was ended by SIGKILL")

    monkeypatch.setattr(trainings, "ProcessWorker", FakeProcess)
    monkeypatch.setattr(FakeProcess, "call", lose)

    async def follow() -> Training:
        all_trainings = Trainings(tmp_path)
        training = all_trainings.start(PLAN)
        await all_trainings.close()
        return training

    training = asyncio.run(follow())
    assert (training.status, training.message) == ("failed", "its process was ended by SIGKILL")


def test_a_worker_trains_and_tells_events(tmp_path: Path) -> None:
    options = {"devices": 4, "group_size": 2, "compute_slots": 4, "deadline": 60, "samples_per_device": 20}
    options |= {"local_steps": 1, "batch_size": 8, "channels": [2], "hidden": []}
    found = [
        TrainingWorker(given, {}, tmp_path / name).report(60, False)
        for name, given in (("run", options), ("other", {**options, "group_size": 5}))
    ]
    (events, over), (refused, _) = found
    assert over
    assert [event["event"] for event in events if event["event"] != "round"][:2] == ["started", "point"]
    assert (events[-1]["event"], events[-1]["status"]) == ("ended", "finished")
    assert [(event["status"], event["parameter"]) for event in refused] == [("refused", "group_size")]
