"""Trainings of the explorer as the page shows them: what the events of a process change."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from slotwise.errors import UserError
from slotwise.web.trainings import Training, Trainings


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
        trainings = Trainings(tmp_path)
        trainings.stop()
        await trainings.close()
        return trainings.as_dicts()

    assert asyncio.run(close()) == []


class FakeProcess:
    """A process that ends when its input is closed."""

    def __init__(self) -> None:
        self.stdin, self.stdout = self, asyncio.StreamReader()

    def write(self, data: bytes) -> None:
        del data

    def close(self) -> None:
        self.stdout.feed_eof()

    async def wait(self) -> int:
        return 0


def test_of_two_requests_at_once_only_one_starts_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = 0

    async def start_process(*command: str, **options: Any) -> FakeProcess:
        nonlocal started
        started += 1
        await asyncio.sleep(0)
        return FakeProcess()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_process)

    async def start_two() -> list[Training | BaseException]:
        trainings = Trainings(tmp_path)
        plan = {"name": "mnist", "given": {}, "options": {}, "planned": []}
        found = await asyncio.gather(*[trainings.start(plan) for _ in range(2)], return_exceptions=True)
        await trainings.close()
        return found

    assert [type(one) for one in asyncio.run(start_two())] == [Training, UserError]
    assert started == 1


def test_a_training_whose_process_cannot_start_is_not_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [OSError("no memory")]

    async def start_process(*command: str, **options: Any) -> FakeProcess:
        if errors:
            raise errors.pop()
        return FakeProcess()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_process)

    async def start_twice() -> int:
        trainings = Trainings(tmp_path)
        plan = {"name": "mnist", "given": {}, "options": {}, "planned": []}
        with pytest.raises(OSError, match="no memory"):
            await trainings.start(plan)
        await trainings.start(plan)
        await trainings.close()
        return len(trainings.as_dicts())

    assert asyncio.run(start_twice()) == 1
