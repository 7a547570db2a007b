"""Looks of the pages: names and colours of activities, schedules and lines, in light and dark."""

from __future__ import annotations

from typing import Any

from slotwise.planning import SCHEDULES
from slotwise.report.curves import BLUE, COLOURS, GREEN, VERMILLION
from slotwise.report.gantt.chart import Activity
from slotwise.report.gantt.drawing import LOOKS

SCHEDULE_COLOURS = dict(zip(SCHEDULES, (VERMILLION, BLUE, GREEN), strict=True))


def looks() -> dict[str, Any]:
    """Return names and colours; a pair of colours is for light and for dark pages."""
    activities = [
        {
            "kind": int(kind),
            "name": kind.name.lower().replace("_", "-"),
            "title": look.title,
            "colours": [look.colour, look.dark_colour],
            "inks": [look.ink, look.dark_ink],
            "thickness": look.thickness,
            "rare": kind in (Activity.LOST, Activity.AWAY, Activity.CHARGING),
        }
        for kind, look in LOOKS.items()
    ]
    schedules = {name: list(colour) for name, colour in SCHEDULE_COLOURS.items()}
    return {"activities": activities, "schedules": schedules, "palette": [list(c) for c in COLOURS]}
