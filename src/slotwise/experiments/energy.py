"""Joules against time, for curves: what the devices have spent by each slot. Totals: `slotwise.energy`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.energy import Powers
from slotwise.schedule import Timeline
from slotwise.schedule.timeline import Column


class Intervals(NamedTuple):
    """Half-open intervals of slots, each of one device."""

    device: Column
    start: Column
    end: Column


def joules_at(timeline: Timeline, powers: Powers, slots: Sequence[int]) -> NDArray[np.float64]:
    """Joules that all devices together have spent when each of ``slots`` begins, up to the last round's end.

    A device that is away spends nothing, and what it leaves behind unfinished counts until then.
    """
    known = {"computing": _computing, "sending": _sending, "receiving": _receiving}
    places = list(slots)
    idle = timeline.scenario.devices * np.array(places, dtype=np.int64) - _slots_until(
        _away(timeline), timeline.last_slot
    ).take(places)
    spent = np.zeros(len(places))
    for name, intervals in known.items():
        taken = _slots_until(_while_there(timeline, intervals(timeline)), timeline.last_slot).take(places)
        spent += getattr(powers, name) * taken
        idle -= taken
    joules: NDArray[np.float64] = (spent + powers.idle * idle) * powers.slot_seconds
    return joules


def _receptions(timeline: Timeline) -> tuple[Column, Column]:
    """Device and model of every reception, in order of time."""
    counts = np.diff(timeline.receiver_offsets)
    return timeline.receiver.astype(np.int64), np.repeat(np.arange(len(counts)), counts)


def _computing(timeline: Timeline) -> Intervals:
    device, version = _receptions(timeline)
    start = timeline.received_at(version)
    fleet = timeline.fleet
    if fleet is None:
        return Intervals(device, start, start + timeline.scenario.compute_slots)
    trainings: Counter[int] = Counter()  # how often each has received a model before
    slots = []
    for receiver in device.tolist():
        slots.append(fleet.slots_of_training(receiver, trainings[receiver]))
        trainings[receiver] += 1
    return Intervals(device, start, start + np.array(slots, dtype=np.int64))


def _sending(timeline: Timeline) -> Intervals:
    _, device, _, start, end = timeline.lost.T
    sent = (timeline.device, timeline.start, timeline.end)
    both = zip(sent, (device, start, end), strict=True)
    return Intervals(*(np.concatenate(columns) for columns in both))


def _receiving(timeline: Timeline) -> Intervals:
    device, version = _receptions(timeline)
    later = version > 0  # w_0 is there from the start
    broadcast = version[later] - 1
    return Intervals(device[later], timeline.broadcast_start[broadcast], timeline.broadcast_end[broadcast])


def _away(timeline: Timeline) -> Intervals:
    last = timeline.last_slot
    rows = [
        (device, min(leaves, last), last if returns is None else min(returns, last))
        for device, leaves, returns in (timeline.fleet.absences if timeline.fleet else ())
    ]
    return Intervals(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)


def _while_there(timeline: Timeline, intervals: Intervals) -> Intervals:
    """Cut at the end of the last round, and where the device goes away."""
    device, start = intervals.device, np.minimum(intervals.start, timeline.last_slot)
    end = np.minimum(intervals.end, timeline.last_slot)
    for absent, leaves, returns in zip(*_away(timeline), strict=True):
        broken = (device == absent) & (start < returns) & (end > leaves)
        end = np.where(broken, np.maximum(start, leaves), end)
    return Intervals(device, start, end)


def _slots_until(intervals: Intervals, last: int) -> Column:
    """For t = 0, …, last: the slots before t that the intervals have together."""
    began, ended = (np.bincount(places, minlength=last + 1) for places in intervals[1:])
    busy = np.cumsum(began - ended)[:-1]
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(busy)])
