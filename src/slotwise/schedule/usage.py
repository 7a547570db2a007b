"""How many slots each device computes, sends, receives and idles: what energy and air time come from."""

from __future__ import annotations

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
    done, last, devices = trainings(timeline), timeline.last_slot, timeline.scenario.devices
    computed = np.minimum(np.minimum(done.ready, done.departure), last) - done.start
    computing = _per_device(done.device, np.maximum(computed, 0), devices)
    receiving = _per_device(done.device, np.minimum(done.start, done.departure) - done.arrival, devices)
    sending = _per_device(timeline.device, timeline.end - timeline.start, devices) + _lost(timeline)
    idle = last - _away(timeline) - computing - receiving - sending
    return Usage(computing, sending, receiving, idle)


def _lost(timeline: Timeline) -> Column:
    """Slots of sending in vain, until the end or until the device leaves."""
    _, device, _, start, end = timeline.lost.T
    sent = np.minimum(end, departures(timeline.fleet, device, start)) - start
    return _per_device(device, sent, timeline.scenario.devices)


def _away(timeline: Timeline) -> Column:
    last, absences = timeline.last_slot, timeline.fleet.absences if timeline.fleet else ()
    slots = [
        max(0, (last if returns is None else min(returns, last)) - leaves) for _, leaves, returns in absences
    ]
    device = np.array([absence.device for absence in absences], dtype=np.int64)
    return _per_device(device, np.array(slots, dtype=np.int64), timeline.scenario.devices)


def _per_device(device: Column, slots: Column, devices: int) -> Column:
    total = np.zeros(devices, dtype=np.int64)
    np.add.at(total, device - 1, slots)
    return total
