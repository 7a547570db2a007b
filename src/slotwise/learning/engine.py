"""Training along a timeline: `Training`, which a caller drives round by round, and `train`, which runs it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from itertools import islice
from math import nan
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from slotwise.aggregation import (
    RULE,
    Aggregation,
    Contribution,
    RuleState,
    UplinkRadio,
    Vector,
    check_group_sizes,
    mean,
    next_model,
)
from slotwise.base.errors import InputError, MissingError, UserError
from slotwise.base.machine import available_cores
from slotwise.base.observer import BaseObserver
from slotwise.base.user_code import check_arguments, check_type
from slotwise.learning.checked_task import CheckedTask
from slotwise.learning.course import Course, Decided, Planned
from slotwise.learning.drift_task import for_rule
from slotwise.learning.history import Diverged, History, Interrupted, Point, unfitting
from slotwise.learning.over_the_air import as_received, refuse_other_rules
from slotwise.learning.pipeline import UpdatePipeline
from slotwise.learning.target import Target
from slotwise.learning.task import NO_METRICS, DeviceState, Evaluation, Task, TrainingResult, update_of
from slotwise.learning.workers import WorkerPlan, Workers, plan_of
from slotwise.options import loaded, resolved
from slotwise.schedule import Episode, Timeline
from slotwise.schedule.learning_state import Agent, Learning, Report, answers_in, arrays_of_answers

EVALUATIONS = 100  # of a training, by default


class TrainingObserver(BaseObserver):
    """Callbacks of a training."""

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:
        """Training begins, or resumes after the rounds of ``resumed``."""

    def round_done(self, round_number: int) -> None:
        """Round ``round_number`` has been applied."""

    def evaluated(self, point: Point) -> None:
        """A model has been evaluated."""

    def training_ended(self, rounds: int) -> None:
        """Training has ended after so many rounds, also if an error ended it."""


def train(
    timeline: Timeline | Episode,
    task: Task,
    *,
    agent: Agent | None = None,
    aggregation: Aggregation | str = mean,
    workers: int | WorkerPlan | None = None,
    evaluate_every: int | None = None,
    stop_at: Target | str | None = None,
    resume: History | None = None,
    radio: UplinkRadio | None = None,
    observer: BaseObserver | None = None,
) -> History:
    """Train as the devices and the server of the timeline would.

    Ctrl-C ends the training after its last complete round and raises `Interrupted`, whose ``history`` can be
    given as ``resume``.

    Args:
        timeline: Which device sends which update when; or an episode, which is decided while it is trained.
        task: What is learned.
        agent: Takes the decisions of an episode, as a function of the decision and of what is learned.
        aggregation: Rule that combines the updates of a round; a name such as "fedavg" gives a built-in rule
            with its default options.
        workers: Local trainings computed in parallel, one thread each; or another plan: `Processes`, or
            `RayActors` for a cluster. The result does not depend on it. Default: all cores.
        evaluate_every: Slots between evaluations, each of which reads all samples of the devices and the test
            set. Default, as in a run: a hundredth of the deadline, or of the timeline if it has none.
        stop_at: End with the first evaluation that reaches ``accuracy=X`` or ``loss=X``.
        resume: State to continue from, instead of w_0; an episode takes the decisions that it has.
        radio: What rules are told of SNR, bits and energy of uplinks. Default: the bits of the task alone.
        observer: Is told of every round and evaluation, and may end the training early.

    Raises:
        Diverged: a model or a loss is not finite any more.
        Interrupted: a KeyboardInterrupt (Ctrl-C) ended the training.
    """
    observer = TrainingObserver.of(observer)
    check_type("timeline", timeline, Timeline, Episode)
    slots = timeline.scenario.deadline or getattr(timeline, "last_slot", None)
    usual = None if slots is None else evaluation_interval(slots)  # None: the first and the last model
    with Training(
        timeline,
        task,
        agent=agent,
        aggregation=aggregation,
        workers=available_cores() if workers is None else workers,
        evaluate_every=usual if evaluate_every is None else evaluate_every,
        stop_at=stop_at,
        resume=resume,
        radio=radio,
    ) as training:
        if agent is None and isinstance(timeline, Episode) and timeline.decision is not None:
            raise MissingError("agent", "given: the episode has decisions left; or use sw.learning.Training")
        observer.run_started(training.timeline, resume)
        try:
            return follow(training, observer)
        except KeyboardInterrupt:
            # Raised, not returned: a script that compares schedules must not go on with half a curve.
            raise Interrupted(training.history()) from None


def follow(
    training: Training, observer: TrainingObserver, after_round: Callable[[Training], None] = lambda _: None
) -> History:
    """Apply round after round and report to the observer; return the history at the end."""
    try:
        while not (training.ended or observer.wants_stop()):
            observer.round_done(training.advance())
            for point in training.new_points():
                observer.evaluated(point)
            after_round(training)
        training.stop()
        return training.history()
    except KeyboardInterrupt:
        # `history` waits for evaluations, which would come after trainings that nobody needs any more.
        training.stop()
        raise
    finally:
        # Also after an error: `history` may have collected evaluations that were not reported yet.
        for point in training.unreported_points():
            observer.evaluated(point)
        observer.training_ended(training.rounds)


class _Applied(NamedTuple):
    """Number of applied rounds and the states they left; every round replaces it as a whole."""

    rounds: int
    rule_state: RuleState
    device_states: Mapping[int, DeviceState]
    learning: Learning


def _replay(episode: Episode, history: History) -> None:
    """Take the decisions of the rounds of a history, as far as they are not taken yet."""
    taken = islice(answers_in(history.learning), len(episode.answers), None)
    try:
        episode.replay(taken, history.rounds)
    except UserError as error:
        raise UserError(f"resume: the history is of another episode: {error}") from None


class Training:
    """A training in progress: each `advance`, or each step of an iteration, applies one round.

    Workers compute local trainings and evaluations meanwhile. Use it as a context manager.

    Of an episode the rounds are applied as they are decided, by the ``agent`` or by the caller, who answers
    the episode's decisions, and asks for `learning` before or calls `catch_up` after.
    """

    def __init__(
        self,
        timeline: Timeline | Episode,
        task: Task,
        *,
        agent: Agent | None = None,
        aggregation: Aggregation | str = mean,
        workers: int | WorkerPlan = 1,
        evaluate_every: int | None = None,
        stop_at: Target | str | None = None,
        resume: History | None = None,
        radio: UplinkRadio | None = None,
    ) -> None:
        check_type("timeline", timeline, Timeline, Episode)
        for name, value, kind in (("resume", resume, History), ("radio", radio, UplinkRadio)):
            if value is not None:
                check_type(name, value, kind)
        self._aggregation = rule_of(aggregation)
        self._task = CheckedTask.of(for_rule(CheckedTask.of(task), self._aggregation))
        check_group_sizes(self._aggregation, timeline.scenario.group_sizes)
        plan = plan_of(workers, self._task)
        devices = timeline.scenario.devices
        self._task.check_devices(devices)
        self._agent, self._episode = agent, timeline if isinstance(timeline, Episode) else None
        if agent is not None:
            check_arguments("agent", agent, 2)
        if resume is not None and isinstance(timeline, Episode):
            _replay(timeline, resume)
        self._decided = Decided(timeline, evaluate_every) if isinstance(timeline, Episode) else None
        if isinstance(timeline, Timeline) and agent is not None:
            raise InputError("agent", "given", "omitted: the timeline is decided; or give an Episode")
        known = timeline.timeline if isinstance(timeline, Episode) else timeline
        usual = UplinkRadio.of(known, self._task.update_bits)
        usual = usual if self._episode is None else replace(usual, link=self._episode.link)
        self._radio = usual if radio is None else radio
        refuse_other_rules(self._aggregation, self._radio, known, self._task, self._episode)
        self._course: Course = Planned(known, evaluate_every) if self._decided is None else self._decided
        if resume is not None and (wrong := unfitting(resume, known, self._task.size)):
            raise UserError(f"resume: {wrong}")
        self._target = None if stop_at is None else Target.of(stop_at, "stop_at")
        start = resume or History((), {0: self._task.initial_model()}, 0)
        everyone = () if self._decided is None else range(1, devices + 1)
        learning = Learning.first([self._task.sample_count(n) for n in everyone])
        states = dict(start.device_states)
        self._applied = _Applied(start.rounds, start.rule_state, states, learning.restored(start.learning))
        self._next_learning: tuple[int, int, Learning] | None = None  # rounds, updates of the next; with them
        self._stopped = False
        self._points = list(start.points)
        self._reported = len(start.points)
        self._evaluated = max((point.round for point in start.points), default=-1)
        self._pending: deque[tuple[int, Future[Evaluation]]] = deque()
        self._models = dict(start.models)
        self._workers: Workers = plan(self._task)  # last, because nobody closes them if there is an error
        first = self._course.rows_before(start.rounds)
        self._updates = UpdatePipeline(
            self._course, self._workers, self._models, first, lambda: self._applied.device_states
        )
        self._updates.start()
        self._look_ahead()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.close()

    def __iter__(self) -> Iterator[int]:
        """Apply the remaining rounds; yield the number of each."""
        while not self.ended:
            yield self.advance()

    @property
    def rounds(self) -> int:
        """Return the number of applied rounds."""
        return self._applied.rounds

    @property
    def finished(self) -> bool:
        """True once all rounds are applied, and none will come any more."""
        return self._course.ended and self.rounds == self._course.rounds

    @property
    def reached(self) -> bool:
        """True once an evaluation has reached the target, if there is one."""
        return self._target is not None and self._target.reached(self._points) is not None

    @property
    def ended(self) -> bool:
        """True once no round is left to apply: all are applied, or the target is reached."""
        return self.finished or self.reached

    @property
    def model(self) -> Vector:
        """The newest model, w_rounds."""
        return self._models[self.rounds]

    def advance(self) -> int:
        """Apply the next round; return its number.

        Raises:
            Diverged: the new model is not finite.
            UserError: the training was stopped, or has ended.
        """
        if self.ended or self._stopped:
            ended = "ended" if self.ended else "been stopped"
            raise UserError(f"training: no round {self.rounds}: it has {ended}")
        if self.rounds == self._course.rounds:
            raise UserError(f"training: round {self.rounds} is not decided yet")
        before, course, uplinks = self._applied, self._course, self._course.uplinks(self.rounds)
        k, count, devices = before.rounds, self._task.sample_count, course.scenario.devices
        learning = self._learned(uplinks)
        sent = zip(
            self._updates.updates(uplinks),  # kept until the round is applied
            *(one[uplinks].tolist() for one in (course.device, course.version, course.start, course.end)),
            strict=True,
        )
        contributions, states = [], dict[int, DeviceState]()
        for found, device, version, first, end in sent:
            samples, metrics = None, NO_METRICS
            if isinstance(found, TrainingResult):
                samples, metrics = found.samples, found.metrics
                # An empty state replaces an earlier one.
                if found.state or device in before.device_states:
                    states[device] = found.state
            samples = count(device) if samples is None else samples
            uplink = self._radio.reception(device, first, end, course.power(device, first))
            told = samples, metrics, devices, uplink
            start = self._models[version]
            contributions.append(Contribution(update_of(found), k - version, start, device, k, *told))
        with np.errstate(over="ignore", invalid="ignore"):  # Diverged says it better than a numpy warning
            heard = as_received(contributions, self._radio)
            model, rule_state = next_model(self._aggregation, self.model, heard, before.rule_state)
        if not np.isfinite(model).all():
            raise Diverged(k, "model", self.history())
        device_states = {**before.device_states, **states} if states else before.device_states
        # One assignment applies the round, so an interrupt (Ctrl-C) leaves the state before it or after it.
        # A model that is newer than the applied rounds is not part of a history.
        self._models[k + 1] = model
        self._applied = _Applied(k + 1, rule_state, device_states, learning)
        unused = self._course.unused_after(k, list(self._models))
        for version in unused:
            self._models.pop(version, None)
        self._updates.drop_models(unused)
        self._updates.drop(uplinks.stop)
        self._updates.start()
        self._look_ahead()
        return k

    @property
    def timeline(self) -> Timeline:
        """The timeline, as far as it is decided."""
        return self._course.timeline

    @property
    def learning(self) -> Learning:
        """Losses and norms that are known at the open decision of an episode, after `catch_up`."""
        self.catch_up()
        return self._known()

    def catch_up(self) -> None:
        """Apply the rounds of an episode that are complete, until a target is reached."""
        self._look_ahead()
        while self.rounds < self._course.rounds and not self.ended:
            self.advance()

    def _look_ahead(self) -> None:
        """Let the agent decide until the next round is complete: then it is known if this model is due."""
        if self._decided is not None and self._episode is not None:
            episode, agent = self._episode, self._agent
            self._follow_episode()
            while agent is not None and episode.decision is not None and episode.rounds <= self.rounds:
                episode.answer(agent(episode.decision, self._known()))
                self._follow_episode()
        self._evaluate_if_due()

    def _follow_episode(self) -> None:
        if self._decided is not None:
            self._decided.update()
            self._updates.start()

    def _known(self) -> Learning:
        """Return what is known at the open decision: at the end of a round its updates count."""
        if self._decided is None or self._episode is None:
            raise UserError("learning: only known for an episode: a timeline is decided")
        if self._episode.at_end_of_round and self._course.rounds == self.rounds:
            return self._learned(self._decided.partial)
        return self._applied.learning

    def _learned(self, uplinks: slice) -> Learning:
        """Return what is known after the next round, whose updates may be applied later."""
        before = self._applied
        if self._decided is None:
            return before.learning
        key = before.rounds, uplinks.stop
        if self._next_learning is None or self._next_learning[:2] != key:
            course = self._course
            sent = zip(
                self._updates.updates(uplinks),
                course.device[uplinks].tolist(),
                course.version[uplinks].tolist(),
                strict=True,
            )
            reports = [
                Report(n, norm_of(update_of(one)), self._loss(one, n, version)) for one, n, version in sent
            ]
            self._next_learning = *key, before.learning.after(reports)
        return self._next_learning[2]

    def _loss(self, result: Vector | TrainingResult, device: int, version: int) -> float:
        """Return the loss of a local training, if the agent looks at losses."""
        if not getattr(self._agent, "sees_losses", True):
            return nan
        return self._task.reported_loss(result, self._models[version], device)

    def stop(self) -> None:
        """Drop local trainings that have not begun; after this no round can be applied."""
        self._stopped = not self.finished
        self._updates.cancel()
        self._workers.end_trainings()

    def new_points(self) -> list[Point]:
        """Return the evaluations that have finished since the last call.

        Raises:
            Diverged: a loss is not finite.
        """
        self._collect(wait=False)
        return self.unreported_points()

    def unreported_points(self) -> list[Point]:
        """Return the evaluations that were collected since the last call, by `history` for example."""
        new = self._points[self._reported :]
        self._reported = len(self._points)
        return new

    def history(self) -> History:
        """Return everything up to the last applied round, after waiting for its evaluations."""
        self._collect(wait=True)
        rounds, rule_state, states, learning = self._applied
        models = {version: model for version, model in self._models.items() if version <= rounds}
        known: dict[str, NDArray[Any]] = {}
        if self._decided is not None:
            answers = self._decided.episode.answers_of(rounds)
            known = {**learning.as_arrays(), **arrays_of_answers(answers)}
        points = tuple(self._points)
        return History(points, models, rounds, rule_state, dict(states), known, self.timeline)

    def _evaluate_if_due(self) -> None:
        if self._evaluated < self.rounds and self._course.is_due(self.rounds):
            self._evaluated = self.rounds
            states = (self._applied.device_states,) if self._applied.device_states else ()
            evaluation = self._workers.evaluate(self.rounds, self.model, *states)
            self._pending.append((self.rounds, evaluation))
            if self._target is not None:
                # Whether there is a next round depends on it; workers go on with local trainings meanwhile.
                self._collect(wait=True)

    def _collect(self, *, wait: bool) -> None:
        """Append finished evaluations to the points, in order."""
        course = self._course
        while self._pending and (wait or self._pending[0][1].done()):
            k, result = self._pending[0]
            evaluation = result.result()  # one that failed stays, so no history is without it
            if not np.isfinite(evaluation.loss):
                # `history` collects again, and would find the same evaluation.
                self._pending.clear()
                raise Diverged(k, "loss", self.history())
            slot, oldest = 0, 0
            if k > 0:
                slot = int(course.broadcast_end[k - 1])
                oldest = k - 1 - int(course.version[course.uplinks(k - 1)].min(initial=k - 1))
            self._points.append(
                Point(slot, k, evaluation.loss, evaluation.accuracy, oldest, evaluation.metrics)
            )
            self._pending.popleft()


def rule_of(aggregation: Aggregation | str) -> Aggregation:
    """Return the rule of a name, with its default options; a rule is returned as it is, if it can be one."""
    if isinstance(aggregation, str):
        return loaded(resolved(RULE, aggregation))  # type: ignore[no-any-return]
    if isinstance(aggregation, type):
        name = aggregation.__name__
        raise InputError("aggregation", f"the class {name}", f"an object of it, as in {name}()")
    rule: Aggregation = loaded(aggregation)
    check_arguments("aggregation", rule, 2, 3)
    return rule


def norm_of(update: Vector) -> float:
    """Return the Euclidean norm; not by BLAS, whose sums depend on its threads."""
    return float(np.sqrt(np.square(update, dtype=np.float64).sum()))


def evaluation_interval(slots: int) -> int:
    """Return the slots between evaluations of a training that takes so many: a hundredth, by default."""
    return max(1, slots // EVALUATIONS)
