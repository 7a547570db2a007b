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
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from rich.text import Text

from slotwise.report.gantt import chart
from slotwise.report.gantt.chart import SERVER, Activity, Window
from slotwise.report.gantt.drawing import LOOKS
from slotwise.report.number_text import counted
from slotwise.schedule.timeline import Timeline

FEWEST_COLUMNS = 10
WIDEST_SLOT = 3
MOST_ROWS, ROWS_OF_MANY = 14, 11


def gantt_text(
    timeline: Timeline,
    *,
    width: int = 80,
    window: Window | None = None,
    ascii_only: bool = False,
    update_bits: int | None = None,
) -> Text:
    """Return the chart, at most ``width`` columns wide; ``.plain`` is its text without colour.

    Without a window, slots are shown from the first on as far as they fit. With the bits of an update the
    head has the rates of the uplinks.
    """
    drawn = _Chart(timeline, width, window or chart.whole_window(timeline))
    parts = [
        *(
            Text(line)
            for text in chart.describe(timeline, update_bits)
            for line in textwrap.wrap(text, width)
        ),
        Text(),
        *(line.render(drawn.label_width) for line in drawn.lines()),
        Text(),
        *(Text(line, "dim") for text in drawn.notes() for line in textwrap.wrap(text, width)),
    ]
    text = Text("\n").join(parts)
    if ascii_only:
        characters = {look.character: look.ascii for look in LOOKS.values()}
        table = str.maketrans({**characters, "│": "|", "…": "~", "–": "-"})
        text = Text(text.plain.translate(table), spans=text.spans)
    return text


class Row(NamedTuple):
    """Devices first..last, which share a row, or are omitted together."""

    first: int
    last: int
    shown: bool = True

    @property
    def label(self) -> str:
        """Text before the row, or in place of the omitted ones."""
        if not self.shown:
            return f"… {counted(self.last - self.first + 1, 'more device')} ({self.first}–{self.last})"
        return f"device {self.first}" if self.first == self.last else f"devices {self.first}–{self.last}"


