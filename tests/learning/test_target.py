"""Trainings stop at a target after the same round, with any number of workers, also if they are resumed."""

from collections.abc import Callable

import numpy as np
import pytest

from slotwise.base.errors import InputError
from slotwise.learning import AtTarget, History, Task, train
from slotwise.learning.engine import Training
from slotwise.learning.target import Target
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate

TIMELINE: Timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2, deadline=400))


def stopped(task: Task, target: str, workers: int, resume: History | None = None) -> History:
    return train(TIMELINE, task, stop_at=target, workers=workers, evaluate_every=10, resume=resume)


@pytest.mark.parametrize("quantity", ["loss", "accuracy"])
def test_the_model_is_that_of_the_first_evaluation_that_reaches_it(
    least_squares: Callable[[int, int], Task], quantity: str
) -> None:
    task = least_squares(6, 1)
    whole = train(TIMELINE, task, evaluate_every=10)
    values = [getattr(point, quantity) for point in whole.points[: len(whole.points) // 2]]
    best = min(values) if quantity == "loss" else max(values)
    first = next(point for point in whole.points if getattr(point, quantity) == best)
    assert 0 < first.round < TIMELINE.rounds
    target = f"{quantity}={best!r}"
    histories = [stopped(task, target, workers) for workers in (1, 2, 4)]
    for history in histories:
        assert history.points == whole.points[: whole.points.index(first) + 1]
        assert history.rounds == first.round
        assert np.array_equal(history.model, train(TIMELINE.first(first.round), task).model)


def test_a_resumed_training_stops_at_the_same_round(least_squares: Callable[[int, int], Task]) -> None:
    task = least_squares(6, 1)
    target = f"loss={min(train(TIMELINE, task, evaluate_every=10).loss)}"
    whole = stopped(task, target, 1)
    with Training(TIMELINE, task, evaluate_every=10, stop_at=target) as training:
        for _ in range(whole.rounds // 2):
            training.advance()
        half = training.history()
    resumed = stopped(task, target, 2, half)
    assert (resumed.rounds, resumed.points) == (whole.rounds, whole.points)
    assert np.array_equal(resumed.model, whole.model)
    assert stopped(task, target, 1, whole).rounds == whole.rounds


def test_a_target_that_is_never_reached_leaves_the_training_whole(
    least_squares: Callable[[int, int], Task],
) -> None:
    task = least_squares(6, 1)
    assert stopped(task, "loss=1e-9", 2) == train(TIMELINE, task, evaluate_every=10)


@pytest.mark.parametrize(
    "target", ["accuracy", "accuracy=0", "accuracy=1.5", "loss=-1", "loss=nan", "rounds=3"]
)
def test_other_targets_are_refused(target: str) -> None:
    for make in (lambda: Target.parse(target, "stop_at"), lambda: AtTarget(stop_at=target)):
        with pytest.raises(InputError) as caught:
            make()
        assert caught.value.parameter == "stop_at"
