"""Trainings: the runs that the explorer has started, one at a time, each in a process of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from slotwise.base.errors import InputError, UserError
from slotwise.learning import Diverged, History, Point
from slotwise.runs import Observer, RunConfig, run
from slotwise.runs.run_folder import RunFolder
from slotwise.schedule import Timeline
from slotwise.web.controls import CASE
from slotwise.web.guard import Changes
from slotwise.workers import Background, ProcessWorker, Terms, WorkerLost

KEPT = 20  # trainings in the page; folders stay
STOP_SECONDS = 20.0  # for the last checkpoint
PROGRESS_INTERVAL = 0.2  # seconds between two reports of progress
NICENESS = 5  # the pages that are being looked at come first
OVER = ("finished", "reached", "interrupted", "diverged", "refused", "failed")


@dataclass
class Training:
    """One training as the page shows it."""

    number: int
    folder: Path
    options: Mapping[str, Any]
    planned: list[tuple[int, int]]  # slot and rounds complete by then, as planned
    status: str = "starting"
    message: str = ""
    rounds: int = 0  # in all
    round: int = 0  # done
    points: list[tuple[int, int, float | None, float | None]] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Return whether the process has ended."""
        return self.status in OVER

    def as_dict(self) -> dict[str, Any]:
        """Return the state for the page."""
        return {**vars(self), "folder": str(self.folder), "name": self.folder.name}

    def take(self, event: Mapping[str, Any]) -> None:
        """Apply one event of the process."""
        kind = event["event"]
        if kind == "started":
            self.status, self.rounds = "training", event["rounds"]
        elif kind == "round":
            self.round = event["round"]
        elif kind == "point":
            numbers = (x if isfinite(x) else None for x in (event["loss"], event["accuracy"]))
            self.points.append((event["slot"], event["round"], *numbers))
            self.round = max(self.round, event["round"])
        elif kind == "ended":
            self.status, self.message = event["status"], event.get("message", "")
            self.round = event.get("rounds", self.round)


class TrainingWorker(Background, Observer):
    """One training, in a process of its own, which stops with a checkpoint when the explorer is gone."""

    def __init__(self, options: Mapping[str, Any], defaults: Mapping[str, Any], out: Path) -> None:
        super().__init__()
        self._options, self._defaults, self._out, self._reported = options, defaults, out, 0.0
        self.run(self._train)

    def _train(self) -> None:
        try:
            config = RunConfig.from_options(self._options, defaults=self._defaults)
            result = run(config, self._out, observer=self)
            self.tell({"event": "ended", "status": result.status, "rounds": result.history.rounds})
        except Diverged as error:
            self.tell({"event": "ended", "status": "diverged", "rounds": error.round})
        except UserError as error:
            parameter = error.parameter if isinstance(error, InputError) else None
            refused = {"event": "ended", "status": "refused"}
            self.tell({**refused, "message": str(error), "parameter": parameter})

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:
        """Report the number of rounds."""
        del resumed
        self.tell({"event": "started", "rounds": timeline.rounds, "slots": timeline.last_slot})

    def round_done(self, round_number: int) -> None:
        """Report the round, a few times a second."""
        if time.monotonic() - self._reported >= PROGRESS_INTERVAL:
            self._reported = time.monotonic()
            self.tell({"event": "round", "round": round_number + 1})

    def evaluated(self, point: Point) -> None:
        """Report an evaluation to the page."""
        measured = {"slot": point.slot, "round": point.round, "loss": point.loss, "accuracy": point.accuracy}
        self.tell({"event": "point", **measured})


class Trainings:
    """Starts, follows and stops trainings; `changes` tells event streams that there is news."""

    def __init__(self, root: Path) -> None:
        self.root, self.changes = root, Changes()
        self._all: list[Training] = []
        self._worker: ProcessWorker | None = None
        self._following: asyncio.Task[None] | None = None
        self._count, self._stopping = 0, False

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return all trainings, the newest first."""
        return [training.as_dict() for training in reversed(self._all)]

    def start(self, plan: Mapping[str, Any]) -> Training:
        """Start a training, or raise a UserError if one is running.

        ``plan`` has its ``name``, the options that were ``given``, all ``options`` that say what is trained,
        and the rounds ``planned``.
        """
        if self._all and not self._all[-1].is_over:
            raise UserError(f"{self._all[-1].folder.name} is still training; stop it first")
        folder = self._new_folder(plan["name"])
        terms = Terms(may_finish=True, niceness=NICENESS)
        worker = ProcessWorker(
            TrainingWorker, plan["given"], dict(CASE), folder, shown=str(folder), terms=terms
        )
        self._count, self._stopping, self._worker = self._count + 1, False, worker
        training = Training(self._count, folder, plan["options"], plan["planned"])
        self._all = [*self._all, training][-KEPT:]
        self._following = asyncio.create_task(self._follow(training, worker))
        self.changes.notify()
        return training

    def _new_folder(self, name: str) -> Path:
        """Return a new path that begins with a name."""
        path, number = self.root / name, 1
        while path.exists():
            number += 1
            path = self.root / f"{name}-{number}"
        return RunFolder.check_new(path).path

    async def _follow(self, training: Training, worker: ProcessWorker) -> None:
        """Ask the process for events until the training is over."""
        reason = "the training has ended with an error"
        try:
            await asyncio.to_thread(worker.load)
            over = False
            while not over:
                asked = (PROGRESS_INTERVAL, self._stopping)
                events, over = await asyncio.to_thread(worker.call, "report", *asked)
                for event in events:
                    training.take(event)
                if events:
                    self.changes.notify()
        except (WorkerLost, UserError) as error:
            reason = str(error)
        finally:
            worker.close()
            if not training.is_over:
                training.status, training.message = "failed", reason
            self.changes.notify()

    def stop(self) -> None:
        """Ask the running training to end with a checkpoint."""
        self._stopping = True

    async def close(self) -> None:
        """Stop and wait for the end; kill a process that does not end."""
        self.stop()
        if self._following is None or self._worker is None:
            return
        try:
            # Shielded, because the timeout must not cancel the task that reads the last events.
            await asyncio.wait_for(asyncio.shield(self._following), STOP_SECONDS)
        except TimeoutError:
            self._worker.kill()
            await self._following
