"""What became of every model that a device received, worked out from a timeline's columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slotwise.fleet import Fleet
from slotwise.schedule.timeline import Column, Timeline

NONE = -1  # no uplink
NEVER = np.iinfo(np.int64).max  # a slot that does not come


class Trainings(NamedTuple):
    """One row per model received, sorted by device and version.

    Attributes:
        device: who received it.
        version: which model.
        arrival: the first slot of its broadcast; 0 for w_0.
        start: the slot in which computing begins.
        ready: the slot in which it is finished, unless the device leaves before.
        departure: the slot in which the device leaves next; NEVER if it stays.
        uplink: the timeline's row of the uplink that brought the update; NONE if none did.
    """

    device: Column
    version: Column
    arrival: Column
    start: Column
    ready: Column
    departure: Column
    uplink: Column


def trainings(timeline: Timeline) -> Trainings:
    """All trainings of all devices; those of the last round's receivers begin where the timeline ends."""
    counts = np.diff(timeline.receiver_offsets)
    version = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    order = np.lexsort((version, timeline.receiver))
    device, version = timeline.receiver[order].astype(np.int64), version[order]
    arrival = np.concatenate([np.zeros(1, dtype=np.int64), timeline.broadcast_start])[version]
    start = timeline.received_at(version)
    return Trainings(
        device,
        version,
        arrival,
        start,
        start + _slots(timeline, device),
        departures(timeline.fleet, device, arrival),
        _uplinks(timeline, device, version),
    )


def departures(fleet: Fleet | None, device: Column, slot: Column) -> Column:
    """For each row, when the device leaves next after ``slot``."""
    found = np.full(len(device), NEVER, dtype=np.int64)
    for n, absences in fleet.absences_of.items() if fleet else ():
        leaves = np.array([*(absence.leaves for absence in absences), NEVER])
        mine = device == n
        found[mine] = leaves[np.searchsorted(leaves, slot[mine], side="right")]
    return found


def _slots(timeline: Timeline, device: Column) -> Column:
    """How long each training takes; ``device`` is sorted, so a device's trainings are numbered in order."""
    fleet = timeline.fleet
    if fleet is None:
        return np.full(len(device), timeline.scenario.compute_slots, dtype=np.int64)
    if not fleet.jitter:
        return np.array(fleet.compute_slots, dtype=np.int64)[device - 1]
    numbers = np.arange(len(device)) - np.searchsorted(device, device)
    rows = zip(device.tolist(), numbers.tolist(), strict=True)
    return np.array([fleet.slots_of_training(n, training) for n, training in rows], dtype=np.int64)


def _uplinks(timeline: Timeline, device: Column, version: Column) -> Column:
    """The row of each training's uplink: a device trains on a model once."""
    if not len(timeline):
        return np.full(len(device), NONE)
    models = timeline.models
    sent = timeline.device.astype(np.int64) * models + timeline.version
    wanted = device * models + version
    order = np.argsort(sent)
    row = order[np.minimum(np.searchsorted(sent, wanted, sorter=order), len(sent) - 1)]
    return np.where(sent[row] == wanted, row, NONE)
