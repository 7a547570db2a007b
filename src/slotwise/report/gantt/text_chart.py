"""The Gantt chart for a terminal: a row for the channel, a row for each device, columns for slots.

A slot is three columns wide where that fits, else two, else one; slots that still do not fit are omitted at
the end, and the last line says so. Colours carry no meaning of their own.

Few devices have a row each. With many, a TDMA group is one row if the groups stay together (equal devices,
S divides N, no random selection): its members receive and compute at the same time and send one after
another, so the row only hides which of them sends, and the channel's row shows that. If there are still too
many, the rows that send in the window are shown, and the gaps between them say which devices they omit.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np
from rich.text import Text

from slotwise.report.gantt.chart import (
    SERVER,
    Activity,
    Interval,
    Window,
    activities,
    activity_kinds,
    amount,
    describe,
    model_name,
    round_starts,
    shortest_uplink,
    span,
    ticks,
    transfer_label,
    transfers,
    whole_window,
)
from slotwise.report.gantt.drawing import LOOKS
from slotwise.schedule.timeline import Timeline

FEWEST_COLUMNS = 10
WIDEST_SLOT = 3
MOST_ROWS, ROWS_OF_MANY = 14, 11


def gantt_text(
    timeline: Timeline, *, width: int = 80, window: Window | None = None, ascii_only: bool = False
) -> Text:
    """Return the chart, at most ``width`` columns wide; ``.plain`` is its text without colour.

    Args:
        timeline: the schedule to show.
        width: columns of the terminal.
        window: the slots to show; None shows all, as far as they fit.
        ascii_only: use ASCII characters only.
    """
    chart = _Chart(timeline, width, window or whole_window(timeline))
    parts = [
        *(Text(line) for text in describe(timeline) for line in textwrap.wrap(text, width)),
        Text(),
        *(line.render(chart.label_width) for line in chart.lines()),
        Text(),
        *(Text(line, "dim") for text in chart.notes() for line in textwrap.wrap(text, width)),
    ]
    text = Text("\n").join(parts)
    return _in_ascii(text) if ascii_only else text


def _in_ascii(text: Text) -> Text:
    characters = {look.character: look.ascii for look in LOOKS.values()}
    table = str.maketrans({**characters, "│": "|", "…": "~", "–": "-"})
    plain = Text(text.plain.translate(table))
    plain.spans.extend(text.spans)
    return plain


class Row(NamedTuple):
    """Devices first..last, which share a row, or are omitted together."""

    first: int
    last: int
    shown: bool = True

    @property
    def label(self) -> str:
        """Text before the row, or in place of the omitted ones."""
        if not self.shown:
            return f"… {amount(self.last - self.first + 1, 'more device')} ({self.first}–{self.last})"
        return f"device {self.first}" if self.first == self.last else f"devices {self.first}–{self.last}"


def choose_rows(timeline: Timeline, window: Window) -> list[Row]:
    """Return the rows from device 1 to N; every device is in one, shown or not."""
    devices = timeline.scenario.devices
    size = timeline.scenario.group_size if devices > MOST_ROWS and _groups_stay(timeline) else 1
    count = devices // size
    shown = range(count) if count <= MOST_ROWS else sorted(_active_rows(timeline, window, size, count))
    rows: list[Row] = []
    for number in shown:
        first, following = number * size + 1, rows[-1].last + 1 if rows else 1
        if first > following:
            rows.append(Row(following, first - 1, shown=False))
        rows.append(Row(first, first + size - 1))
    return rows


def _groups_stay(timeline: Timeline) -> bool:
    """Return whether every round was sent by devices 1..S, or S+1..2S, and so on."""
    if timeline.fleet is not None or not timeline.scenario.divides:
        return False
    groups = (timeline.device - 1) // timeline.scenario.group_size
    return bool(np.all(groups == groups[timeline.round_offsets[timeline.round]]))


def _active_rows(timeline: Timeline, window: Window, size: int, count: int) -> set[int]:
    """Return the last row, the first ones to send in the window, and the first of all while there is room.

    A single row between two others is shown as well: its gap would take as much room.
    """
    sent = transfers(timeline, window)
    senders = [(transfer.device - 1) // size for transfer in sent if transfer.device != SERVER]
    wanted = dict.fromkeys([count - 1, *senders, *range(count)])
    shown = set(list(wanted)[:ROWS_OF_MANY])
    return shown | {row + 1 for row in shown if row + 2 in shown} | ({0} if 1 in shown else set())


class _Line:
    """A label and a row of columns that can be overwritten; text beyond the last column is cut off."""

    def __init__(self, label: str, columns: int) -> None:
        self.label = label
        self._cells = [(" ", "")] * columns

    def write(self, column: int, text: str, style: str = "") -> None:
        for place, character in enumerate(text, column):
            if 0 <= place < len(self._cells):
                self._cells[place] = character, style

    def write_whole(self, column: int, text: str) -> None:
        """Write ``text`` only if no part of it would be cut off."""
        if column + len(text) <= len(self._cells):
            self.write(column, text)

    def render(self, label_width: int) -> Text:
        line = Text(self.label.ljust(label_width), end="")
        for style, run in groupby(self._cells, key=lambda cell: cell[1]):
            line.append("".join(character for character, _ in run), style or None)
        line.rstrip()
        return line


class _Chart:
    """The measures of one chart, and its lines."""

    def __init__(self, timeline: Timeline, width: int, wanted: Window) -> None:
        self.timeline, self.wanted = timeline, wanted
        self.rows = choose_rows(timeline, wanted.cut(width))
        labels = [row.label for row in self.rows if row.shown]
        self.label_width = max(map(len, [*labels, "channel"])) + 2
        room = max(width - self.label_width, FEWEST_COLUMNS)
        self.slot_width = max(1, min(WIDEST_SLOT, room // wanted.slots))
        self.window = wanted.cut(room // self.slot_width)
        self.transfers = transfers(timeline, self.window)
        self.digits = max((len(str(sent.device)) for sent in self.transfers), default=1)
        # Where a device's number is wider than its uplink, its digits stand below each other.
        self.downwards = 1 < self.digits >= self.slot_width * shortest_uplink(timeline)

    def lines(self) -> Iterator[_Line]:
        """Yield the axes, the channel and the devices."""
        yield self._slot_line()
        yield self._round_line()
        yield from self._channel_lines()
        visible = activities(self.timeline, self.window)
        for row in self.rows:
            yield self._device_line(row, visible) if row.shown else _Line(row.label, 0)

    def notes(self) -> Iterator[str]:
        """Yield the legend, and a hint if slots are omitted."""
        kinds = (Activity.COMPUTING, Activity.SENDING, Activity.RECEIVING, Activity.WAITING_FOR_CHANNEL)
        yield "   ".join(f"{LOOKS[kind].character} {LOOKS[kind].title}" for kind in kinds)
        downwards = " (read downwards)" if self.downwards else ""
        yield f"blank: waiting for a model   wN: model N   channel: the sender{downwards}"
        rare = [k for k in (Activity.LOST, Activity.AWAY) if k in activity_kinds(self.timeline)]
        if rare:
            yield "   ".join(f"{LOOKS[kind].character} {LOOKS[kind].title}" for kind in rare)
        if any(row.shown and row.first < row.last for row in self.rows):
            yield "a row of several devices shows ▲ while one of them sends"
        if self.window != self.wanted:
            end = min(2 * self.window.end - self.window.first, self.wanted.end)
            yield (
                f"not shown: {span(self.window.end, self.wanted.end)}; "
                f"see --slots {self.window.end}:{end}, or --out FILE.html"
            )

    def _line(self, label: str) -> _Line:
        return _Line(label, self.window.slots * self.slot_width)

    def _column(self, slot: int) -> int:
        return (slot - self.window.first) * self.slot_width

    def _slot_line(self) -> _Line:
        line = self._line("slot")
        for slot in ticks(range(*self.window), self._column, lambda slot: len(str(slot)) + 1):
            line.write_whole(self._column(slot), str(slot))
        return line

    def _round_line(self) -> _Line:
        line = self._line("round")
        starts = round_starts(self.timeline, self.window)
        columns = {k: self._column(max(start, self.window.first)) for k, start in starts.items()}
        for k in ticks(list(starts), columns.__getitem__, lambda k: len(str(k)) + 1):
            line.write_whole(columns[k], ("│" if starts[k] >= self.window.first else "…") + str(k))
        return line

    def _channel_lines(self) -> list[_Line]:
        """Return one line, or one for each digit where numbers read downwards."""
        lines = [self._line("") for _ in range(self.digits if self.downwards else 1)]
        lines[-1].label = "channel"
        for transfer in self.transfers:
            start, end = self.window.clip(transfer.start, transfer.end)
            label, look = transfer_label(transfer), LOOKS[transfer.kind]
            if transfer.device != SERVER and self.downwards:
                *above, label = list(label.rjust(self.digits))
                for line, digit in zip(lines, above, strict=False):
                    line.write(self._column(start), digit, look.style)
            # The last column stays blank to set the transfer off, or says that it was lost.
            room = (end - start) * self.slot_width
            shown = label if len(label) < max(room, 2) else look.character
            last = look.character if transfer.kind == Activity.LOST else " "
            text = shown.ljust(room - 1, look.character).ljust(room, last)
            lines[-1].write(self._column(start), text, look.style)
        return lines

    def _device_line(self, row: Row, visible: list[Interval]) -> _Line:
        """Return the row's intervals, sending last so that one sender of a group is seen."""
        line = self._line(row.label)
        mine = [interval for interval in visible if row.first <= interval.device <= row.last]
        for interval in sorted(mine, key=lambda interval: interval.kind):
            start, end = self.window.clip(interval.start, interval.end)
            room, look = (end - start) * self.slot_width, LOOKS[interval.kind]
            name = model_name(interval.version) if interval.kind == Activity.COMPUTING else ""
            label = name if len(name) + 1 < room else ""
            line.write(self._column(start), label.ljust(room, look.character), look.style)
        return line
