"""What a person sees of a live run: how it goes on, and what came of the plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from slotwise.learning import Point
from slotwise.live.mailbox import READY_TWICE, Rejection
from slotwise.live.report import Comparison, Figures
from slotwise.live.run import LiveWatcher
from slotwise.live.state import LiveState
from slotwise.report.progress import Stop


class LiveDisplay(LiveWatcher):
    """A progress bar: first the devices that have come, then the rounds."""

    def __init__(self, stopping: Stop, rounds: int, *, quiet: bool) -> None:
        self._stopping, self._rounds, self._quiet = stopping, rounds, quiet
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
            console=self._console,
            disable=quiet,
        )
        self._told: set[str] = set()

    def __enter__(self) -> Self:
        self._row = self._bar.add_task("devices here", total=self._rounds, text="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar.live.is_started:
            self._bar.stop()

    def passed_over(self, damaged: Sequence[Path], round_number: int) -> None:
        """Name them, and say what that costs."""
        for path in damaged:
            self.say(f"{path}: damaged, passed over")
        self.say(f"going on from {f'round {round_number}' if round_number else 'the start (no checkpoint)'}")

    def waiting(self, present: int, wanted: int) -> None:
        """Show who has come."""
        self._bar.start()
        self._bar.update(self._row, description="devices here", total=wanted, completed=present)

    def starts_without(self, devices: Sequence[int]) -> None:
        """Name them."""
        self.say(f"starting without device {', '.join(map(str, devices))}")

    def round_done(self, state: LiveState) -> None:
        """Move the bar."""
        self._bar.start()
        self._bar.update(self._row, description="rounds", total=self._rounds, completed=state.round)

    def evaluated(self, point: Point) -> None:
        """Show the newest loss and accuracy from now on."""
        self._bar.update(self._row, text=f"loss {point.loss:.3f} acc {point.accuracy:.1%}")

    def rejected(self, rejection: Rejection) -> None:
        """Tell the first rejection of each kind, unless it means nothing; all of them are in the log."""
        told = str(rejection)
        if self._quiet or rejection.reason == READY_TWICE:
            return
        if told not in self._told and len(self._told) < 1000:
            self._told.add(told)
            self.say(f"rejected: {told}")

    def wants_stop(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._stopping.requested

    def say(self, text: str) -> None:
        """A line above the bar."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def comparison_table(comparison: Comparison) -> Table:
    """Plan and reality side by side."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for heading in ("planned", "measured"):
        table.add_column(heading, justify="right", no_wrap=True)
    columns = [_cells(figures) for figures in (comparison.planned, comparison.measured)]
    for name, planned, measured in zip(_ROWS, *columns, strict=True):
        table.add_row(name, planned, measured)
    table.add_row("ms per round", *("–" if ms is None else f"{ms:,.1f}" for ms in comparison.round_ms))
    return table


_ROWS = (
    "rounds",
    "updates",
    "uplinks lost",
    "mean staleness, rounds",
    "largest staleness",
    "slots",
    "slots per round",
    "channel in use",
)


def _cells(figures: Figures) -> list[str]:
    return [
        f"{figures.rounds:,}",
        f"{figures.updates:,}",
        f"{figures.lost:,}",
        f"{figures.mean_staleness:.3f}",
        f"{figures.max_staleness:,}",
        f"{figures.slots:,}",
        f"{figures.slots_per_round:.2f}",
        f"{figures.channel_use:.1%}",
    ]


def comparison_lines(comparison: Comparison) -> Sequence[str]:
    """What the table does not say."""
    planned, measured = comparison.planned, comparison.measured
    speed = measured.updates / comparison.seconds if comparison.seconds else 0.0
    lines = [
        f"{comparison.as_planned:,} of {planned.updates:,} updates as planned; "
        f"{comparison.seconds:.1f} s, {speed:.0f} updates/s"
    ]
    if comparison.first_difference is not None:
        lines.append(f"first difference: {comparison.first_difference}")
    if comparison.late:
        worst = sorted(comparison.late.items(), key=lambda item: (-item[1], item[0]))[:10]
        named = ", ".join(f"device {device} ({_times(times)})" for device, times in worst)
        lines.append(f"did not keep pace: {named}")
    lines += [f"rejected {_times(times)}: {reason}" for reason, times in comparison.rejected.items()]
    return lines


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
