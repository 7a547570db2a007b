"""execute(folder, ...): train what a run folder says, save as it goes, and be able to go on later."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import inf
from typing import Any

from slotwise.errors import InputError, UserError
from slotwise.learning import Diverged, History, Observer, Point, Task, train
from slotwise.notebook import Displayable
from slotwise.runs.build import build_task
from slotwise.runs.config import RunConfig
from slotwise.runs.folder import RunFolder, Status, model_sha256
from slotwise.schedule import Timeline

SECONDS_BETWEEN_CHECKPOINTS = 10.0


class Watcher:
    """What a caller may be told and asked while a run goes on; this one stays silent."""

    def started(self, timeline: Timeline, resumed: History | None) -> None:
        """The schedule is known; training begins."""

    def round_done(self, round_number: int) -> None:
        """A round was applied."""

    def evaluated(self, point: Point) -> None:
        """A point of the curve is known."""

    def wants_stop(self) -> bool:
        """Whether to end early, with a checkpoint."""
        return False


@dataclass(frozen=True)
class Outcome(Displayable):
    """How a run ended."""

    status: Status
    history: History


def execute(
    folder: RunFolder,
    parameters: RunConfig,
    *,
    task: Task | None = None,
    workers: int = 1,
    checkpoint_every: float = SECONDS_BETWEEN_CHECKPOINTS,
    resume: History | None = None,
    watcher: Watcher | None = None,
) -> Outcome:
    """Train from ``resume`` or from the start.

    Args:
        folder: where everything goes; held while this lasts.
        parameters: what to train.
        task: made from the parameters, unless it is there already.
        workers: local trainings at once; the result does not depend on it.
        checkpoint_every: seconds between checkpoints; 0 writes one after every round.
        resume: the checkpoint to go on from.
        watcher: is told how it goes, and may ask for an early end.

    Raises:
        Diverged: after what there was has been saved.
        UserError: another process is training here, or the folder cannot be written.
    """
    check_interval(checkpoint_every)
    timeline = parameters.simulate()
    learned = build_task(parameters) if task is None else task
    watch = watcher or Watcher()
    with folder.held():
        _check_fits(resume, timeline, learned, folder)
        watch.started(timeline, resume)
        saver = _Saver(folder, parameters, learned, watch, checkpoint_every)
        try:
            history = train(
                timeline,
                learned,
                aggregation=parameters.rule.rule(),
                workers=workers,
                evaluate_every=parameters.slots_between_evaluations,
                resume=resume,
                observer=saver,
            )
        except Diverged as error:
            saver.close(error.history, "diverged", diverged_in_round=error.round)
            raise
        status: Status = "finished" if history.round == timeline.rounds else "interrupted"
        saver.close(history, status)
    return Outcome(status, history)


def check_interval(checkpoint_every: float) -> float:
    """The seconds between checkpoints, if they are some."""
    if not 0 <= checkpoint_every < inf:
        raise InputError("checkpoint_every", checkpoint_every, "a finite number of seconds, at least 0")
    return checkpoint_every


def _check_fits(resume: History | None, timeline: Timeline, task: Task, folder: RunFolder) -> None:
    """Refuse a checkpoint of other parameters, which only a hand in the folder can bring about."""
    if resume is None:
        return
    size = len(task.initial_model())
    rest = timeline.version[timeline.round >= resume.round]
    needed = {*rest[rest <= resume.round].tolist(), resume.round}
    fits = resume.round <= timeline.rounds and needed <= resume.models.keys()
    if not fits or any(len(model) != size for model in resume.models.values()):
        raise UserError(f"{folder.path}: its checkpoint and its run.json are not of the same run")


class _Saver(Observer):
    """Passes on what happens, and writes a checkpoint every few seconds."""

    def __init__(
        self, folder: RunFolder, parameters: RunConfig, task: Task, watcher: Watcher, every: float
    ) -> None:
        self._folder, self._parameters, self._task, self._watcher = folder, parameters, task, watcher
        self._every = every
        self._last = self._began = time.monotonic()
        self._before = float(folder.description().get("seconds", 0.0))

    def round_done(self, round_number: int) -> None:
        self._watcher.round_done(round_number)

    def evaluated(self, point: Point) -> None:
        self._watcher.evaluated(point)

    def wants_stop(self) -> bool:
        return self._watcher.wants_stop()

    def wants_checkpoint(self) -> bool:
        return time.monotonic() - self._last >= self._every

    def checkpoint(self, history: History) -> None:
        self._folder.checkpoints.save(history)
        self._folder.write_points(history.points)
        self._last = time.monotonic()

    def close(self, history: History, status: Status, **more: Any) -> None:
        """Save everything; run.json comes last, so that its status speaks of files that are there."""
        self.checkpoint(history)
        self._folder.write_model(self._task.named_arrays(history.model))
        last = history.points[-1] if history.points else None
        self._folder.write_description(
            self._parameters,
            status,
            model_sha256=model_sha256(history.model),
            rounds=history.round,
            final=last._asdict() if last else None,
            seconds=round(self._before + time.monotonic() - self._began, 3),
            **more,
        )
