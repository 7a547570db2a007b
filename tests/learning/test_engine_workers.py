import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotwise.aggregation import Vector
from slotwise.learning import Task, Training, train
from slotwise.learning.engine import TrainingObserver
from slotwise.scenario import Scenario
from slotwise.schedule import simulate

MakeTask = Callable[[int, int], Task]


def models_held(scenario: Scenario, delay: int, task: Task) -> list[int]:
    """The number of models held after each of 30 rounds."""
    timeline = simulate(scenario, "idfl", delay=delay, rounds=30)
    with Training(timeline, task, workers=2) as training:
        return [len(training.history().models) for _ in training]


@settings(max_examples=30)
@given(data=st.data())
def test_no_more_models_are_held_than_the_staleness_and_one(
    data: st.DataObject, least_squares: MakeTask
) -> None:
    devices = data.draw(st.integers(1, 9))
    scenario = Scenario(devices=devices, group_size=data.draw(st.integers(1, devices)), compute_slots=2)
    delay = data.draw(st.integers(0, scenario.largest_delay))
    staleness = simulate(scenario, "idfl", delay=delay, rounds=30).max_staleness()
    assert max(models_held(scenario, delay, least_squares(devices, 0))) <= staleness + 1


def test_the_last_model_stays(least_squares: MakeTask) -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "idfl", delay=0, rounds=30)
    assert 30 in train(timeline, least_squares(6, 0)).models


class Alive:
    """Counts the models in memory, whoever holds them: those that the aggregation has been given."""

    def __init__(self) -> None:
        self._references: list[weakref.ref[Vector]] = []
        self.most = 0

    def aggregate(self, model: Vector, contributions: list[object]) -> Vector:
        owner = model  # it is given a view
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        self._references.append(weakref.ref(owner))
        updates = [c.update for c in contributions]  # type: ignore[attr-defined]
        return (model - np.mean(updates, axis=0)).astype(np.float32)

    def count(self) -> None:
        gc.collect(0)
        self._references = [r for r in self._references if r() is not None]
        self.most = max(self.most, len(self._references))


class CountingObserver(TrainingObserver):
    def __init__(self, alive: Alive) -> None:
        self._alive = alive

    def round_done(self, round_number: int) -> None:
        self._alive.count()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("delay", "staleness"), [(0, 7), (4, 3), (7, 0)])
def test_memory_holds_the_models_of_the_staleness_and_those_in_flight(
    delay: int, staleness: int, workers: int, least_squares: MakeTask
) -> None:
    scenario = Scenario(devices=8, group_size=1, compute_slots=2)
    timeline = simulate(scenario, "idfl", delay=delay, rounds=200)
    assert timeline.max_staleness() == staleness
    alive = Alive()
    train(
        timeline,
        least_squares(8, 0),
        aggregation=alive.aggregate,  # type: ignore[arg-type]
        workers=workers,
        observer=CountingObserver(alive),
    )
    # A worker that has just finished may still hold its model; one more is in the engine's hands.
    assert staleness <= alive.most <= staleness + 1 + workers + 1
