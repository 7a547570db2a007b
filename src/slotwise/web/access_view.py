"""The access schemes in the explorer: figures of each, and its first uplinks side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slotwise.base.errors import InputError
from slotwise.radio import ACCESS, ACCESSES, RateAdaptive
from slotwise.report.gantt.chart import Window, transfers
from slotwise.runs.config import RunConfig
from slotwise.schedule import Timeline
from slotwise.setting.access_plan import mean_uplink_slots
from slotwise.web.controls import effective
from slotwise.web.exploration import Timelines, placed

SHOWN_ROUNDS = 2  # of the scheme in which they take longest
MOST_SLOTS = 600  # of a picture
MOST_TRANSFERS = 2_000


def access_view(timelines: Timelines, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schemes of the schedule that is shown; None unless the radio link is rate-adaptive.

    A scheme that does not go with the other options, or in which no round ends, has no figures.
    """
    config, *_ = effective(options)
    if not isinstance(config.link, RateAdaptive):
        return None
    schemes = {name: _timeline(timelines, {**options, "access": name}) for name in ACCESSES}
    known = [timeline for timeline in schemes.values() if timeline is not None]
    if not known:
        return None
    window = _window(known)
    seconds = config.link.slot_ms / 1000
    rows = {name: None if line is None else _figures(line, window, seconds) for name, line in schemes.items()}
    return {"slots": list(window), "schemes": rows, "chosen": _name_of(config)}


def _name_of(config: RunConfig) -> str:
    return ACCESS.name_of(config.access) or ""


def _timeline(timelines: Timelines, options: Mapping[str, Any]) -> Timeline | None:
    try:
        return timelines.of(effective(options)[0])
    except InputError:
        return None


def _window(timelines: list[Timeline]) -> Window:
    """Return the slots from the first uplink of any scheme until the last one has had a few rounds."""
    first = min(map(_first_slot, timelines))
    ends = [timeline.broadcast_end[:SHOWN_ROUNDS][-1] for timeline in timelines]
    return Window(first, min(int(max(ends)), first + MOST_SLOTS))


def _first_slot(timeline: Timeline) -> int:
    """Return the slot of the first uplink, or of the first broadcast if there is none."""
    starts = np.concatenate([timeline.start, timeline.lost[:, 3]])
    return int(starts.min(initial=timeline.broadcast_start[0]))


def _figures(timeline: Timeline, window: Window, slot_seconds: float) -> dict[str, Any]:
    """Return the figures of a scheme, and its transfers in the window as columns."""
    totals = timeline.totals()
    carried = transfers(timeline, Window(window.first, min(window.end, timeline.last_slot)))[:MOST_TRANSFERS]
    columns = {
        name: [int(getattr(one, name)) for one in carried] for name in ("device", "kind", "start", "end")
    }
    return {
        "rounds": totals.rounds,
        "round_seconds": totals.slots * slot_seconds / totals.rounds,
        "uplink_slots": mean_uplink_slots(timeline),
        "lost": totals.lost,
        "mean_staleness": totals.mean_staleness,
        "channel": columns | placed(timeline, carried),
    }
