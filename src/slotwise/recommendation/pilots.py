"""Pilots: the beginnings of the real runs. Each stops at a rung and goes on from there, in a run folder.

A pilot has the parameters of the whole run, deadline included, so its first rounds are the run's to the bit,
nothing is trained twice, and `slotwise train --resume` finishes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from slotwise.errors import UserError
from slotwise.learning import Diverged, History, Point, Task
from slotwise.learning.engine import evaluation_rounds
from slotwise.observer import Observer
from slotwise.runs import RunConfig, RunFolder, execute
from slotwise.runs.tasks import build_task
from slotwise.schedule import Timeline


class Interrupted(Exception):
    """The user has had enough; what there is, is saved."""


class PilotTasks:
    """Makes tasks, and keeps the last built-in one: with the same seed it is the same for every schedule."""

    def __init__(self, make_task: Callable[[RunConfig], Task] = build_task) -> None:
        self._make = make_task
        self._last: tuple[int, Task] | None = None

    def of(self, parameters: RunConfig) -> Task:
        """The task of a run; a user's own may depend on every parameter and is made anew."""
        if parameters.model.task is not None:
            return self._make(parameters)
        if self._last is None or self._last[0] != parameters.seed:
            self._last = (parameters.seed, self._make(parameters))
        return self._last[1]


@dataclass(frozen=True)
class Pilot:
    """One run as far as it is wanted.

    Attributes:
        folder: of the run.
        parameters: of the whole run.
    """

    folder: RunFolder
    parameters: RunConfig

    def climb(
        self, rounds: int, *, tasks: PilotTasks, workers: int = 1, watcher: Observer | None = None
    ) -> tuple[Point, ...] | None:
        """The curve of the first ``rounds`` rounds, trained as far as it is not there; None if it diverged.

        Raises:
            Interrupted: the watcher wanted to stop.
            UserError: the folder holds another run.
        """
        timeline = self.parameters.simulate()
        history, diverged = self._saved()
        if not self._reached(timeline, history, rounds):
            if diverged:
                return None
            history = self._train(history, rounds, tasks.of(self.parameters), workers, watcher or Observer())
        return None if history is None else _beginning(history, rounds)

    def _saved(self) -> tuple[History | None, bool]:
        """The last checkpoint, and whether the run diverged after it."""
        if not self.folder.is_run:
            return None, False
        if self.folder.parameters() != self.parameters:
            raise UserError(f"{self.folder.path}: made with other parameters; remove it to train it anew")
        history, _ = self.folder.checkpoints.load()
        return history, self.folder.status == "diverged"

    def _reached(self, timeline: Timeline, history: History | None, rounds: int) -> bool:
        """Whether all rounds and all evaluations that are due by then are there."""
        if history is None or history.rounds < rounds:
            return False
        due = evaluation_rounds(timeline, self.parameters.slots_between_evaluations)
        return {number for number in due if number <= rounds} <= {point.round for point in history.points}

    def _train(
        self, resume: History | None, rounds: int, task: Task, workers: int, watcher: Observer
    ) -> History | None:
        if not self.folder.is_run:
            RunFolder.create(self.folder.path, self.parameters)
        try:
            history = execute(
                self.folder,
                self.parameters,
                task=task,
                workers=workers,
                resume=resume,
                observer=_Until(rounds, watcher),
            ).history
        except Diverged:
            return None
        if history.rounds < rounds:
            raise Interrupted
        return history


def _beginning(history: History, rounds: int) -> tuple[Point, ...]:
    return tuple(point for point in history.points if point.round <= rounds)


@dataclass
class _Until(Observer):
    """Passes on what happens, and stops after so many rounds."""

    rounds: int
    inner: Observer
    done: int = field(default=0, init=False)

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:
        self.done = resumed.rounds if resumed else 0
        self.inner.run_started(timeline, resumed)

    def round_done(self, round_number: int) -> None:
        self.done = round_number + 1
        self.inner.round_done(round_number)

    def evaluated(self, point: Point) -> None:
        self.inner.evaluated(point)

    def wants_stop(self) -> bool:
        return self.done >= self.rounds or self.inner.wants_stop()
