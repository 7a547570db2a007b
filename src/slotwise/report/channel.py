"""What the channel carries: uplinks, broadcasts and the rounds they make, within a window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from slotwise.report.window import Window
from slotwise.schedule.timeline import Column, Timeline


class Uplink(NamedTuple):
    """An update on its way to the server in the slots [start, end)."""

    start: int
    end: int
    device: int
    round: int
    version: int


class Broadcast(NamedTuple):
    """A model on its way to its receivers in the slots [start, end)."""

    start: int
    end: int
    version: int


def uplinks(timeline: Timeline, window: Window) -> Iterator[Uplink]:
    """The uplinks with a slot in the window, in the order of the channel."""
    rows = _overlapping(timeline.start, timeline.end, window)
    columns = (timeline.start, timeline.end, timeline.device, timeline.round, timeline.version)
    return (Uplink(*row) for row in zip(*(column[rows].tolist() for column in columns), strict=True))


def lost_uplinks(timeline: Timeline, window: Window) -> Iterator[Uplink]:
    """The uplinks in vain with a slot in the window."""
    lost = timeline.lost[_overlapping(timeline.lost[:, 3], timeline.lost[:, 4], window)]
    return (Uplink(start, end, device, k, version) for k, device, version, start, end in lost.tolist())


def shortest_uplink(timeline: Timeline) -> int:
    """The slots of the fastest device's uplink."""
    return min(timeline.fleet.link_slots) if timeline.fleet else timeline.scenario.link_slots


def broadcasts(timeline: Timeline, window: Window) -> Iterator[Broadcast]:
    """The broadcasts with a slot in the window."""
    rows = _overlapping(timeline.broadcast_start, timeline.broadcast_end, window)
    for k in range(rows.start, rows.stop):
        yield Broadcast(int(timeline.broadcast_start[k]), int(timeline.broadcast_end[k]), k + 1)


def rounds(timeline: Timeline, window: Window) -> range:
    """The rounds with a slot in the window."""
    rows = _overlapping(round_starts(timeline), timeline.broadcast_end, window)
    return range(rows.start, rows.stop)


def round_starts(timeline: Timeline) -> Column:
    """The slot at which each round begins: the end of the one before."""
    return np.concatenate([np.zeros(1, dtype=np.int64), timeline.broadcast_end[:-1]])


def _overlapping(start: Column, end: Column, window: Window) -> slice:
    first = np.searchsorted(end, window.first, side="right")
    return slice(int(first), int(np.searchsorted(start, window.end)))
