"""train(timeline, task, ...) -> History: follow a timeline exactly, as fast as the machine goes."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from slotwise.aggregation import Aggregation, Vector, mean, next_model
from slotwise.learning.history import Diverged, History, Point
from slotwise.learning.pipeline import Pipeline
from slotwise.learning.task import Evaluation, Task
from slotwise.scenario import whole
from slotwise.schedule import Timeline


class Observer:
    """What a caller may watch and ask; this one watches nothing."""

    def round_done(self, round_number: int) -> None:
        """Round ``round_number`` was applied."""

    def evaluated(self, point: Point) -> None:
        """An evaluation is there."""

    def wants_checkpoint(self) -> bool:
        """Asked after every round; if True, `checkpoint` is called with everything up to that round."""
        return False

    def checkpoint(self, history: History) -> None:
        """Save it, if that is wanted."""

    def wants_stop(self) -> bool:
        """Asked after every round; if True, training returns what it has."""
        return False


def train(
    timeline: Timeline,
    task: Task,
    *,
    aggregation: Aggregation = mean,
    workers: int = 1,
    evaluate_every: int | None = None,
    resume: History | None = None,
    observer: Observer | None = None,
) -> History:
    """Train as the devices and the server of the timeline would.

    Args:
        timeline: who sends which update when.
        task: what is learned.
        aggregation: how the updates of a round combine.
        workers: local trainings computed at once, one thread each. The result does not depend on it.
        evaluate_every: slots between evaluations; None evaluates the first and the last model only.
        resume: go on from here instead of from w_0.
        observer: is told what happens, and may ask for checkpoints or an early end.

    Raises:
        Diverged: a model or a loss is not finite any more.
    """
    whole("workers", workers)
    with ThreadPoolExecutor(workers, thread_name_prefix="slotwise") as pool:
        run = _Run(timeline, task, aggregation, pool, workers, evaluate_every, observer or Observer())
        return run.play(resume)


@dataclass
class _Pending:
    """An evaluation under way."""

    round: int
    result: Future[Evaluation]


class _Run:
    """One call of `train`: the rounds in order, evaluations beside them."""

    def __init__(
        self,
        timeline: Timeline,
        task: Task,
        aggregation: Aggregation,
        pool: ThreadPoolExecutor,
        workers: int,
        evaluate_every: int | None,
        observer: Observer,
    ) -> None:
        self._timeline, self._task, self._aggregation = timeline, task, aggregation
        self._pool, self._workers, self._observer = pool, workers, observer
        self._due = evaluation_rounds(timeline, evaluate_every)
        self._points: list[Point] = []
        self._pending: list[_Pending] = []

    def play(self, resume: History | None) -> History:
        start = resume or History((), {0: self._task.initial_model()}, 0)
        self._points = list(start.points)
        self._pipeline = Pipeline(self._timeline, self._task, self._pool, self._workers, start.round)
        for version in sorted(start.models):
            self._pipeline.offer(version, start.models[version])
        self._round = start.round
        if resume is None:
            self._evaluate_if_due()
        try:
            return self._rounds()
        finally:  # what is queued is not wanted any more, trainings and evaluations alike
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _rounds(self) -> History:
        while self._round < self._timeline.rounds and not self._observer.wants_stop():
            self._apply(self._round)
            self._collect(wait=False)
            if self._observer.wants_checkpoint():
                self._observer.checkpoint(self._history())
        return self._history()

    def _apply(self, k: int) -> None:
        model = self._next_model(k)
        if not np.isfinite(model).all():
            raise Diverged(k, "model", self._history())
        self._pipeline.forget(k)
        self._pipeline.offer(k + 1, model)
        self._round = k + 1
        self._evaluate_if_due()
        self._observer.round_done(k)

    def _next_model(self, k: int) -> Vector:
        contributions = self._pipeline.contributions(k)
        with np.errstate(over="ignore", invalid="ignore"):  # `_apply` tells it better than numpy
            return next_model(self._aggregation, self._pipeline.models[k], contributions)

    def _evaluate_if_due(self) -> None:
        if self._round in self._due:
            model = self._pipeline.models[self._round]
            self._pending.append(_Pending(self._round, self._pool.submit(self._task.evaluate, model)))

    def _collect(self, *, wait: bool) -> None:
        """Take finished evaluations over into the curve, in order."""
        while self._pending and (wait or self._pending[0].result.done()):
            first = self._pending.pop(0)
            point = self._point(first.round, first.result.result())
            if not np.isfinite(point.loss):
                self._pending.clear()
                raise Diverged(first.round, "loss", self._history())
            self._points.append(point)
            self._observer.evaluated(point)

    def _point(self, round_number: int, evaluation: Evaluation) -> Point:
        if round_number == 0:
            return Point(0, 0, evaluation.loss, evaluation.accuracy, 0)
        last = round_number - 1
        slot = int(self._timeline.broadcast_end[last])
        oldest = int(self._timeline.staleness[self._timeline.uplinks(last)].max(initial=0))
        return Point(slot, round_number, evaluation.loss, evaluation.accuracy, oldest)

    def _history(self) -> History:
        """Everything up to the last applied round, pending evaluations included."""
        self._collect(wait=True)
        models: dict[int, Vector] = dict(self._pipeline.models)
        return History(tuple(self._points), models, self._round)


def evaluation_rounds(timeline: Timeline, every: int | None) -> frozenset[int]:
    """The models to evaluate: the newest one at every multiple of ``every`` slots, and the last."""
    if every is None:
        return frozenset({0, timeline.rounds})
    step = whole("evaluate_every", every)
    slots = np.arange(0, timeline.last_slot + 1, step)
    newest = np.searchsorted(timeline.broadcast_end, slots, side="right")
    return frozenset({*newest.tolist(), timeline.rounds})
