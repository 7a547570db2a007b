"""Training along a timeline: `Training`, which the caller drives round by round, and `train`, which runs it.

Staleness is parallelism. An update depends only on the model it starts on, so every uplink whose model exists
can be computed, up to staleness + 1 rounds ahead. Uplinks are computed in the order of the channel and a
bounded number ahead: enough to keep all workers busy, few enough not to hold the updates of a thousand
devices in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import NamedTuple, Self

import numpy as np

from slotwise.aggregation import Aggregation, Contribution, Vector, mean, next_model
from slotwise.learning.history import Diverged, History, Point
from slotwise.learning.task import Evaluation, Task
from slotwise.observer import Observer
from slotwise.scenario import whole
from slotwise.schedule import Timeline

AHEAD_PER_WORKER = 4


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
        timeline: Which device sends which update when.
        task: What is learned.
        aggregation: Rule that combines the updates of a round.
        workers: Local trainings computed in parallel, one thread each. The result does not depend on it.
        evaluate_every: Slots between evaluations; None evaluates the first and the last model only.
        resume: State to continue from, instead of w_0.
        observer: Is told of every round and evaluation, and may end the training early.

    Raises:
        Diverged: a model or a loss is not finite any more.
    """
    observer = observer or Observer()
    with Training(
        timeline,
        task,
        aggregation=aggregation,
        workers=workers,
        evaluate_every=evaluate_every,
        resume=resume,
    ) as training:
        observer.run_started(timeline, resume)
        try:
            while not (training.finished or observer.wants_stop()):
                observer.round_done(training.advance())
                for point in training.new_points():
                    observer.evaluated(point)
            return training.history()
        finally:
            for point in training.unreported_points():
                observer.evaluated(point)


