"""How many slots each device computes, sends, receives and idles: what energy and air time come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from slotwise.schedule.timeline import Column, Timeline
from slotwise.schedule.trainings import departures, trainings


class TotalUsage(NamedTuple):
    """Slots of all devices together."""

    computing: int
    sending: int
    receiving: int
    idle: int


class Usage(NamedTuple):
    """Slots of each device until the last round ends; device n is entry n−1. Together, those it is there.

    Attributes:
        computing: local training, also such as comes to nothing because the device leaves.
        sending: air time, lost uplinks included; of one that the device leaves in, the slots before.
        receiving: broadcasts of models meant for it.
        idle: there, and waiting for the channel or for a model.
    """

    computing: Column
    sending: Column
    receiving: Column
    idle: Column

    @property
    def total(self) -> TotalUsage:
        """Summed over the devices."""
        return TotalUsage(*(int(slots.sum()) for slots in self))


def usage(timeline: Timeline) -> Usage:
    """What each device spends its slots on."""
    devices = timeline.scenario.devices
    computing, sending, receiving, away = (_per_device(spans, devices) for spans in _spans(timeline))
    idle = timeline.last_slot - away - computing - sending - receiving
    return Usage(computing, sending, receiving, idle)


def usage_until(timeline: Timeline, slots: Sequence[int]) -> Usage:
    """What all devices together have spent when each of ``slots`` begins, up to the end of the last round.

    Entry i is for slots[i], not for a device.
    """
    places = np.array(slots, dtype=np.int64)
    computing, sending, receiving, away = (
        _until(spans, timeline.last_slot)[places] for spans in _spans(timeline)
    )
    idle = timeline.scenario.devices * places - away - computing - sending - receiving
    return Usage(computing, sending, receiving, idle)


class _Spans(NamedTuple):
    """Half-open spans of slots before the end of the last round, each of one device."""

    device: Column
    start: Column
    end: Column


def _spans(timeline: Timeline) -> Iterator[_Spans]:
    """Of computing, sending, receiving and being away; who leaves breaks off what it was at."""
    done, last = trainings(timeline), timeline.last_slot
    start = np.minimum(done.start, last)
    yield _Spans(done.device, start, np.clip(np.minimum(done.ready, done.departure), start, last))
    _, device, _, begun, end = timeline.lost.T
    lost = _Spans(device, begun, np.minimum(end, departures(timeline.fleet, device, begun)))
    sent = _Spans(timeline.device, timeline.start, timeline.end)
    yield _Spans(*(np.concatenate(columns) for columns in zip(sent, lost, strict=True)))
    yield _Spans(done.device, done.arrival, np.minimum(done.start, done.departure))
    yield _away(timeline)


def _away(timeline: Timeline) -> _Spans:
    last, absences = timeline.last_slot, timeline.fleet.absences if timeline.fleet else ()
    rows = [
        (device, min(leaves, last), last if returns is None else min(returns, last))
        for device, leaves, returns in absences
    ]
    return _Spans(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)


def _per_device(spans: _Spans, devices: int) -> Column:
    total = np.zeros(devices, dtype=np.int64)
    np.add.at(total, spans.device - 1, spans.end - spans.start)
    return total


def _until(spans: _Spans, last: int) -> Column:
    """For t = 0, …, last: the slots before t that the spans have together."""
    began, ended = (np.bincount(places, minlength=last + 1) for places in (spans.start, spans.end))
    busy = np.cumsum(began - ended)[:-1]
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(busy)])
