"""Content of a figure of a Gantt chart: looks, label sizes, the visible part; without a plotting library.

The colours can be told apart by red-green and blue-yellow blind readers, and by their lightness alone on a
grey printer: dark, middle, light, lightest. Waiting for the channel is a thin bar instead of a fifth
lightness, a lost uplink a bar of half the height, and an absence hardly more than a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from slotwise.base.errors import InputError
from slotwise.base.files import check_writable, write_atomically
from slotwise.report.gantt import chart
from slotwise.report.gantt.chart import SERVER, Activity, Interval, Window
from slotwise.schedule.timeline import Timeline

SUFFIXES = (".svg", ".png")
USUAL_SLOTS, MOST_SLOTS = 400, 2_000
MOST_DEVICES = 200

DIGIT = 0.64  # width of a digit relative to the font size, in a wide font (DejaVu Sans)
MARGIN = 0.35  # room around a label, relative to the font size
ACROSS, ACROSS_UPRIGHT = 1.18, 0.95  # room across a line of text; digits have no descenders
TURN_BELOW = 0.7


class Look(NamedTuple):
    """Appearance of one activity: its name, colours on light and dark background, and in a terminal.

    ``thickness`` is the part of a row's height that a bar fills.
    """

    title: str
    colour: str
    ink: str
    dark_colour: str
    dark_ink: str
    thickness: float
    character: str
    ascii: str
    style: str


# In the order of the legend.
LOOKS = {
    Activity.COMPUTING: Look(
        "computing", "#8fc7e8", "#10212e", "#2f5573", "#e6eef5", 1.0, "▒", "#", "bright_blue"
    ),
    Activity.WAITING_FOR_CHANNEL: Look(
        "ready, waiting for the channel", "#6f6f6f", "#ffffff", "#9aa3ad", "#000000", 0.3, "·", ".", "dim"
    ),
    Activity.SENDING: Look("sending", "#08306b", "#ffffff", "#b9dcff", "#0b1a2b", 1.0, "▲", "^", "bold"),
    Activity.WAITING_FOR_MODEL: Look(
        "waiting for a model", "#fbeec2", "#3a3000", "#40391f", "#f2e6c0", 1.0, " ", " ", ""
    ),
    Activity.RECEIVING: Look(
        "receiving", "#d55e00", "#ffffff", "#f08a3c", "#221100", 1.0, "▼", "v", "dark_orange3"
    ),
    Activity.LOST: Look("sending, lost", "#a3195b", "#ffffff", "#ff8fc0", "#2b0a18", 0.55, "✗", "x", "red"),
    Activity.CHARGING: Look(
        "waiting for energy", "#d8b400", "#000000", "#8f7a14", "#ffffff", 0.2, "~", "~", "yellow"
    ),
    Activity.AWAY: Look("away", "#b5b5b5", "#000000", "#5a626b", "#ffffff", 0.07, "─", "-", "dim"),
}


class Fit(NamedTuple):
    """Font size of a label, and whether it reads upwards."""

    size: float
    upright: bool


def fit(characters: int, width: float, height: float, smallest: float, largest: float) -> Fit | None:
    """Return how to write ``characters`` in a block; None if they would be smaller than ``smallest``.

    Sideways, unless upright letters are much larger. All lengths are in the unit of the font sizes.
    """
    along = characters * DIGIT + MARGIN
    sideways = Fit(min(width / along, height / ACROSS, largest), upright=False)
    upright = Fit(min(height / along, width / ACROSS_UPRIGHT, largest), upright=True)
    best = sideways if sideways.size >= TURN_BELOW * upright.size else upright
    return best if best.size >= smallest else None


class Bar(NamedTuple):
    """An interval cut to the slots [first, end) of the window, and its label if that fits."""

    interval: Interval
    first: int
    end: int
    label: str
    fit: Fit | None
    middle: float = 0.5  # of a bar in the channel's row, from the top; sub-channels share the row
    share: float = 1.0  # of the row's height


@dataclass(frozen=True)
class Picture:
    """The part of a timeline that one drawing shows: devices 1..``devices`` in a window of slots."""

    timeline: Timeline
    window: Window
    devices: int
    update_bits: int | None = None  # if uplinks differ in their rate
    is_bare: bool = False  # without lines of text above the chart

    @property
    def kinds(self) -> list[Activity]:
        """Activities to draw and to explain, in the order of the legend."""
        return sorted(chart.activity_kinds(self.timeline), key=list(LOOKS).index)

    @property
    def head(self) -> list[str]:
        """Lines of text above the chart."""
        last, devices, parts = self.timeline.last_slot, self.timeline.scenario.devices, []
        if self.window.slots < last:
            parts.append(f"{chart.span(*self.window)} of {last:,}")
        if self.devices < devices:
            parts.append(f"devices 1–{self.devices} of {devices:,}")
        return [
            *chart.describe(self.timeline, self.update_bits),
            *(["shown: " + ", ".join(parts)] if parts else []),
        ]

    def round_starts(self, place: Callable[[int], float], width: Callable[[int], float]) -> dict[int, int]:
        """Return the first slots of the rounds to number: those that begin in the window and have room."""
        starts = chart.round_starts(self.timeline, self.window)
        starts = {k: start for k, start in starts.items() if start >= self.window.first}
        return {k: starts[k] for k in chart.ticks(list(starts), lambda k: place(starts[k]), width)}

    def channel_bars(self, slot: float, height: float, smallest: float, largest: float) -> Iterator[Bar]:
        """Yield the transfers on the channel. Lengths are in the unit of the font sizes.

        Labels of uplinks have one size, and those of broadcasts: that of the longest in the shortest bar.
        """
        carried = chart.transfers(self.timeline, self.window)
        lanes = dict(zip(carried, chart.lanes(carried), strict=True))
        count = 1 + max(lanes.values(), default=0)
        for broadcast in (False, True):
            chosen = [one for one in carried if (one.device == SERVER) == broadcast]
            whole = broadcast and not self.timeline.scenario.has_full_duplex
            parts = 1 if whole else count
            letters = max((len(chart.transfer_label(one)) for one in chosen), default=1)
            shortest = (chart.shortest_broadcast if broadcast else chart.shortest_uplink)(self.timeline)
            for one in chosen:
                thickness = height / parts * LOOKS[one.kind].thickness
                room = fit(letters, slot * shortest, thickness, smallest, largest)
                first, end = self.window.clip(one.start, one.end)
                # A part of a bar may be too short for a label that fits the whole.
                uncut = (first, end) == (one.start, one.end)
                middle = 0.5 if whole else (lanes[one] + 0.5) / parts
                label = chart.transfer_label(one)
                yield Bar(one, first, end, label, room if uncut else None, middle, 1 / parts)

    def device_bars(self, slot: float, height: float, smallest: float, largest: float) -> Iterator[Bar]:
        """Yield the intervals of the devices. Lengths are in the unit of the font sizes."""
        for one in chart.activities(self.timeline, self.window):
            first, end = self.window.clip(one.start, one.end)
            label = f"w{one.version}" if one.kind == Activity.COMPUTING else ""
            room = fit(len(label), slot * (end - first), height, smallest, largest) if label else None
            if one.device <= self.devices:
                yield Bar(one, first, end, label, room)


def compose(timeline: Timeline, window: Window | None = None, *, most_devices: int = MOST_DEVICES) -> Picture:
    """Return what a drawing of the window shows; by default the first slots, and at most 200 devices."""
    devices = min(timeline.scenario.devices, most_devices)
    return Picture(timeline, window or picture_window(timeline), devices)


def picture_window(timeline: Timeline, wanted: Window | None = None) -> Window:
    """Return the wanted slots, or the first few hundred; InputError if they are too many for a picture."""
    if wanted is None:
        return chart.whole_window(timeline).cut(USUAL_SLOTS)
    if wanted.slots > MOST_SLOTS:
        text = f"{wanted.first}:{wanted.end}"
        raise InputError("slots", text, f"at most {MOST_SLOTS:,} slots, the most one picture can show")
    return wanted


def check_picture_path(path: Path, suffixes: Sequence[str] = SUFFIXES, option: str = "out") -> None:
    """Reject a path that no picture can be written to, before anything is computed."""
    if path.suffix.lower() not in suffixes:
        *others, last = suffixes
        raise InputError(option, path, f"a file name that ends in {', '.join(others)} or {last}")
    check_writable(path)


def write_gantt(
    timeline: Timeline, path: Path, window: Window | None = None, *, update_bits: int | None = None
) -> None:
    """Draw the channel and every device to an .svg or .png file, atomically.

    With the bits of an update, the head shows the rates of the uplinks.
    """
    # Imported here: the text chart should not wait for a plotting library.
    from slotwise.report.gantt.figure_chart import gantt_file  # noqa: PLC0415

    check_picture_path(path)
    picture = replace(compose(timeline, picture_window(timeline, window)), update_bits=update_bits)
    write_atomically(path, gantt_file(picture, path.suffix.lower().lstrip(".")))
