"""Parts shared by the figure and the page of a Gantt chart: looks, label sizes, the visible part, files.

The colours can be told apart by red-green and blue-yellow blind readers, and by their lightness alone on a
grey printer: dark, middle, light, lightest. Waiting for the channel is a thin bar instead of a fifth
lightness, a lost uplink a bar of half the height, and an absence hardly more than a line.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from slotwise.errors import InputError
from slotwise.files import check_writable, write_atomically
from slotwise.report.gantt.chart import (
    Activities,
    Activity,
    Window,
    activities,
    activity_kinds,
    describe,
    span,
    whole_window,
)
from slotwise.schedule.timeline import Timeline

SUFFIXES = (".svg", ".png", ".html")
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


LOOKS = {
    Activity.COMPUTING: Look(
        "computing", "#8fc7e8", "#10212e", "#2f5573", "#e6eef5", 1.0, "▒", "#", "bright_blue"
    ),
    Activity.SENDING: Look("sending", "#08306b", "#ffffff", "#b9dcff", "#0b1a2b", 1.0, "▲", "^", "bold"),
    Activity.RECEIVING: Look(
        "receiving", "#d55e00", "#ffffff", "#f08a3c", "#221100", 1.0, "▼", "v", "dark_orange3"
    ),
    Activity.WAITING_FOR_CHANNEL: Look(
        "ready, waiting for the channel", "#6f6f6f", "#ffffff", "#9aa3ad", "#000000", 0.3, "·", ".", "dim"
    ),
    Activity.WAITING_FOR_MODEL: Look(
        "waiting for a model", "#fbeec2", "#3a3000", "#40391f", "#f2e6c0", 1.0, " ", " ", ""
    ),
    Activity.LOST: Look("sending, lost", "#a3195b", "#ffffff", "#ff8fc0", "#2b0a18", 0.55, "✗", "x", "red"),
    Activity.AWAY: Look("away", "#b5b5b5", "#000000", "#5a626b", "#ffffff", 0.07, "─", "-", "dim"),
}

LEGEND_ORDER = (
    Activity.COMPUTING,
    Activity.WAITING_FOR_CHANNEL,
    Activity.SENDING,
    Activity.WAITING_FOR_MODEL,
    Activity.RECEIVING,
    Activity.LOST,
    Activity.AWAY,
)


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


class Picture(NamedTuple):
    """The part of a timeline that one drawing shows: devices 1..``devices`` in a window of slots."""

    timeline: Timeline
    window: Window
    devices: int
    visible: Activities

    @property
    def kinds(self) -> list[Activity]:
        """Activities to draw and to explain."""
        return activity_kinds(self.timeline)

    @property
    def head(self) -> list[str]:
        """Lines of text above the chart."""
        last, devices, parts = self.timeline.last_slot, self.timeline.scenario.devices, []
        if self.window.slots < last:
            parts.append(f"{span(*self.window)} of {last:,}")
        if self.devices < devices:
            parts.append(f"devices 1–{self.devices} of {devices:,}")
        return [*describe(self.timeline), *(["shown: " + ", ".join(parts)] if parts else [])]


def compose(timeline: Timeline, window: Window | None = None, *, most_devices: int = MOST_DEVICES) -> Picture:
    """Return what a drawing of the window shows; by default the first slots, and at most 200 devices."""
    shown = window or picture_window(timeline)
    devices = min(timeline.scenario.devices, most_devices)
    every = activities(timeline)
    return Picture(timeline, shown, devices, every.select(every.device <= devices).overlapping(shown))


def picture_window(timeline: Timeline, wanted: Window | None = None) -> Window:
    """Return the wanted slots, or the first few hundred.

    Raises:
        InputError: more slots than one picture can show.
    """
    if wanted is None:
        return whole_window(timeline).cut(USUAL_SLOTS)
    if wanted.slots > MOST_SLOTS:
        text = f"{wanted.first}:{wanted.end}"
        raise InputError("slots", text, f"at most {MOST_SLOTS:,} slots, the most one picture can show")
    return wanted


def check_picture_path(path: Path) -> None:
    """Reject a path that no picture can be written to, before anything is computed."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError("out", path, "a file name that ends in .svg, .png or .html")
    check_writable(path)


def write_gantt(timeline: Timeline, path: Path, window: Window | None = None) -> None:
    """Draw the channel and every device to an .svg, .png or .html file, atomically."""
    check_picture_path(path)
    picture, suffix = compose(timeline, picture_window(timeline, window)), path.suffix.lower()
    # Imported here: the text chart should not wait for a plotting library.
    if suffix == ".html":
        from slotwise.report.gantt.page_chart import gantt_page  # noqa: PLC0415

        write_atomically(path, gantt_page(picture))
    else:
        from slotwise.report.gantt.figure_chart import gantt_file  # noqa: PLC0415

        write_atomically(path, gantt_file(picture, "png" if suffix == ".png" else "svg"))
