"""Which devices a chart of characters has rows for.

Few devices have a row each. With many, a TDMA group is one row where the groups stay together (equal devices,
S divides N and nobody is drawn at random): its members receive and compute at the same time and send one
after another, so the row loses nothing but who of them sends, and that the channel's row tells. Where there
are still too many, the rows that send in the window are the ones to see; the gaps between them say what they
leave out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from slotwise.report.caption import amount
from slotwise.report.channel import lost_uplinks
from slotwise.report.window import Window
from slotwise.schedule.timeline import Timeline

MOST_ROWS = 14
ROWS_OF_MANY = 11


class Row(NamedTuple):
    """The devices first..last, which share a row."""

    first: int
    last: int

    @property
    def label(self) -> str:
        """What stands before the row."""
        if self.first == self.last:
            return f"device {self.first}"
        return f"devices {self.first}–{self.last}"


class Gap(NamedTuple):
    """The devices first..last, which have no row."""

    first: int
    last: int

    @property
    def label(self) -> str:
        """What stands in place of their rows."""
        devices = amount(self.last - self.first + 1, "more device")
        return f"… {devices} ({self.first}–{self.last})"


def choose_rows(timeline: Timeline, window: Window) -> list[Row | Gap]:
    """The rows to show, from device 1 to N, every device in a row or in a gap."""
    devices = timeline.scenario.devices
    size = timeline.scenario.group_size if devices > MOST_ROWS and _groups_stay(timeline) else 1
    count = devices // size
    shown = range(count) if count <= MOST_ROWS else sorted(_most_telling(timeline, window, size, count))
    return list(_with_gaps([Row(row * size + 1, (row + 1) * size) for row in shown]))


def _groups_stay(timeline: Timeline) -> bool:
    """Whether every round was sent by devices 1..S, or S+1..2S, and so on."""
    if timeline.fleet is not None or not timeline.scenario.divides:
        return False
    groups = (timeline.device - 1) // timeline.scenario.group_size
    return bool(np.all(groups == groups[timeline.round_offsets[timeline.round]]))


def _most_telling(timeline: Timeline, window: Window, size: int, count: int) -> set[int]:
    """The last row, the first ones to send in the window, and the first of all while there is room.

    A row that alone would be left out between two others is shown: its gap would take as much room.
    """
    sends = (timeline.start < window.end) & (timeline.end > window.first)
    vain = [uplink.device for uplink in lost_uplinks(timeline, window)]
    senders = ((np.append(timeline.device[sends], vain).astype(int) - 1) // size).tolist()
    wanted = dict.fromkeys([count - 1, *senders, *range(count)])
    shown = set(list(wanted)[:ROWS_OF_MANY])
    return shown | {row + 1 for row in shown if row + 2 in shown} | ({0} if 1 in shown else set())


def _with_gaps(rows: list[Row]) -> Iterator[Row | Gap]:
    following = 1
    for row in rows:
        if row.first > following:
            yield Gap(following, row.first - 1)
        yield row
        following = row.last + 1
