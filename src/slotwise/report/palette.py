"""How each activity looks: colours, words and characters.

The colours are told apart by red-green and blue-yellow blind readers, and by their lightness alone on a grey
printer: dark, middle, light, lightest. Waiting for the channel is a thin bar instead of a fifth lightness, a
lost uplink one of half the height, and who is away leaves hardly a line.
"""

from __future__ import annotations

from typing import NamedTuple

from slotwise.report.activity import Activity


class Look(NamedTuple):
    """One activity: what it is called, how it is drawn, on light and on dark paper, and in a terminal.

    ``thickness`` is the part of a row's height that it fills.
    """

    words: str
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
