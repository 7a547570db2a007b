"""Display of a live run on the terminal: its progress, and plan and measurement side by side."""

from __future__ import annotations

from typing import Self

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from slotwise.base.signals import Stop
from slotwise.learning import History, Point
from slotwise.live.server.events import Level, LiveObserver, LogEvent
from slotwise.live.server.live_results import Comparison
from slotwise.report.number_text import loss_text, percent
from slotwise.schedule import Timeline


class LiveDisplay(LiveObserver):
    """A progress bar: first the devices that are connected, then the rounds; and the log above it.

    Without a ``level``, the log has warnings next to a progress bar or if ``quiet``, and information too if
    it is read from a file or a journal.
    """

    def __init__(
        self, stopping: Stop, *, quiet: bool, level: Level | None = None, as_json: bool = False
    ) -> None:
        self._stopping, self._rounds, self._as_json = stopping, 0, as_json
        self._console = Console(stderr=True)
        has_bar = self._console.is_terminal and not (quiet or as_json)
        self._level: Level = level or ("warning" if quiet or has_bar else "info")
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
            console=self._console,
            disable=not has_bar,
        )
        self._row = self._bar.add_task("devices", total=None, text="")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar.live.is_started:
            self._bar.stop()

    def notice(self, message: str) -> None:
        """Print a line above the bar."""
        if self._as_json:
            message = LogEvent("info", "notice", {"message": message}).json()
        self._print(message)

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def devices_connected(self, present: int, expected: int) -> None:
        """Show how many devices are connected."""
        self._bar.start()
        self._bar.update(self._row, description="devices", total=expected, completed=present)

    def run_started(self, timeline: Timeline, resumed: History | None) -> None:  # noqa: ARG002
        """Remember how many rounds there are."""
        self._rounds = timeline.rounds

    def round_done(self, round_number: int) -> None:
        """Move the progress bar."""
        self._bar.start()
        self._bar.update(self._row, description="rounds", total=self._rounds, completed=round_number + 1)

    def evaluated(self, point: Point) -> None:
        """Show the newest loss and accuracy."""
        self._bar.update(self._row, text=f"loss {loss_text(point.loss)} acc {percent(point.accuracy)}")

    def logged(self, event: LogEvent) -> None:
        """Print an event, if it is important enough."""
        if event.is_at_least(self._level):
            self._print(event.json() if self._as_json else event.text())

    def wants_stop(self) -> bool:
        """Return whether Ctrl-C was pressed."""
        return self._stopping.requested


MOST_NAMED = 10  # devices in one line
_ROWS = {  # figure: title and format
    "rounds": ("rounds", ","),
    "updates": ("updates", ","),
    "lost": ("uplinks lost", ","),
    "mean_staleness": ("mean staleness, rounds", ".3f"),
    "max_staleness": ("largest staleness", ","),
    "slots": ("slots", ","),
    "slots_per_round": ("slots per round", ".2f"),
    "channel_use": ("channel in use", ".1%"),
}


def comparison_table(comparison: Comparison) -> Table:
    """Return plan and measurement side by side."""
    table = Table("", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("planned", "measured"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, (title, shape) in _ROWS.items():
        both = (getattr(figures, name) for figures in (comparison.planned, comparison.measured))
        table.add_row(title, *(format(figure, shape) for figure in both))
    table.add_row("ms per round", *("–" if ms is None else f"{ms:,.1f}" for ms in comparison.round_ms))
    return table


def comparison_lines(comparison: Comparison) -> list[str]:
    """Return what the table does not show."""
    measured = comparison.measured
    speed = measured.updates / comparison.seconds if comparison.seconds else 0.0
    lines = [
        f"{comparison.as_planned:,} of {comparison.planned.updates:,} updates as planned; "
        f"{comparison.seconds:.1f} s, {speed:.0f} updates/s"
    ]
    if comparison.first_difference is not None:
        lines.append(f"first difference: {comparison.first_difference}")
    clipped = {device: norms.clipped for device, norms in comparison.norms.items() if norms.clipped}
    for title, counts in (("late", comparison.late), ("clipped", clipped)):
        if counts:
            worst = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_NAMED]
            named = ", ".join(f"device {device} ({_times(count)})" for device, count in worst)
            lines.append(f"{title}: {named}")
    lines += [
        f"model {rollback.version} begins with model {rollback.good} again, as those between were bad"
        for rollback in comparison.rollbacks
    ]
    lines += [f"rejected {_times(count)}: {reason}" for reason, count in comparison.rejected.items()]
    return lines


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
