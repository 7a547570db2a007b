"""The Gantt chart in a terminal: a row for the channel, a row for each device, columns for slots.

A slot is three columns wide where that fits, else two, else one; what still does not fit is left out at the
end, and the last line says so. Colour is added by the terminal's console and carries no meaning of its own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.text import Text

from slotwise.report.activity import Activities, Activity, activities, kinds_of
from slotwise.report.caption import describe, model_name, span
from slotwise.report.channel import broadcasts, lost_uplinks, round_starts, rounds, shortest_uplink, uplinks
from slotwise.report.palette import LOOKS
from slotwise.report.text_line import Line
from slotwise.report.text_rows import Gap, Row, choose_rows
from slotwise.report.ticks import ticks
from slotwise.report.window import Window, whole_window
from slotwise.schedule.timeline import Timeline

FEWEST_COLUMNS = 10
WIDEST_SLOT = 3


def gantt_text(
    timeline: Timeline, *, width: int = 80, window: Window | None = None, ascii_only: bool = False
) -> Text:
    """The chart, at most ``width`` columns wide; ``.plain`` is its text without colour.

    Args:
        timeline: what to show.
        width: columns of the terminal.
        window: the slots to show; None is all of them, as far as they fit.
        ascii_only: for terminals that know no other characters.
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


class _Chart:
    """The measures of one chart, and its lines."""

    def __init__(self, timeline: Timeline, width: int, wanted: Window) -> None:
        self.timeline, self.wanted = timeline, wanted
        self.rows = choose_rows(timeline, wanted.cut(width))
        labels = [row.label for row in self.rows if isinstance(row, Row)]
        self.label_width = max(map(len, [*labels, "channel"])) + 2
        room = max(width - self.label_width, FEWEST_COLUMNS)
        self.slot_width = max(1, min(WIDEST_SLOT, room // wanted.slots))
        self.window = wanted.cut(room // self.slot_width)

    def lines(self) -> Iterator[Line]:
        """Everything but the words above and below."""
        yield self._slot_line()
        yield self._round_line()
        yield from self._channel_lines()
        yield from self._device_lines()

    def notes(self) -> Iterator[str]:
        """The legend, and what is left out."""
        yield from self._legend()
        if self.window != self.wanted:
            end = min(2 * self.window.end - self.window.first, self.wanted.end)
            yield (
                f"not shown: {span(self.window.end, self.wanted.end)}; "
                f"see --slots {self.window.end}:{end}, or --out FILE.html"
            )

    def _line(self, label: str) -> Line:
        return Line(label, self.window.slots * self.slot_width)

    def _column(self, slot: int) -> int:
        return (slot - self.window.first) * self.slot_width

    def _slot_line(self) -> Line:
        line = self._line("slot")
        for slot in ticks(range(*self.window), self._column, lambda slot: len(str(slot)) + 1):
            if line.fits(self._column(slot), str(slot)):
                line.write(self._column(slot), str(slot))
        return line

    def _round_line(self) -> Line:
        line = self._line("round")
        starts = round_starts(self.timeline)
        seen = {k: max(int(starts[k]), self.window.first) for k in rounds(self.timeline, self.window)}
        for k in ticks(list(seen), lambda k: self._column(seen[k]), lambda k: len(str(k)) + 1):
            label = ("│" if seen[k] == starts[k] else "…") + str(k)
            if line.fits(self._column(seen[k]), label):
                line.write(self._column(seen[k]), label)
        return line

    def _channel_lines(self) -> list[Line]:
        """One line, or one for each digit where a device's number is wider than its uplink."""
        lines = [self._line("") for _ in range(self._digits() if self._reads_downwards() else 1)]
        lines[-1].label = "channel"
        for kind, found in ((Activity.SENDING, uplinks), (Activity.LOST, lost_uplinks)):
            for start, end, device, _, _ in found(self.timeline, self.window):
                *above, last = list(str(device).rjust(len(lines))) if len(lines) > 1 else [str(device)]
                for line, digit in zip(lines, above, strict=False):
                    line.write(self._column(max(start, self.window.first)), digit, LOOKS[kind].style)
                self._transfer(lines[-1], kind, start, end, last)
        for start, end, version in broadcasts(self.timeline, self.window):
            self._transfer(lines[-1], Activity.RECEIVING, start, end, model_name(version))
        return lines

    def _transfer(self, line: Line, kind: Activity, start: int, end: int, label: str) -> None:
        """A label filled up to its last column, which stays blank to set it off, or says that it was lost."""
        start, end = self.window.clip(start, end)
        room, look = self._width(start, end), LOOKS[kind]
        shown = label if len(label) < max(room, 2) else look.character
        last = look.character if kind == Activity.LOST else " "
        line.write(self._column(start), shown.ljust(room - 1, look.character).ljust(room, last), look.style)

    def _digits(self) -> int:
        sent = (*uplinks(self.timeline, self.window), *lost_uplinks(self.timeline, self.window))
        return max((len(str(uplink.device)) for uplink in sent), default=1)

    def _reads_downwards(self) -> bool:
        return 1 < self._digits() >= self.slot_width * shortest_uplink(self.timeline)

    def _width(self, start: int, end: int) -> int:
        return (end - start) * self.slot_width

    def _device_lines(self) -> Iterator[Line]:
        visible = activities(self.timeline).overlapping(self.window)
        for row in self.rows:
            if isinstance(row, Gap):
                yield Line(row.label, 0)
            else:
                yield self._device_line(row, visible)

    def _device_line(self, row: Row, visible: Activities) -> Line:
        """The row's intervals, those of sending last so that one sender of a group is seen."""
        line = self._line(row.label)
        mine = visible.select((visible.device >= row.first) & (visible.device <= row.last))
        for interval in sorted(mine, key=lambda interval: interval.kind):
            start, end = self.window.clip(interval.start, interval.end)
            room, look = self._width(start, end), LOOKS[interval.kind]
            name = model_name(interval.version) if interval.kind == Activity.COMPUTING else ""
            label = name if len(name) + 1 < room else ""
            line.write(self._column(start), label.ljust(room, look.character), look.style)
        return line

    def _legend(self) -> Iterator[str]:
        kinds = (Activity.COMPUTING, Activity.SENDING, Activity.RECEIVING, Activity.WAITING_FOR_CHANNEL)
        yield "   ".join(f"{LOOKS[kind].character} {LOOKS[kind].words}" for kind in kinds)
        downwards = " (read downwards)" if self._reads_downwards() else ""
        yield f"blank: waiting for a model   wN: model N   channel: the sender{downwards}"
        rare = [LOOKS[kind] for kind in (Activity.LOST, Activity.AWAY) if kind in kinds_of(self.timeline)]
        if rare:
            yield "   ".join(f"{look.character} {look.words}" for look in rare)
        if any(isinstance(row, Row) and row.first < row.last for row in self.rows):
            yield "a row of several devices shows ▲ while one of them sends"


def _in_ascii(text: Text) -> Text:
    signs = {look.character: look.ascii for look in LOOKS.values()}
    table = str.maketrans({**signs, "│": "|", "…": "~", "–": "-"})
    plain = Text(text.plain.translate(table))
    plain.spans.extend(text.spans)
    return plain