def choose_rows(timeline: Timeline, window: Window) -> list[Row]:
    """Return the rows from device 1 to N; every device is in one, shown or not."""
    devices, size, stay = timeline.scenario.devices, timeline.scenario.group_size, False
    if devices > MOST_ROWS and timeline.equal_devices and timeline.scenario.divides:
        # Groups stay together if every round was sent by devices 1..S, or S+1..2S, and so on.
        groups = (timeline.device - 1) // size
        stay = bool(np.all(groups == groups[timeline.round_offsets[timeline.round]]))
    size = size if stay else 1
    count = devices // size
    shown = set(range(count))
    if count > MOST_ROWS:
        # The last row, the first ones to send in the window, and the first of all while there is room.
        sent = chart.transfers(timeline, window)
        senders = [(transfer.device - 1) // size for transfer in sent if transfer.device != SERVER]
        shown = set(list(dict.fromkeys([count - 1, *senders, *range(count)]))[:ROWS_OF_MANY])
        # A single row between two others is shown as well: its gap would take as much room.
        shown |= {row + 1 for row in shown if row + 2 in shown} | ({0} if 1 in shown else set())
    rows: list[Row] = []
    for number in sorted(shown):
        first, following = number * size + 1, rows[-1].last + 1 if rows else 1
        if first > following:
            rows.append(Row(following, first - 1, shown=False))
        rows.append(Row(first, first + size - 1))
    return rows


class _Line:
    """A label and a row of columns that can be overwritten; text beyond the last column is cut off."""

    def __init__(self, label: str, columns: int) -> None:
        self.label = label
        self.cells = [(" ", "")] * columns

    def write(self, column: int, text: str, style: str = "") -> None:
        for place, character in enumerate(text, column):
            if 0 <= place < len(self.cells):
                self.cells[place] = character, style

    def render(self, label_width: int) -> Text:
        line = Text(self.label.ljust(label_width), end="")
        for style, run in groupby(self.cells, key=lambda cell: cell[1]):
            line.append("".join(character for character, _ in run), style or None)
        line.rstrip()
        return line


class _Chart:
    """The measures of one chart, and its lines."""

    def __init__(self, timeline: Timeline, width: int, wanted: Window) -> None:
        self.timeline, self.wanted = timeline, wanted
        # The labels of the rows decide how many slots fit; there cannot be more than columns.
        self.rows = choose_rows(timeline, wanted.cut(width))
        labels = [row.label for row in self.rows if row.shown]
        beside = timeline.scenario.has_full_duplex
        lanes = timeline.most_at_once + beside
        name = f"channel {lanes}" if lanes > 1 else "channel"
        self.label_width = max(map(len, [*labels, name])) + 2
        room = max(width - self.label_width, FEWEST_COLUMNS)
        self.slot_width = max(1, min(WIDEST_SLOT, room // wanted.slots))
        self.window = wanted.cut(room // self.slot_width)
        self.columns = self.window.slots * self.slot_width
        self.transfers = chart.transfers(timeline, self.window)
        self.digits = max((len(str(sent.device)) for sent in self.transfers), default=1)
        # Where a device's number is wider than its uplink, its digits stand below each other.
        self.downwards = 1 < self.digits >= self.slot_width * chart.shortest_uplink(timeline)

    def lines(self) -> Iterator[_Line]:
        """Yield the axes, the channel and the devices."""
        first = self.window.first
        yield self._axis("slot", {slot: slot for slot in range(*self.window)}, {})
        starts = chart.round_starts(self.timeline, self.window)
        marks = {k: "│" if start >= first else "…" for k, start in starts.items()}
        yield self._axis("round", {k: max(start, first) for k, start in starts.items()}, marks)
        yield from self._channel_lines()
        visible = chart.activities(self.timeline, self.window)
        for row in self.rows:
            line = _Line(row.label, self.columns if row.shown else 0)
            mine = [one for one in visible if row.shown and row.first <= one.device <= row.last]
            # Sending comes last, so that one sender of a group is seen.
            for one in sorted(mine, key=lambda one: one.kind):
                start, end = self.window.clip(one.start, one.end)
                room, look = (end - start) * self.slot_width, LOOKS[one.kind]
                name = f"w{one.version}" if one.kind == Activity.COMPUTING else ""
                label = name if len(name) + 1 < room else ""
                line.write(self._column(start), label.ljust(room, look.character), look.style)
            yield line

    def notes(self) -> Iterator[str]:
        """Yield the legend, and a hint if slots are omitted."""
        kinds = (Activity.COMPUTING, Activity.SENDING, Activity.RECEIVING, Activity.WAITING_FOR_CHANNEL)
        yield "   ".join(f"{LOOKS[kind].character} {LOOKS[kind].title}" for kind in kinds)
        downwards = " (read downwards)" if self.downwards else ""
        yield f"blank: waiting for a model   wN: model N   channel: the sender{downwards}"
        rare = [
            k
            for k in (Activity.LOST, Activity.CHARGING, Activity.AWAY)
            if k in chart.activity_kinds(self.timeline)
        ]
        if rare:
            yield "   ".join(f"{LOOKS[kind].character} {LOOKS[kind].title}" for kind in rare)
        if any(row.shown and row.first < row.last for row in self.rows):
            yield "a row of several devices shows ▲ while one of them sends"
        if self.window != self.wanted:
            end = min(2 * self.window.end - self.window.first, self.wanted.end)
            yield (
                f"not shown: {chart.span(self.window.end, self.wanted.end)}; "
                f"see --slots {self.window.end}:{end}, or --out FILE.html"
            )

    def _column(self, slot: int) -> int:
        return (slot - self.window.first) * self.slot_width

    def _axis(self, label: str, slots: Mapping[int, int], marks: Mapping[int, str]) -> _Line:
        """Return a line with numbers at their slots, as far as they have room and are not cut off."""
        line = _Line(label, self.columns)
        columns = {number: self._column(slot) for number, slot in slots.items()}
        for number in chart.ticks(list(columns), columns.__getitem__, lambda number: len(str(number)) + 1):
            text = f"{marks.get(number, '')}{number}"
            if columns[number] + len(text) <= len(line.cells):
                line.write(columns[number], text)
        return line

    def _channel_lines(self) -> list[_Line]:
        """Return one line for each sub-channel in use, or one for each digit where numbers read downwards."""
        lanes = chart.lanes(self.transfers)
        numbers, full_duplex = range(1 + max(lanes, default=0)), self.timeline.scenario.has_full_duplex
        found = []
        for lane in numbers:
            mine = [
                transfer
                for transfer, place in zip(self.transfers, lanes, strict=True)
                if place == lane or (transfer.device == SERVER and not full_duplex)
            ]
            found += self._lane_lines(mine, "channel" if len(numbers) == 1 else f"channel {lane + 1}")
        return found

    def _lane_lines(self, transfers: Sequence[chart.Interval], label: str) -> list[_Line]:
        lines = [_Line("", self.columns) for _ in range(self.digits if self.downwards else 1)]
        lines[-1].label = label
        for transfer in transfers:
            start, end = self.window.clip(transfer.start, transfer.end)
            label, look = chart.transfer_label(transfer), LOOKS[transfer.kind]
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
