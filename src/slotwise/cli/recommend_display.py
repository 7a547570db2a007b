"""What a person sees while pilots are trained."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from slotwise.cli.progress import Stopping
from slotwise.learning import History, Point
from slotwise.observer import Observer
from slotwise.recommendation.candidates import Candidate
from slotwise.recommendation.search import SearchWatcher
from slotwise.schedule import Timeline


class SearchDisplay(SearchWatcher):
    """A line for each rung, and a bar for the pilot that is being trained."""

    def __init__(self, stopping: Stopping, *, quiet: bool) -> None:
        self._stopping, self._quiet = stopping, quiet
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            console=console,
            disable=quiet or not console.is_terminal,  # in a file it would be a blank line
            transient=True,
        )

    def __enter__(self) -> Self:
        self._bar.start()
        self._row = self._bar.add_task("planning", total=None, text="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def rung_started(self, slot: int, candidates: Sequence[Candidate]) -> None:
        """Say who climbs."""
        self._slot = slot
        if not self._quiet:
            names = ", ".join(candidate.label for candidate in candidates)
            self._bar.console.print(f"to slot {slot:,}: {names}", highlight=False)

    def pilot_started(self, candidate: Candidate, seed: int) -> Observer:
        """Show its bar."""
        self._bar.reset(self._row, description=f"{candidate.label} seed {seed}", total=None, text="")
        return _PilotDisplay(self, self._slot)

    def advance(self, done: int, total: int, text: str) -> None:
        """The pilot has come so far."""
        self._bar.update(self._row, completed=done, total=total, text=text)

    @property
    def stopping(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._stopping.asked


class _PilotDisplay(Observer):
    """One pilot, told to the display of all."""

    def __init__(self, display: SearchDisplay, slot: int) -> None:
        self._display, self._slot = display, slot
        self._figures = ""

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:
        self._timeline = timeline
        if resumed and resumed.points:
            self.evaluated(resumed.points[-1])

    def round_done(self, round_number: int) -> None:
        done = int(self._timeline.broadcast_end[round_number])
        self._display.advance(done, self._slot, f"slot {done:,}/{self._slot:,}{self._figures}")

    def evaluated(self, point: Point) -> None:
        self._figures = f", loss {point.loss:.3g}, {point.accuracy:.1%}"

    def wants_stop(self) -> bool:
        return self._display.stopping
