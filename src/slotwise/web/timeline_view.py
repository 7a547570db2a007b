"""timeline_view: the Gantt chart of a timeline as one HTML file, or in the cell of a notebook.

The chart is that of the explorer, with zoom, pan and a description at the pointer. The file needs no server
and no other file.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from slotwise.base.errors import InputError, UserError
from slotwise.base.files import check_writable, write_atomically
from slotwise.report.gantt.chart import Window, describe, whole_window
from slotwise.schedule import Timeline
from slotwise.web.exploration import Timelines, frame, part
from slotwise.web.page_files import looks, single_file

MOST_BARS = 60_000  # in a file: a few megabytes
MOST_DEVICES = 1_000
HEIGHT = 640  # pixels of a cell


@dataclass(frozen=True)
class TimelineView:
    """A page with the Gantt chart of a timeline; a notebook shows it, and `save` writes it to a file.

    Attributes:
        html: The page.
    """

    html: str

    def save(self, path: Path | str) -> Path:
        """Write the page to a file; raise a UserError if that is not possible."""
        target = Path(path)
        if target.suffix.lower() != ".html":
            raise InputError("path", path, "a file name that ends in .html")
        check_writable(target)
        write_atomically(target, self.html)
        return target

    def _repr_html_(self) -> str:
        # In a frame of its own: the styles of the page and of the notebook do not meet.
        return (
            f'<iframe srcdoc="{escape(self.html)}" style="width:100%;height:{HEIGHT}px;border:0" '
            'title="Gantt chart" sandbox="allow-scripts"></iframe>'
        )


def timeline_view(
    timeline: Timeline, slots: tuple[int, int] | None = None, *, update_bits: int | None = None
) -> TimelineView:
    """Return an interactive Gantt chart of a timeline, for a notebook or a file.

    Args:
        timeline: What to show; devices after the first thousand are left out.
        slots: The slots [first, end) to contain. Default: as many from the start as a page can hold.
        update_bits: Bits of an update, if uplinks differ in their rate, which is then shown.

    Raises:
        InputError: the slots are not in the timeline, or too many.
        UserError: the timeline has no rounds.
    """
    if not timeline.rounds:
        raise UserError("the timeline has no rounds; there is nothing to show")
    window = whole_window(timeline) if slots is None else _window(slots, timeline)
    devices = range(1, min(timeline.scenario.devices, MOST_DEVICES) + 1)
    timelines = Timelines()
    found = part(timelines, timeline, window, devices, most=MOST_BARS)
    while found["cut"]:
        if slots is not None:
            raise InputError("slots", slots, f"fewer: a page holds {MOST_BARS:,} bars")
        window = Window(window.first, window.first + max(1, window.slots // 2))
        found = part(timelines, timeline, window, devices, most=MOST_BARS)
    extent = frame(timeline) | {"devices": len(devices), "from": window.first, "last": window.end}
    extent["first"] = min(extent["first"], window.slots)
    title, note = describe(timeline, update_bits)[::-1]
    boot: dict[str, Any] = {
        "frame": extent,
        "part": found,
        "title": title,
        "note": _note(note, timeline, window),
    }
    return TimelineView(single_file("timeline.html", {**boot, **looks()}, title))


def _window(slots: tuple[int, int], timeline: Timeline) -> Window:
    last = timeline.last_slot
    try:
        first, end = (int(slot) for slot in slots)
    except (TypeError, ValueError):
        first = end = -1
    if not 0 <= first < end <= last:
        raise InputError("slots", slots, f"(first, end) with first below end, within 0 to {last}")
    return Window(first, end)


def _note(note: str, timeline: Timeline, window: Window) -> str:
    if window.slots < timeline.last_slot:
        note += f"; slots {window.first:,}–{window.end - 1:,} of {timeline.last_slot:,}"
    if timeline.scenario.devices > MOST_DEVICES:
        note += f"; devices 1–{MOST_DEVICES:,}"
    return note
