"""Results: the curves that have been trained, read back from the folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from slotwise.batch.job import Run
from slotwise.learning import Point
from slotwise.runs import RunConfig, RunFolder
from slotwise.runs.run_folder import Status


@dataclass(frozen=True)
class Curve:
    """One run as it stands: how it ended, and its evaluations so far."""

    run: Run
    status: Status | Literal["missing"]
    points: Sequence[Point] = ()

    @property
    def finished(self) -> bool:
        """Whether it reached the deadline."""
        return self.status == "finished"


class Results(Protocol):
    """Where curves come from: a folder, or a test."""

    def curve(self, run: Run) -> Curve:
        """The curve of a run; one without points if it is missing."""


class FolderResults:
    """The curves in a folder of run folders, each read once."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self.curve = cache(self._curve)

    def description(self, run: Run) -> dict[str, Any]:
        """The run's run.json; empty if it is missing."""
        folder = RunFolder(self._runs / run.name)
        return folder.description() if folder.is_run else {}

    def _curve(self, run: Run) -> Curve:
        folder = RunFolder(self._runs / run.name)
        if not folder.is_run:
            return Curve(run, "missing")
        return Curve(run, folder.status, tuple(folder.points()))


def seed_curves(results: Results, parameters: RunConfig, seeds: Sequence[int]) -> list[Curve]:
    """The same run with each seed."""
    return [results.curve(Run.of(parameters.with_options(seed=seed))) for seed in seeds]
