"""Progress bars in a terminal for a training and for an estimation, and a clean stop on Ctrl-C."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from slotwise.learning import History, Point
from slotwise.observer import Observer
from slotwise.schedule import Timeline


@dataclass
class Stop:
    """Flag that the user has asked to stop early."""

    requested: bool = False


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Turn the first Ctrl-C (or SIGTERM) into a request to stop with a checkpoint; the second interrupts."""
    stop = Stop()

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Bars(Observer):
    """Progress bars that end with the block; those that were never shown would leave a blank line."""

    _bar: Progress

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar.tasks:
            self._bar.stop()


class StageProgress(_Bars):
    """One progress bar for each stage of the work."""

    def __init__(self, *, quiet: bool = False) -> None:
        title, columns = TextColumn("{task.description:>9}"), (MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(title, BarColumn(), *columns, console=Console(stderr=True), disable=quiet)
        self._rows: dict[str, TaskID] = {}

    def progress(self, stage: str, done: int, total: int) -> None:
        """Move the bar of a stage."""
        self._bar.start()
        if stage not in self._rows:
            self._rows[stage] = self._bar.add_task(stage, total=total)
        self._bar.update(self._rows[stage], completed=done)


class _BarAndLine(Progress):
    """A bar with a line of figures below it: side by side they are too wide for eighty columns."""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield Text("  ".join(task.fields["text"] for task in self.tasks), style="dim", no_wrap=True)


class TrainingProgress(_Bars):
    """A progress bar: slots, rounds, loss, accuracy, staleness, updates per second, time left.

    ``has_started`` stays false if there was nothing to train.
    """

    def __init__(self, stop: Stop, *, quiet: bool = False) -> None:
        self._stop = stop
        self._bar = _BarAndLine(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=quiet,
        )
        self._point: Point | None = None
        self.has_started = False

    def notice(self, message: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(message, highlight=False, markup=False, soft_wrap=True)

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:
        """Show the bar at its first round."""
        self.has_started = True
        self._bar.start()
        self._timeline = timeline
        self._first = resumed.rounds if resumed else 0
        self._round = self._first - 1
        self._began = time.monotonic()
        if resumed and resumed.points:
            self._point = resumed.points[-1]
        slot = int(timeline.broadcast_end[self._first - 1]) if self._first else 0
        name = f"{timeline.schedule} S={timeline.scenario.group_size}"
        self._row = self._bar.add_task(name, total=timeline.last_slot, completed=slot, text="")

    def round_done(self, round_number: int) -> None:
        """Advance the progress bar."""
        self._round, timeline = round_number, self._timeline
        slot = int(timeline.broadcast_end[round_number])
        parts = [f"slot {slot}/{timeline.last_slot}", f"round {round_number + 1}/{timeline.rounds}"]
        if self._point is not None:
            parts += [f"loss {self._point.loss:.3f}", f"acc {self._point.accuracy:.1%}"]
        stale = int(timeline.staleness[timeline.uplinks(round_number)].max(initial=0))
        done = int(timeline.round_offsets[round_number + 1] - timeline.round_offsets[self._first])
        speed = done / max(1e-9, time.monotonic() - self._began)
        text = "  ".join([*parts, f"stale {stale}", f"{speed:.0f} upd/s"])
        self._bar.update(self._row, completed=slot, text=text)

    def evaluated(self, point: Point) -> None:
        """Show the newest loss and accuracy from now on."""
        self._point = point
        if self._round >= 0:
            self.round_done(self._round)

    def wants_stop(self) -> bool:
        """Return whether Ctrl-C was pressed."""
        return self._stop.requested
