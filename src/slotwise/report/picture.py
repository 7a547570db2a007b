"""What a picture shows, whoever draws it: the slots, the devices, their intervals and the words above."""

from __future__ import annotations

from typing import NamedTuple

from slotwise.report.activity import Activities, Activity, activities, kinds_of
from slotwise.report.caption import describe, span
from slotwise.report.window import Window
from slotwise.schedule.timeline import Timeline

MOST_DEVICES = 200


class Picture(NamedTuple):
    """A timeline cut to what one picture can hold: devices 1..``devices`` in a window of slots."""

    timeline: Timeline
    window: Window
    devices: int
    visible: Activities

    @property
    def kinds(self) -> list[Activity]:
        """What there is to draw and to explain."""
        return kinds_of(self.timeline)

    @property
    def head(self) -> list[str]:
        """The lines above the chart."""
        return [*describe(self.timeline), *self._left_out()]

    def _left_out(self) -> list[str]:
        last, devices, parts = self.timeline.last_slot, self.timeline.scenario.devices, []
        if self.window.slots < last:
            parts.append(f"{span(*self.window)} of {last:,} (others with --slots A:B)")
        if self.devices < devices:
            parts.append(f"devices 1–{self.devices} of {devices:,}")
        return ["shown: " + ", ".join(parts)] if parts else []


def compose(timeline: Timeline, window: Window) -> Picture:
    """The picture of a window of slots; of very many devices, the first."""
    devices = min(timeline.scenario.devices, MOST_DEVICES)
    every = activities(timeline)
    return Picture(timeline, window, devices, every.select(every.device <= devices).overlapping(window))
