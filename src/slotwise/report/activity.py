"""What every device does in every slot: the geometry that all Gantt charts share.

A device's life is a chain of trainings. Each one is: receive a model, compute, wait for the channel, send the
update (again, where it was lost), wait for the next model. A Timeline holds receptions, uplinks, losses and
absences; what is between them is waiting. Together they become half-open intervals that cover [0, last_slot)
of each device without overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.report.window import Window
from slotwise.schedule.timeline import NEVER, NONE, Column, Timeline, Trainings, departures

BEYOND = -1  # a round or a model that comes only after the last round of the timeline
UNSENT = -2  # the round of an update that its device took with it when it left


class Activity(IntEnum):
    """What a half-duplex device can be doing; what is lost was sent in vain."""

    AWAY = -1
    WAITING_FOR_MODEL = 0
    WAITING_FOR_CHANNEL = 1
    COMPUTING = 2
    RECEIVING = 3
    SENDING = 4
    LOST = 5


class Interval(NamedTuple):
    """One row of `Activities`."""

    device: int
    kind: Activity
    start: int
    end: int
    version: int
    round: int


@dataclass(frozen=True, eq=False)
class Activities:
    """Intervals [start, end) of the devices, sorted by device and slot.

    Attributes:
        device: whose interval it is, from 1.
        kind: an `Activity`.
        start: its first slot.
        end: the slot after its last.
        version: the model computed on, sent for, received or waited for; BEYOND if it never comes.
        round: the round of the uplink (of the broadcast, for a reception); BEYOND or UNSENT if there is none.
    """

    device: Column
    kind: Column
    start: Column
    end: Column
    version: Column
    round: Column

    def __len__(self) -> int:
        return len(self.device)

    def __iter__(self) -> Iterator[Interval]:
        columns = [getattr(self, f.name).tolist() for f in fields(self)]
        for device, kind, *rest in zip(*columns, strict=True):
            yield Interval(device, Activity(kind), *rest)

    def select(self, wanted: NDArray[np.bool_]) -> Activities:
        """The rows of a mask."""
        return Activities(*(getattr(self, f.name)[wanted] for f in fields(self)))

    def overlapping(self, window: Window) -> Activities:
        """The rows with a slot in the window, at their full length."""
        return self.select((self.start < window.end) & (self.end > window.first))


def kinds_of(timeline: Timeline) -> list[Activity]:
    """The activities to explain: losses and absences only where there are some."""
    away = timeline.fleet is not None and any(a.leaves < timeline.last_slot for a in timeline.fleet.absences)
    rare = {Activity.LOST: len(timeline.lost) > 0, Activity.AWAY: away}
    return [kind for kind in Activity if rare.get(kind, True)]


def activities(timeline: Timeline) -> Activities:
    """What each device does from slot 0 to the end of the last round."""
    known = np.concatenate([*_known(timeline, Trainings.of(timeline))], axis=1)
    known[3] = np.minimum(known[3], timeline.last_slot)
    known = _sorted(known[:, known[2] < known[3]])
    return Activities(*_sorted(np.concatenate([known, _gaps(timeline, known)], axis=1)))


def _known(timeline: Timeline, done: Trainings) -> Iterator[Column]:
    """All that is not waiting, as tables of six rows; intervals of no length among them."""
    device, version, arrival, start, ready, departure, row = done
    yield _table(device, Activity.RECEIVING, arrival, np.minimum(start, departure), version, version - 1)
    sent_in = np.where(departure < timeline.last_slot, UNSENT, BEYOND)
    sent_in[row != NONE] = timeline.round[row[row != NONE]]
    yield _table(device, Activity.COMPUTING, start, np.minimum(ready, departure), version, sent_in)
    sent = (timeline.device, timeline.start, timeline.end, timeline.version, timeline.round)
    yield _table(sent[0], Activity.SENDING, *sent[1:])
    k, device, version, start, end = timeline.lost.T
    end = np.minimum(end, departures(timeline.fleet, device, start))
    yield _table(device, Activity.LOST, start, end, version, k)
    absences = timeline.fleet.absences if timeline.fleet else ()
    slots = [(n, leaves, NEVER if returns is None else returns) for n, leaves, returns in absences]
    device, leaves, returns = np.array(slots, dtype=np.int64).reshape(-1, 3).T
    yield _table(device, Activity.AWAY, leaves, returns, BEYOND, BEYOND)


def _gaps(timeline: Timeline, known: Column) -> Column:
    """The waiting between known intervals: with an update for the channel, or without one for a model."""
    everyone, last = np.arange(1, timeline.scenario.devices + 1), timeline.last_slot
    first = _table(everyone, Activity.AWAY, 0, 0, BEYOND, BEYOND)
    final = _table(everyone, Activity.WAITING_FOR_MODEL, last, last, BEYOND, BEYOND)
    chain = _sorted(np.concatenate([first, known, final], axis=1))
    before, after = chain[:, :-1], chain[:, 1:]
    gap = (before[0] == after[0]) & (before[3] < after[2])
    (device, kind, _, start, version, _), (_, following, end, _, next_version, sent_in) = (
        before[:, gap],
        after[:, gap],
    )
    ready = (kind == Activity.COMPUTING) | (kind == Activity.LOST)
    awaited = np.where(following == Activity.RECEIVING, next_version, BEYOND)
    sends = (following == Activity.SENDING) | (following == Activity.LOST)
    leaves = np.where(following == Activity.AWAY, UNSENT, BEYOND)
    return _table(
        device,
        np.where(ready, Activity.WAITING_FOR_CHANNEL, Activity.WAITING_FOR_MODEL),
        start,
        end,
        np.where(ready, version, awaited),
        np.where(ready, np.where(sends, sent_in, leaves), BEYOND),
    )


def _table(device: Column, *others: Column | int) -> Column:
    return np.stack([np.broadcast_to(part, device.shape) for part in (device, *others)]).astype(np.int64)


def _sorted(table: Column) -> Column:
    """By device and slot; those of no length keep their place among equals."""
    return table[:, np.lexsort((table[2], table[0]))]
