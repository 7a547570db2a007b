"""What every device does in every slot: the geometry that all Gantt charts share.

A device's life is a chain of trainings. Each one is: receive a model, compute, wait for the channel, send the
update, wait for the next model. A Timeline holds the ends of these links (receptions and uplinks); here they
become half-open intervals that cover [0, last_slot) of each device without overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.report.window import Window
from slotwise.schedule.timeline import Column, Timeline

BEYOND = -1  # a round or a model that comes only after the last round of the timeline


class Activity(IntEnum):
    """The five things a half-duplex device can be doing."""

    WAITING_FOR_MODEL = 0
    WAITING_FOR_CHANNEL = 1
    COMPUTING = 2
    RECEIVING = 3
    SENDING = 4


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
        round: the round of the uplink (of the broadcast, for a reception); BEYOND if there is none.
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


def activities(timeline: Timeline) -> Activities:
    """What each device does from slot 0 to the end of the last round."""
    trainings = _trainings(timeline)
    parts = [
        *_links(timeline, trainings),
        _before_first_model(timeline, trainings),
    ]
    table = np.concatenate(parts, axis=1)
    table[3] = np.minimum(table[3], timeline.last_slot)
    table = table[:, table[2] < table[3]]
    return Activities(*table[:, np.lexsort((table[2], table[0]))])


class _Trainings(NamedTuple):
    """One row per model received, sorted by device and version; slots beyond the end are the last slot."""

    device: Column
    version: Column
    arrival: Column  # the first slot of the broadcast
    start: Column
    uplink_start: Column
    uplink_end: Column
    round: Column


def _trainings(timeline: Timeline) -> _Trainings:
    counts = np.diff(timeline.receiver_offsets)
    version = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    device = timeline.receiver.astype(np.int64)
    order = np.lexsort((version, device))
    device, version = device[order], version[order]
    arrivals = np.concatenate([np.zeros(1, dtype=np.int64), timeline.broadcast_start])
    return _Trainings(
        device,
        version,
        arrivals[version],
        timeline.received_at(version),
        *_uplinks(timeline, device, version),
    )


def _uplinks(timeline: Timeline, device: Column, version: Column) -> tuple[Column, Column, Column]:
    """Start, end and round of the uplink of each training: a device trains on a model once."""
    models = timeline.models
    sent = timeline.device.astype(np.int64) * models + timeline.version
    order = np.argsort(sent)
    wanted = device * models + version
    row = order[np.minimum(np.searchsorted(sent, wanted, sorter=order), len(sent) - 1)]
    found = sent[row] == wanted
    last = timeline.last_slot
    return (
        np.where(found, timeline.start[row], last),
        np.where(found, timeline.end[row], last),
        np.where(found, timeline.round[row], BEYOND),
    )


def _links(timeline: Timeline, trainings: _Trainings) -> Iterator[Column]:
    """The five links of every training, as tables of six rows; links of no length among them."""
    device, version, arrival, start, uplink_start, uplink_end, sent_in = trainings
    ready = np.minimum(start + timeline.scenario.compute_slots, uplink_start)
    again = np.append(device[1:] == device[:-1], False)
    next_arrival = np.where(again, np.roll(arrival, -1), timeline.last_slot)
    next_version = np.where(again, np.roll(version, -1), BEYOND)
    yield _table(device, Activity.RECEIVING, arrival, start, version, version - 1)
    yield _table(device, Activity.COMPUTING, start, ready, version, sent_in)
    yield _table(device, Activity.WAITING_FOR_CHANNEL, ready, uplink_start, version, sent_in)
    yield _table(device, Activity.SENDING, uplink_start, uplink_end, version, sent_in)
    yield _table(device, Activity.WAITING_FOR_MODEL, uplink_end, next_arrival, next_version, BEYOND)


def _before_first_model(timeline: Timeline, trainings: _Trainings) -> Column:
    """What devices without w_0 wait for; those that never receive a model wait to the end."""
    device = np.arange(1, timeline.scenario.devices + 1)
    arrival = np.full(len(device), timeline.last_slot)
    version = np.full(len(device), BEYOND)
    known, first = np.unique(trainings.device, return_index=True)
    arrival[known - 1] = trainings.arrival[first]
    version[known - 1] = trainings.version[first]
    return _table(device, Activity.WAITING_FOR_MODEL, 0, arrival, version, BEYOND)


def _table(device: Column, *others: Column | int) -> Column:
    return np.stack([np.broadcast_to(part, device.shape) for part in (device, *others)])
