"""Estimation of the constants for `slotwise bound`, with progress bars."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from slotwise.observer import Observer
from slotwise.runs import RunFolder
from slotwise.runs.bound_case import BoundCase, estimate_constants

NAMES = {
    "smoothness": "L, smoothness of f",
    "device_smoothness": "L of every device's loss",
    "gradient_noise": "σ², gradient noise",
    "noise_growth": "M, noise growth",
    "heterogeneity": "Γ², heterogeneity",
    "initial_gap": "f(w0) − f*",
    "initial_gradient2": "‖∇f(w0)‖²",
}


def measured_case(
    folder: RunFolder, known: dict[str, float], rounds: int | None, rate: float | None, *, quiet: bool
) -> BoundCase:
    """Estimate the constants of a run, with a progress bar for each stage."""
    with _Bars(quiet) as bars:
        return estimate_constants(folder, known=known, rounds=rounds, learning_rate=rate, observer=bars)


class _Bars(Observer):
    """One progress bar for each stage of the work."""

    def __init__(self, quiet: bool) -> None:
        columns = (
            TextColumn("{task.description:>9}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._bars = Progress(*columns, console=Console(stderr=True), disable=quiet)
        self._rows: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._rows:
            self._bars.stop()

    def progress(self, stage: str, done: int, total: int) -> None:
        """Move the bar of a stage."""
        if not self._rows:
            self._bars.start()
        if stage not in self._rows:
            self._rows[stage] = self._bars.add_task(stage, total=total)
        self._bars.update(self._rows[stage], completed=done)
