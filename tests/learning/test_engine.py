import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotwise.aggregation import (
    Aggregation,
    Contribution,
    FedAdam,
    Krum,
    RuleState,
    TrimmedMean,
    Vector,
    mean,
    model_average,
)
from slotwise.base.errors import InputError, UserError
from slotwise.learning import (
    Evaluation,
    History,
    Interrupted,
    Point,
    Task,
    TaskWrapper,
    Training,
    TrainingStart,
    train,
)
from slotwise.learning.engine import TrainingObserver
from slotwise.learning.reference import asynchronous, synchronous
from slotwise.learning.task import TrainingResult, update_of
from slotwise.scenario import Scenario
from slotwise.schedule import Participation, Schedule, Timeline, simulate
from slotwise.schedule.policies import Participants

MakeTask = Callable[[int, int], Task]


class Case(NamedTuple):
    scenario: Scenario
    schedule: Schedule
    delay: int
    participation: Participation
    seed: int
    rounds: int

    def timeline(self) -> Timeline:
        return simulate(
            self.scenario,
            self.schedule,
            delay=self.delay if self.schedule == "idfl" else "auto",
            participation=self.participation if self.schedule == "sync" else "round-robin",
            seed=self.seed,
            rounds=self.rounds,
        )

    def reference(self, task: Task, aggregation: Aggregation = mean) -> list[Vector]:
        """w_0, w_1, … by the pseudocode, without a timeline."""
        if self.schedule == "sync":
            return list(synchronous(task, self.rounds, self._participants, aggregation))
        return list(asynchronous(self.scenario, task, self.rounds, self.delay, aggregation))

    def _participants(self, round_number: int) -> list[int]:
        n, s = self.scenario.devices, self.scenario.group_size
        if self.participation == "random":
            return list(Participants(n, s, "random", self.seed).participants(round_number))
        return sorted((round_number * s + i) % n + 1 for i in range(s))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    devices = draw(st.integers(1, 9))
    scenario = Scenario(
        devices=devices,
        group_size=draw(st.integers(1, devices)),
        compute_slots=draw(st.integers(1, 12)),
        link_slots=draw(st.integers(1, 3)),
    )
    schedule: Schedule = draw(st.sampled_from(["sync", "async", "idfl"]))
    return Case(
        scenario=scenario,
        schedule=schedule,
        delay=draw(st.integers(0, scenario.largest_delay)) if schedule == "idfl" else 0,
        participation=draw(
            st.sampled_from(["round-robin", "random"] if schedule == "sync" else ["round-robin"])
        ),
        seed=draw(st.integers(0, 99)),
        rounds=draw(st.integers(1, 14)),
    )


