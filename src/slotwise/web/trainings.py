"""Trainings: the runs that the explorer has started, one at a time, each in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from slotwise.errors import UserError
from slotwise.runs.run_folder import RunFolder
from slotwise.web.controls import CASE
from slotwise.web.guard import Changes

KEPT = 20  # trainings in the page; folders stay
STOP_SECONDS = 20.0  # for the last checkpoint
LONGEST_LINE = 1 << 20  # bytes of one event
OVER = ("finished", "interrupted", "diverged", "refused", "failed")


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


class Trainings:
    """Starts, follows and stops trainings; `changes` tells event streams that there is news."""

    def __init__(self, root: Path) -> None:
        self.root, self.changes = root, Changes()
        self._all: list[Training] = []
        self._process: Process | None = None
        self._following: asyncio.Task[None] | None = None
        self._count = 0
        self._starting = asyncio.Lock()

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return all trainings, the newest first."""
        return [training.as_dict() for training in reversed(self._all)]

    async def start(self, plan: Mapping[str, Any]) -> Training:
        """Start a training, or raise a UserError if one is running.

        ``plan`` has its ``name``, the options that were ``given``, all ``options`` that say what is trained,
        and the rounds ``planned``.
        """
        # A process takes time to start, and a second request must not pass the check meanwhile.
        async with self._starting:
            return await self._start(plan)

    async def _start(self, plan: Mapping[str, Any]) -> Training:
        if self._all and not self._all[-1].is_over:
            raise UserError(f"{self._all[-1].folder.name} is still training; stop it first")
        folder = self._new_folder(plan["name"])
        self._count += 1
        training = Training(self._count, folder, plan["options"], plan["planned"])
        request = {"options": plan["given"], "defaults": dict(CASE), "out": str(folder)}
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "slotwise.web.training_worker"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            limit=LONGEST_LINE,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._all = [*self._all, training][-KEPT:]
        self._following = asyncio.create_task(self._follow(training, self._process))
        self.changes.notify()
        return training

    def _new_folder(self, name: str) -> Path:
        """Return a new path that begins with a name."""
        path, number = self.root / name, 1
        while path.exists():
            number += 1
            path = self.root / f"{name}-{number}"
        return RunFolder.check_new(path).path

    async def _follow(self, training: Training, process: Process) -> None:
        """Read the events of the process until it ends."""
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                with suppress(ValueError, KeyError, TypeError):  # other output of a library
                    training.take(json.loads(line))
                self.changes.notify()
        finally:
            code = await process.wait()
            if not training.is_over:
                training.status, training.message = "failed", f"the process ended with exit code {code}"
            self.changes.notify()

    def stop(self) -> None:
        """Ask the running training to end with a checkpoint."""
        if self._process is not None and self._process.stdin is not None:
            # The worker takes the end of its input as a request to stop, and saves a checkpoint.
            self._process.stdin.close()

    async def close(self) -> None:
        """Stop and wait for the end; kill a process that does not end."""
        self.stop()
        if self._following is None or self._process is None:
            return
        try:
            # Shielded, because the timeout must not cancel the task that reads the last events.
            await asyncio.wait_for(asyncio.shield(self._following), STOP_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._following