class Training:
    """A training in progress: each `advance`, or each step of an iteration, applies one round.

    Local trainings and evaluations run in threads meanwhile. Use it as a context manager, or call `close`.
    """

    def __init__(
        self,
        timeline: Timeline,
        task: Task,
        *,
        aggregation: Aggregation = mean,
        workers: int = 1,
        evaluate_every: int | None = None,
        resume: History | None = None,
    ) -> None:
        self._pool = ThreadPoolExecutor(whole("workers", workers), thread_name_prefix="slotwise")
        self._timeline, self._task, self._aggregation = timeline, task, aggregation
        self._due = evaluation_rounds(timeline, evaluate_every)
        start = resume or History((), {0: task.initial_model()}, 0)
        self._points = list(start.points)
        self._reported = len(start.points)
        self._pending: deque[_Pending] = deque()
        self._updates = _LocalUpdates(timeline, task, self._pool, workers, start.rounds)
        for version in sorted(start.models):
            self._updates.add_model(version, start.models[version])
        self.rounds = start.rounds
        """Rounds applied."""
        if resume is None:
            self._evaluate_if_due()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop queued local trainings and evaluations, and wait for those that are running."""
        self._pool.shutdown(cancel_futures=True)

    def __iter__(self) -> Iterator[int]:
        """Apply the remaining rounds; yield the number of each."""
        while not self.finished:
            yield self.advance()

    @property
    def finished(self) -> bool:
        """True once all rounds of the timeline are applied."""
        return self.rounds == self._timeline.rounds

    @property
    def model(self) -> Vector:
        """The newest model, w_rounds."""
        return self._updates.models[self.rounds]

    def advance(self) -> int:
        """Apply the next round; return its number.

        Raises:
            Diverged: the new model is not finite.
        """
        k = self.rounds
        contributions = self._updates.of_round(k)
        with np.errstate(over="ignore", invalid="ignore"):  # Diverged says it better than a numpy warning
            model = next_model(self._aggregation, self.model, contributions)
        if not np.isfinite(model).all():
            raise Diverged(k, "model", self.history())
        self._updates.forget_models(k)
        self._updates.add_model(k + 1, model)
        self.rounds = k + 1
        self._evaluate_if_due()
        return k

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
        return History(tuple(self._points), dict(self._updates.models), self.rounds)

    def _evaluate_if_due(self) -> None:
        if self.rounds in self._due:
            self._pending.append(_Pending(self.rounds, self._pool.submit(self._task.evaluate, self.model)))

    def _collect(self, *, wait: bool) -> None:
        """Append finished evaluations to the points, in order."""
        while self._pending and (wait or self._pending[0].result.done()):
            first = self._pending.popleft()
            point = self._point(first.round, first.result.result())
            if not np.isfinite(point.loss):
                self._pending.clear()
                raise Diverged(first.round, "loss", self.history())
            self._points.append(point)

    def _point(self, round_number: int, evaluation: Evaluation) -> Point:
        if round_number == 0:
            return Point(0, 0, evaluation.loss, evaluation.accuracy, 0)
        last = round_number - 1
        slot = int(self._timeline.broadcast_end[last])
        oldest = int(self._timeline.staleness[self._timeline.uplinks(last)].max(initial=0))
        return Point(slot, round_number, evaluation.loss, evaluation.accuracy, oldest)


class _Pending(NamedTuple):
    """An evaluation that may still be running."""

    round: int
    result: Future[Evaluation]


class _LocalUpdates:
    """The updates of one round after another, computed ahead so that the workers of ``pool`` stay busy."""

    def __init__(
        self, timeline: Timeline, task: Task, pool: Executor, workers: int, first_round: int
    ) -> None:
        self._timeline, self._task, self._pool = timeline, task, pool
        self._ahead = AHEAD_PER_WORKER * workers
        self._next = int(timeline.round_offsets[first_round])
        self._in_flight: deque[Future[Vector]] = deque()
        self._last_uses = _last_uses(timeline)
        self.models: dict[int, Vector] = {}

    def add_model(self, version: int, model: Vector) -> None:
        """Add a model, and start the trainings that waited for it."""
        self.models[version] = model
        self._submit()

    def of_round(self, round_number: int) -> list[Contribution]:
        """Return the updates of a round in the order of its uplinks, after waiting for them."""
        rows = self._timeline.uplinks(round_number)
        contributions = []
        for version in self._timeline.version[rows].tolist():
            update = self._in_flight.popleft().result()
            contributions.append(Contribution(update, round_number - version, self.models[version]))
            self._submit()
        return contributions

    def forget_models(self, round_number: int) -> None:
        """Drop the models that no uplink after round ``round_number`` was trained on."""
        for version in self._last_uses.pop(round_number, ()):
            self.models.pop(version, None)

    def _submit(self) -> None:
        timeline = self._timeline
        while self._next < len(timeline) and len(self._in_flight) < self._ahead:
            row = self._next
            model = self.models.get(int(timeline.version[row]))
            if model is None:
                return
            device, training = int(timeline.device[row]), int(timeline.training[row])
            self._in_flight.append(self._pool.submit(self._task.local_update, model, device, training))
            self._next += 1


def _last_uses(timeline: Timeline) -> dict[int, list[int]]:
    """Return, for each round, the models that it uses and no later round does.

    Round k uses model k in any case, because it replaces it; the last model, the result, is never dropped.
    """
    last_use = np.arange(timeline.rounds, dtype=np.int64)
    np.maximum.at(last_use, timeline.version, timeline.round)
    uses: dict[int, list[int]] = {}
    for version, round_number in enumerate(last_use.tolist()):
        uses.setdefault(round_number, []).append(version)
    return uses


def evaluation_rounds(timeline: Timeline, every: int | None) -> frozenset[int]:
    """Return the models to evaluate: the newest one at every multiple of ``every`` slots, and the last."""
    if every is None:
        return frozenset({0, timeline.rounds})
    step = whole("evaluate_every", every)
    slots = np.arange(0, timeline.last_slot + 1, step)
    newest = np.searchsorted(timeline.broadcast_end, slots, side="right")
    return frozenset({*newest.tolist(), timeline.rounds})
