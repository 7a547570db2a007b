"""Tasks and rules may use their arrays again: the numbers do not depend on how they are called."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread
from typing import Any

import numpy as np
import pytest
from memory_run import serve_in_memory

from slotwise.aggregation import Contribution, RuleState, Vector, mean
from slotwise.aggregation.norm_bound import NormBounded
from slotwise.base.errors import UserError
from slotwise.base.frozen import same_numbers
from slotwise.learning import Evaluation, History, Interrupted, TrainingStart, train
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.engine import TrainingObserver
from slotwise.learning.reference import asynchronous
from slotwise.learning.task import DeviceState, TrainingResult
from slotwise.learning.workers import Processes, Threads
from slotwise.runs import RunConfig, resume, run
from slotwise.scenario import Scenario
from slotwise.schedule import simulate

SCENARIO = Scenario(devices=6, group_size=2, compute_slots=4, deadline=60)
TIMELINE = simulate(SCENARIO, "idfl")
SIZE = 400


class Fresh:
    """A task with a state whose arrays are new each time."""

    def initial_model(self) -> Vector:
        return np.linspace(1, 2, SIZE, dtype=np.float32)

    def local_update(self, model: Vector, start: TrainingStart) -> TrainingResult:
        count = start.state.get("count", np.zeros(1)) + start.device
        step = np.float32(0.01 * start.device + 1e-3 * start.training)
        return TrainingResult(step * model + np.float32(1e-4 * count[0]), state={"count": count})

    def evaluate(self, model: Vector) -> Evaluation:
        return Evaluation(float(model.sum()), 0.5)


class Reusing(Fresh):
    """The same task with one model, one update, one result table and one state for all calls."""

    def __init__(self) -> None:
        self._first, self._update = super().initial_model(), np.empty(SIZE, dtype=np.float32)
        self._state = {"count": np.zeros(1)}
        self._metrics = {"f1": 0.0}

    def initial_model(self) -> Vector:
        return self._first

    def local_update(self, model: Vector, start: TrainingStart) -> TrainingResult:
        result = super().local_update(model, start)
        self._update[:] = result.update
        self._state["count"][:] = result.state["count"]
        self._first -= 1  # what was returned before must not change
        return TrainingResult(self._update, metrics=self._metrics, state=self._state)


def momentum(
    model: Vector, contributions: Sequence[Contribution], state: RuleState
) -> tuple[Vector, RuleState]:
    velocity = 0.5 * state.get("velocity", np.zeros(len(model))) + (model - mean(model, contributions))
    return (model - velocity).astype(np.float32), {"velocity": velocity}


class ReusingMomentum:
    """The same rule with arrays that are used again."""

    def __init__(self) -> None:
        self.model, self.state = np.empty(SIZE, dtype=np.float32), {"velocity": np.empty(SIZE)}

    def __call__(
        self, model: Vector, contributions: Sequence[Contribution], state: RuleState
    ) -> tuple[Vector, RuleState]:
        found, kept = momentum(model, contributions, state)
        self.model[:], self.state["velocity"][:] = found, kept["velocity"]
        return self.model, self.state


@pytest.fixture(scope="module")
def expected() -> History:
    return train(TIMELINE, Fresh(), aggregation=momentum, evaluate_every=1)


class Stopping(TrainingObserver):
    """Ends a training after three rounds."""

    def round_done(self, round_number: int) -> None:
        if round_number == 2:
            raise KeyboardInterrupt


def bits(history: History) -> list[Any]:
    states = [state["count"].tobytes() for _, state in sorted(history.device_states.items())]
    return [history.model.tobytes(), history.rule_state["velocity"].tobytes(), states, history.points]


@pytest.mark.parametrize("workers", [1, Threads(3), Processes(2)], ids=str)
def test_reused_arrays_give_the_same_models(workers: Any, expected: History) -> None:
    found = train(TIMELINE, Reusing(), aggregation=ReusingMomentum(), evaluate_every=1, workers=workers)
    assert bits(found) == bits(expected)


def test_reused_arrays_give_the_same_models_after_a_resume(expected: History) -> None:
    task, rule = Reusing(), ReusingMomentum()
    with pytest.raises(Interrupted) as caught:
        train(TIMELINE, task, aggregation=rule, workers=1, evaluate_every=1, observer=Stopping())
    part = caught.value.history
    again = train(
        TIMELINE, Reusing(), aggregation=ReusingMomentum(), workers=1, evaluate_every=1, resume=part
    )
    assert bits(again) == bits(expected)
    arrays = [*expected.models.values(), *expected.rule_state.values(), expected.device_states[1]["count"]]
    assert not any(array.flags.writeable for array in arrays)


def test_reused_arrays_give_the_models_of_the_reference() -> None:
    scenario = Scenario(devices=6, group_size=2, compute_slots=2)
    models = [list(asynchronous(scenario, task, 8)) for task in (Fresh(), Reusing())]
    assert all(map(np.array_equal, *models))


def test_reused_arrays_give_the_same_models_in_a_run_that_is_resumed(
    tmp_path: Path, expected: History
) -> None:
    config = RunConfig.from_options({**SCENARIO.as_dict(), "evaluate_every": 1})
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path, task=Reusing(), workers=1, observer=Stopping())
    found = resume(tmp_path, task=Reusing(), workers=1).history
    plain = train(TIMELINE, Fresh(), evaluate_every=1)
    assert found.model.tobytes() == plain.model.tobytes()
    assert same_numbers(found.device_states, plain.device_states)


def test_reused_arrays_give_the_same_models_live(tmp_path: Path) -> None:
    config = RunConfig.from_options(SCENARIO.as_dict())
    outcomes = [
        serve_in_memory(tmp_path / type(task).__name__, config=config, task=task, clip_norm="off")
        for task in (Fresh(), Reusing())
    ]
    one, other = (outcome.state.models[outcome.state.round] for outcome in outcomes)
    assert one.tobytes() == other.tobytes()


class Counting(Fresh):
    """A task that changes the state it is given."""

    def local_update(self, model: Vector, start: TrainingStart) -> TrainingResult:
        if start.training == 1:
            start.state["count"][:] += 1
        return super().local_update(model, start)


class Adding(Fresh):
    """A task that adds to the state it is given."""

    def local_update(self, model: Vector, start: TrainingStart) -> TrainingResult:
        start.state["more"] = np.zeros(1)  # type: ignore[index]
        return super().local_update(model, start)


class Evaluating(Fresh):
    """A task that changes the states of devices in an evaluation."""

    def evaluate_devices(self, model: Vector, states: Mapping[int, DeviceState]) -> Evaluation:
        for state in states.values():
            state["count"][:] = 0
        return self.evaluate(model)


@pytest.mark.parametrize("task", [Counting(), Adding(), Evaluating()], ids=lambda task: type(task).__name__)
@pytest.mark.parametrize("workers", [1, Processes(1)], ids=str)
def test_a_state_cannot_be_changed_in_place(task: Any, workers: Any) -> None:
    with pytest.raises((ValueError, TypeError, UserError), match=r"read-only|item assignment"):
        train(TIMELINE, task, workers=workers)


@pytest.mark.parametrize("part", ["update", "start"])
def test_a_rule_cannot_change_what_it_gets(part: str) -> None:
    def rule(model: Vector, contributions: Sequence[Contribution]) -> Vector:
        getattr(contributions[0], part)[:] = 0
        return mean(model, contributions)

    for wrapped in (rule, NormBounded(rule)):
        with pytest.raises(ValueError, match="read-only"):
            train(TIMELINE, Fresh(), aggregation=wrapped)


class Together(Fresh):
    """A task that computes several updates, all in one array."""

    def local_updates(self, model: Vector, starts: Sequence[TrainingStart]) -> list[Vector]:
        update = np.empty(SIZE, dtype=np.float32)
        for start in starts:
            update[:] = self.local_update(model, start).update
        return [update] * len(starts)


def test_several_updates_in_one_array_are_refused() -> None:
    starts = [TrainingStart(1, 0), TrainingStart(2, 0)]
    with pytest.raises(UserError, match="array of its own"):
        CheckedTask.of(Together()).local_updates(np.zeros(SIZE, dtype=np.float32), starts)


class Meeting(Fresh):
    """A task whose calls wait for each other, to see whether two run at once."""

    def __init__(self, *, shared: bool) -> None:
        self._barrier = Barrier(2, timeout=0.1 if shared else 30)
        self._array = np.zeros(SIZE, dtype=np.float32) if shared else None
        self.met: list[bool] = []

    def local_update(self, model: Vector, start: TrainingStart) -> Any:
        if start.training:
            try:
                self._barrier.wait()
                self.met.append(True)
            except BrokenBarrierError:
                self.met.append(False)
        return np.zeros(SIZE, dtype=np.float32) if self._array is None else self._array


@pytest.mark.parametrize("shared", [False, True])
def test_a_task_computes_in_threads_at_once_unless_they_share_what_it_returns(shared: bool) -> None:
    task = Meeting(shared=shared)
    checked, model = CheckedTask.of(task), np.zeros(SIZE, dtype=np.float32)

    def call(start: TrainingStart) -> Thread:
        thread = Thread(target=checked.local_update, args=(model, start))
        thread.start()
        return thread

    # The first calls are one after another in any case, and decide whether there may be two at once.
    checked.local_update(model, TrainingStart(1, 0))
    call(TrainingStart(2, 0)).join()
    for thread in [call(TrainingStart(n, 1)) for n in (1, 2)]:
        thread.join()
    assert task.met == [not shared] * 2