class Recorder(TrainingObserver):
    """Ends the training after ``stop_after`` rounds."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.rounds: list[int] = []
        self.points: list[Point] = []
        self._stop_after = stop_after

    def round_done(self, round_number: int) -> None:
        self.rounds.append(round_number)

    def evaluated(self, point: Point) -> None:
        self.points.append(point)

    def wants_stop(self) -> bool:
        return len(self.rounds) == self._stop_after


def histories(timeline: Timeline, task: Task, **options: object) -> list[History]:
    """The state after every round."""
    with Training(timeline, task, **options) as training:  # type: ignore[arg-type]
        return [training.history() for _ in training]


def same(one: History, other: History) -> bool:
    """Whether two runs ended the same to the bit, and would go on the same."""
    return (
        (one.rounds, one.points) == (other.rounds, other.points)
        and one.models.keys() == other.models.keys()
        and all(np.array_equal(one.models[v], other.models[v]) for v in one.models)
    )


@settings(max_examples=150)
@given(case=cases())
def test_every_model_is_the_reference_s_to_the_bit(case: Case, least_squares: MakeTask) -> None:
    task = least_squares(case.scenario.devices, case.seed)
    models = [history.model for history in histories(case.timeline(), task)]
    expected = case.reference(task)[1:]
    assert len(models) == len(expected)
    assert all(map(np.array_equal, models, expected))


def by_age(model: Vector, contributions: Sequence[Contribution]) -> Vector:
    """Older updates weigh less, and the order of the uplinks matters."""
    for number, (update, staleness, *_) in enumerate(contributions):
        model = model - update * np.float32(1 / (1 + staleness + number))
    return model


@settings(max_examples=50)
@given(case=cases())
def test_an_aggregation_is_given_the_reference_s_staleness_and_order(
    case: Case, least_squares: MakeTask
) -> None:
    task = least_squares(case.scenario.devices, case.seed)
    history = train(case.timeline(), task, aggregation=by_age)
    assert np.array_equal(history.model, case.reference(task, by_age)[-1])


@settings(max_examples=50)
@given(case=cases(), every=st.integers(1, 20))
def test_the_result_does_not_depend_on_the_number_of_workers(
    case: Case, every: int, least_squares: MakeTask
) -> None:
    task, timeline = least_squares(case.scenario.devices, case.seed), case.timeline()
    one, two, four = (train(timeline, task, workers=n, evaluate_every=every) for n in (1, 2, 4))
    assert same(one, two)
    assert same(one, four)


@settings(max_examples=50)
@given(case=cases(), every=st.integers(1, 20), workers=st.integers(1, 3))
def test_going_on_from_any_checkpoint_ends_the_same(
    case: Case, every: int, workers: int, least_squares: MakeTask
) -> None:
    task, timeline = least_squares(case.scenario.devices, case.seed), case.timeline()
    straight = train(timeline, task, evaluate_every=every)
    checkpoints = histories(timeline, task, evaluate_every=every)
    assert len(checkpoints) == case.rounds
    for checkpoint in checkpoints:
        resumed = train(timeline, task, workers=workers, evaluate_every=every, resume=checkpoint)
        assert same(resumed, straight)


@settings(max_examples=30)
@given(case=cases())
def test_async_where_all_send_in_every_round_is_sync(case: Case, least_squares: MakeTask) -> None:
    devices = case.scenario.devices
    scenario = Scenario(devices=devices, group_size=devices, compute_slots=case.scenario.compute_slots)
    task = least_squares(devices, case.seed)
    asynchronously, synchronously = (
        train(simulate(scenario, schedule, rounds=case.rounds), task, evaluate_every=5)
        for schedule in ("async", "sync")
    )
    assert same(asynchronously, synchronously)


@settings(max_examples=30)
@given(case=cases())
def test_idfl_without_delay_is_async(case: Case, least_squares: MakeTask) -> None:
    task = least_squares(case.scenario.devices, case.seed)
    timelines = (
        simulate(case.scenario, "idfl", delay=0, rounds=case.rounds),
        simulate(case.scenario, "async", rounds=case.rounds),
    )
    delayed, asynchronously = (train(timeline, task, evaluate_every=5) for timeline in timelines)
    assert same(delayed, asynchronously)


def test_the_reference_yields_the_initial_model_first_and_a_delay_changes_it(least_squares: MakeTask) -> None:
    # Otherwise the tests above would compare constants.
    scenario = Scenario(devices=6, group_size=2, compute_slots=2)
    task = least_squares(6, 0)
    models = [train(simulate(scenario, "idfl", delay=a, rounds=9), task).model.tolist() for a in range(3)]
    assert len({tuple(model) for model in models}) == 3
    task = least_squares(2, 0)
    scenario = Scenario(devices=2, group_size=1, compute_slots=1)
    models: Iterator[Vector] = asynchronous(scenario, task, 1)
    assert np.array_equal(next(models), task.initial_model())


@pytest.fixture
def run(least_squares: MakeTask) -> Callable[..., History]:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=10)
    task = least_squares(6, 0)

    def runner(**options: object) -> History:
        return train(timeline, task, **options)  # type: ignore[arg-type]

    return runner


def test_an_early_end_has_the_rounds_and_points_of_the_whole_run_up_to_there(
    run: Callable[..., History], least_squares: MakeTask
) -> None:
    whole = run(evaluate_every=4)
    part = run(evaluate_every=4, observer=Recorder(stop_after=6))
    assert part.rounds == 6
    assert part.points == tuple(point for point in whole.points if point.round <= 6)
    history = run(observer=Recorder(stop_after=0))
    assert history.rounds == 0
    assert [point.round for point in history.points] == [0]
    assert np.array_equal(history.model, least_squares(6, 0).initial_model())


def test_the_observer_and_the_columns_of_a_history_have_every_round_and_point(
    run: Callable[..., History],
) -> None:
    recorder = Recorder()
    history = run(evaluate_every=1, workers=3, observer=recorder)
    assert recorder.rounds == list(range(10))
    assert tuple(recorder.points) == history.points
    assert [point.round for point in history.points] == list(range(11))
    history = run(evaluate_every=4)
    assert history.slot.tolist() == [point.slot for point in history.points]
    assert history.round.tolist() == [point.round for point in history.points]
    assert history.loss.tolist() == [point.loss for point in history.points]
    assert history.accuracy.tolist() == [point.accuracy for point in history.points]
    assert [column.dtype for column in (history.slot, history.loss)] == [np.int64, np.float64]
    finished = run(evaluate_every=3)
    assert same(run(evaluate_every=3, resume=finished), finished)


def test_a_caller_may_drive_the_rounds_and_stop_anywhere(least_squares: MakeTask) -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=10)
    task = least_squares(6, 0)
    seen: list[Point] = []
    with Training(timeline, task, evaluate_every=1, workers=2) as training:
        for k in training:
            assert training.rounds == k + 1
            seen += training.new_points()
            if k == 6:
                break
        history = training.history()
        assert tuple(seen + training.new_points()) == history.points
        assert np.array_equal(training.model, history.model)
    assert same(
        train(timeline, task, evaluate_every=1, resume=history), train(timeline, task, evaluate_every=1)
    )


def test_points_have_slot_staleness_and_evaluation_of_their_models(
    run: Callable[..., History], least_squares: MakeTask
) -> None:
    # The worked example: rounds end at slots 5, 8, 11, … and the oldest update is min(k, 2) rounds old.
    points = run(evaluate_every=1).points
    assert [point.slot for point in points[:5]] == [0, 5, 8, 11, 14]
    assert [point.staleness for point in points[:5]] == [0, 0, 1, 2, 2]
    task = least_squares(6, 0)
    scenario = Scenario(devices=6, group_size=2, compute_slots=2)
    history = train(simulate(scenario, "async", rounds=8), task, evaluate_every=1, workers=2)
    models = list(asynchronous(scenario, task, 8))
    found = [(point.loss, point.accuracy) for point in history.points]
    assert found == [task.evaluate(model)[:2] for model in models]


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_workers_must_be_a_whole_number_of_at_least_one(workers: object, run: Callable[..., History]) -> None:
    with pytest.raises(InputError, match="workers"):
        run(workers=workers)


def test_an_error_of_the_task_comes_through(least_squares: MakeTask) -> None:
    class Broken(TaskWrapper):
        def sent(self, update: Vector, start: TrainingStart) -> Vector:
            if (start.device, start.training) == (3, 1):
                raise RuntimeError("start.device 3 is on fire")
            return update

    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=10)
    with pytest.raises(RuntimeError, match="device 3 is on fire"):
        train(timeline, Broken(least_squares(6, 0)), workers=2)


class Interrupting(TrainingObserver):
    """Presses Ctrl-C after a round."""

    def __init__(self, round_number: int) -> None:
        self._round = round_number

    def round_done(self, round_number: int) -> None:
        if round_number == self._round:
            raise KeyboardInterrupt


def test_ctrl_c_raises_what_there_is_and_can_be_resumed(least_squares: MakeTask) -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=9)
    task = least_squares(6, 0)
    whole = train(timeline, task, evaluate_every=3)
    with pytest.raises(Interrupted) as caught:
        train(timeline, task, evaluate_every=3, observer=Interrupting(3))
    part = caught.value.history
    assert part.rounds == 4
    resumed = train(timeline, task, evaluate_every=3, resume=part)
    assert resumed.model.tobytes() == whole.model.tobytes()
    assert resumed.points == whole.points


def momentum(
    model: Vector, contributions: Sequence[Contribution], state: RuleState
) -> tuple[Vector, RuleState]:
    step = model - mean(model, contributions)
    velocity = 0.5 * state["velocity"] + step if state else step
    return model - velocity, {"velocity": velocity}


class Counting(TaskWrapper):
    """A task whose devices count their trainings, and step further with each."""

    def local_update(self, model: Vector, start: TrainingStart) -> TrainingResult:
        trained = start.state.get("trained", np.zeros(1, dtype=np.float32)) + 1
        update = update_of(self.task.local_update(model, start))
        return TrainingResult(update * trained, state={"trained": trained})


@contextmanager
def interrupt_at(function: Callable[..., object], instruction: int) -> Iterator[None]:
    """Press Ctrl-C before the given instruction of a function, counted from its first call on."""
    left = instruction

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code is not function.__code__:
            return None
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    # Python 3.12 reports instructions only if a frame has asked for them before `settrace`.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("schedule", ["async", "idfl"])
def test_ctrl_c_at_any_instruction_of_a_round_leaves_a_whole_round(
    schedule: Schedule, least_squares: MakeTask
) -> None:
    timeline = simulate(Scenario(devices=3, group_size=1, compute_slots=1), schedule, rounds=6)
    task = Counting(least_squares(3, 0))
    whole = train(timeline, task, aggregation=momentum)
    rounds = set()
    for instruction in count():
        with Training(timeline, task, aggregation=momentum) as training:
            for _ in range(3):
                training.advance()
            try:
                with interrupt_at(Training.advance, instruction):
                    training.advance()
                break
            except KeyboardInterrupt:
                part = training.history()
        rounds.add(part.rounds)
        resumed = train(timeline, task, aggregation=momentum, resume=part)
        assert resumed.model.tobytes() == whole.model.tobytes()
        assert resumed.rule_state["velocity"].tobytes() == whole.rule_state["velocity"].tobytes()
        assert resumed.device_states == whole.device_states
        assert max(part.models) == part.rounds
    assert rounds == {3, 4}


def test_a_local_training_knows_its_model_and_a_contribution_its_device(least_squares: MakeTask) -> None:
    starts: list[TrainingStart] = []

    class Noted(TaskWrapper):
        def sent(self, update: Vector, start: TrainingStart) -> Vector:
            starts.append(start)
            return update

    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "idfl", rounds=9)
    train(timeline, Noted(least_squares(6, 0)), workers=1)
    complete = [0, *timeline.broadcast_end.tolist()]
    columns = (timeline.device, timeline.training, timeline.version)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    assert starts == [TrainingStart(n, t, version, complete[version]) for n, t, version in rows]

    class Counted(TaskWrapper):
        def sample_count(self, device: int) -> int:
            return 10 * device

    seen: list[tuple[int, int, int]] = []

    def noting(model: Vector, contributions: Sequence[Contribution]) -> Vector:
        seen.extend((sent.round, sent.device, sent.samples) for sent in contributions)
        return mean(model, contributions)

    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=5)
    train(timeline, Counted(least_squares(6, 0)), aggregation=noting)
    rows = zip(timeline.round.tolist(), timeline.device.tolist(), strict=True)
    assert seen == [(k, n, 10 * n) for k, n in rows]


def test_the_state_of_a_rule_is_kept_from_round_to_round_and_resumed(least_squares: MakeTask) -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=9)
    task = least_squares(6, 0)
    whole = train(timeline, task, aggregation=momentum)
    with pytest.raises(Interrupted) as caught:
        train(timeline, task, aggregation=momentum, observer=Interrupting(3))
    part = caught.value.history
    resumed = train(timeline, task, aggregation=momentum, resume=part)
    assert resumed.model.tobytes() == whole.model.tobytes() != train(timeline, task).model.tobytes()
    assert resumed.rule_state["velocity"].tobytes() == whole.rule_state["velocity"].tobytes()


def test_a_model_that_was_to_be_evaluated_before_an_interrupt_is_evaluated_after_it(
    least_squares: MakeTask,
) -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=9)
    task = least_squares(6, 0)
    whole = train(timeline, task, evaluate_every=1)
    with pytest.raises(Interrupted) as caught:
        train(timeline, task, evaluate_every=1, observer=Interrupting(3))
    part = caught.value.history
    without = History(part.points[:-1], part.models, part.rounds)
    assert train(timeline, task, evaluate_every=1, resume=without).points == whole.points


def test_a_rule_may_be_given_by_its_name(least_squares: MakeTask) -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=5)
    task = least_squares(6, 0)
    named = train(timeline, task, aggregation="model-average")
    assert named.model.tobytes() == train(timeline, task, aggregation=model_average).model.tobytes()


@pytest.mark.parametrize("rule", ["krum", Krum(), TrimmedMean(0.4)], ids=["name", "krum", "trimmed mean"])
def test_a_rule_that_does_not_fit_the_group_size_is_refused(rule: Any, least_squares: MakeTask) -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=5)
    with pytest.raises(InputError) as caught:
        train(timeline, least_squares(6, 0), aggregation=rule)
    assert caught.value.parameter == "group_size"


@pytest.mark.parametrize(
    "rule", ["nosuch", 3, lambda model: model, FedAdam], ids=["name", "number", "arguments", "class"]
)
def test_what_is_no_rule_is_refused(rule: Any, least_squares: MakeTask) -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=5)
    with pytest.raises(InputError) as caught:
        train(timeline, least_squares(6, 0), aggregation=rule)
    assert caught.value.parameter == "aggregation"


def test_a_task_cannot_write_to_the_models_it_is_given(least_squares: MakeTask) -> None:
    class Training(TaskWrapper):
        def local_update(self, model: Vector, start: TrainingStart) -> Vector:
            model *= 2
            return model

    class Evaluating(TaskWrapper):
        def evaluate(self, model: Vector) -> Evaluation:
            model *= 2
            return Evaluation(1.0, 1.0)

    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=4)
    for writing in (Training, Evaluating):
        with pytest.raises(ValueError, match="read-only"):
            train(timeline, writing(least_squares(6, 0)), workers=2)


def test_a_round_whose_rule_failed_can_be_applied_again(least_squares: MakeTask) -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "idfl", rounds=12)
    failures = [RuntimeError("now"), KeyboardInterrupt()]

    def fragile(model: Vector, contributions: Sequence[Contribution]) -> Vector:
        if contributions[0].round == 5 and failures:
            raise failures.pop()
        return mean(model, contributions)

    with Training(timeline, least_squares(6, 0), aggregation=fragile, workers=2) as training:
        while not training.finished:
            with suppress(RuntimeError, KeyboardInterrupt):
                training.advance()
    assert np.array_equal(training.model, train(timeline, least_squares(6, 0)).model)


def test_a_training_that_was_stopped_keeps_its_points_and_applies_no_more_rounds(
    least_squares: MakeTask,
) -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "idfl", rounds=12)
    with Training(timeline, least_squares(6, 0), evaluate_every=1) as training:
        for _ in range(3):
            training.advance()
        training.stop()
        assert [point.round for point in training.history().points] == [0, 1, 2, 3]
        with pytest.raises(UserError, match="stopped"):
            training.advance()


def test_a_history_that_does_not_fit_is_refused(least_squares: MakeTask) -> None:
    scenario = Scenario(devices=6, group_size=2, compute_slots=3)
    short, long = (simulate(scenario, "idfl", rounds=rounds) for rounds in (9, 20))
    history = train(short, least_squares(6, 0))
    for timeline, reason in ((long, "another timeline"), (simulate(scenario, "idfl", rounds=4), "9 rounds")):
        with pytest.raises(UserError, match=f"^resume: .*{reason}"):
            train(timeline, least_squares(6, 0), resume=history)
    other = replace(history, models={9: np.zeros(2, dtype=np.float32)})
    with pytest.raises(UserError, match="numbers each"):
        train(short, least_squares(6, 0), resume=other)


@pytest.mark.parametrize(
    ("changes", "schedule"),
    [
        ({}, "sync"),
        ({"group_size": 3}, "async"),
        ({"link_slots": 2}, "async"),
        ({"compute_slots": 3}, "async"),
    ],
    ids=["schedule", "group size", "link slots", "compute slots"],
)
@pytest.mark.parametrize("is_known", [True, False], ids=["timeline", "checkpoint"])
def test_a_history_of_another_timeline_is_refused(
    changes: dict[str, int], schedule: Schedule, is_known: bool, least_squares: MakeTask
) -> None:
    scenario, task = Scenario(devices=6, group_size=2, compute_slots=2), least_squares(6, 0)
    part = train(simulate(scenario, "async", rounds=4), task, evaluate_every=1)
    part = part if is_known else replace(part, timeline=None)
    other = simulate(replace(scenario, **changes), schedule, rounds=9)
    with pytest.raises(UserError, match="another timeline"):
        train(other, task, resume=part)


def test_a_history_of_the_same_beginning_is_resumed(least_squares: MakeTask) -> None:
    scenario, task = Scenario(devices=6, group_size=2, compute_slots=2), least_squares(6, 0)
    whole = train(simulate(scenario, "async", rounds=9), task)
    with pytest.raises(Interrupted) as caught:
        train(simulate(scenario, "async", rounds=12), task, observer=Interrupting(3))
    part = caught.value.history
    resumed = train(simulate(replace(scenario, deadline=500), "async", rounds=9), task, resume=part)
    assert resumed.model.tobytes() == whole.model.tobytes()


def test_histories_are_compared_by_their_numbers(least_squares: MakeTask) -> None:
    timeline = simulate(Scenario(devices=6, group_size=2, compute_slots=2), "async", rounds=5)
    one, same, other = (train(timeline, least_squares(6, seed)) for seed in (0, 0, 1))
    assert one == same
    assert one != other
    assert one != replace(one, points=one.points[:1])
    assert one != "a history"
