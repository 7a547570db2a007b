"""What a person sees while a run goes on, and how Ctrl-C ends it cleanly."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from slotwise.learning import History, Point
from slotwise.observer import Observer
from slotwise.schedule import Timeline


class Stopping:
    """Whether the user has asked to end early."""

    def __init__(self) -> None:
        self.asked = False


@contextmanager
def stop_on_signals() -> Iterator[Stopping]:
    """The first Ctrl-C (or SIGTERM) asks the run to end with a checkpoint; the second ends it at once."""
    stopping = Stopping()

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stopping.asked:
            raise KeyboardInterrupt
        stopping.asked = True

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _BarAndLine(Progress):
    """A bar, and a line of figures below it: together they are too wide for eighty columns."""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield Text("  ".join(task.fields["text"] for task in self.tasks), style="dim", no_wrap=True)


class TrainingDisplay(Observer):
    """A progress bar: slots, rounds, loss, accuracy, staleness, updates per second, time left."""

    def __init__(self, stopping: Stopping, *, quiet: bool) -> None:
        self._stopping = stopping
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.has_started:
            self._bar.stop()

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

    def notice(self, message: str) -> None:
        """Print a line above the bar."""
        typer.echo(message, err=True)

    def round_done(self, round_number: int) -> None:
        """Move the bar."""
        self._show(round_number)

    def evaluated(self, point: Point) -> None:
        """Show the newest loss and accuracy from now on."""
        self._point = point
        if self._round >= 0:
            self._show(self._round)

    def wants_stop(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._stopping.asked

    def _show(self, round_number: int) -> None:
        self._round = round_number
        slot = int(self._timeline.broadcast_end[round_number])
        self._bar.update(self._row, completed=slot, text=self._text(round_number, slot))

    def _text(self, round_number: int, slot: int) -> str:
        timeline = self._timeline
        done = int(timeline.round_offsets[round_number + 1] - timeline.round_offsets[self._first])
        speed = done / max(1e-9, time.monotonic() - self._began)
        parts = [f"slot {slot}/{timeline.last_slot}", f"round {round_number + 1}/{timeline.rounds}"]
        if self._point is not None:
            parts += [f"loss {self._point.loss:.3f}", f"acc {self._point.accuracy:.1%}"]
        stale = int(timeline.staleness[timeline.uplinks(round_number)].max(initial=0))
        return "  ".join([*parts, f"stale {stale}", f"{speed:.0f} upd/s"])
