"""Which slots a chart shows."""

from __future__ import annotations

import re
from typing import NamedTuple

from slotwise.errors import InputError
from slotwise.schedule.timeline import Timeline


class Window(NamedTuple):
    """The slots [first, end)."""

    first: int
    end: int

    @property
    def slots(self) -> int:
        """How many slots it has."""
        return self.end - self.first

    def clip(self, start: int, end: int) -> tuple[int, int]:
        """The part of [start, end) inside the window."""
        return max(start, self.first), min(end, self.end)

    def cut(self, slots: int) -> Window:
        """The first so many slots of it."""
        return Window(self.first, min(self.end, self.first + slots))


def whole_window(timeline: Timeline) -> Window:
    """Every slot of the timeline."""
    return Window(0, timeline.last_slot)


def window_of(text: str, timeline: Timeline) -> Window:
    """``A:B`` as slots A to B−1, as Python slices; a side left out is the timeline's own."""
    last = timeline.last_slot
    match = re.fullmatch(r"(\d{0,18}):(\d{0,18})", text)
    if match:
        first, end = int(match[1] or 0), min(int(match[2] or last), last)
        if first < end:
            return Window(first, end)
    raise InputError("slots", text, f"A:B with A below B, within 0:{last}")
