"""The Gantt chart as a file: the suffix says which kind."""

from __future__ import annotations

from pathlib import Path

from slotwise.errors import InputError
from slotwise.files import check_writable, write_atomically
from slotwise.report.gantt_page import gantt_page
from slotwise.report.picture import compose
from slotwise.report.window import Window, whole_window
from slotwise.schedule.timeline import Timeline

SUFFIXES = (".svg", ".png", ".html")
USUAL_SLOTS = 400
MOST_SLOTS = 2_000


def check_picture_path(path: Path) -> None:
    """Refuse a path that no picture can be written to, before anything is computed."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError("out", path, "a file name that ends in .svg, .png or .html")
    check_writable(path)


def picture_window(timeline: Timeline, wanted: Window | None = None) -> Window:
    """The slots of a picture: those wanted, or the first few hundred."""
    if wanted is None:
        return whole_window(timeline).cut(USUAL_SLOTS)
    if wanted.slots > MOST_SLOTS:
        text = f"{wanted.first}:{wanted.end}"
        raise InputError("slots", text, f"at most {MOST_SLOTS:,} slots, the most one picture can show")
    return wanted


def write_gantt(timeline: Timeline, path: Path, window: Window | None = None) -> None:
    """Draw the channel and every device to ``path``: an .svg, .png or .html file, all of it or nothing."""
    check_picture_path(path)
    write_atomically(path, _picture(timeline, path.suffix.lower(), picture_window(timeline, window)))


def _picture(timeline: Timeline, suffix: str, window: Window) -> bytes | str:
    picture = compose(timeline, window)
    if suffix == ".html":
        return gantt_page(picture)
    # Imported here: text and pages should not wait for a plotting library.
    from slotwise.report.gantt_figure import gantt_figure  # noqa: PLC0415

    return gantt_figure(picture, "png" if suffix == ".png" else "svg")
