"""BatteryBalance: what the batteries of a timeline's devices harvested, lost, spent and hold at the end."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slotwise.base.errors import InputError
from slotwise.fleet.battery import NANOJOULES, Ledger, nanojoules_at
from slotwise.schedule.timeline import Timeline, Trainings, departures


class BatteryBalance(NamedTuple):
    """Joules of each device until the last round ends; device n is entry n−1.

    To the nanojoule, initial + harvested = computing + sending + spilled + left. A training or an uplink is
    paid for when it starts, up to a departure that breaks it off.
    """

    initial: Any
    harvested: Any
    computing: Any
    sending: Any
    spilled: Any  # harvested into a full battery
    left: Any

    @classmethod
    def of(cls, timeline: Timeline) -> BatteryBalance:
        """Return the balance of a timeline; an InputError if its devices have no batteries."""
        return cls(*(np.array(column) / NANOJOULES for column in nanojoules(timeline)))


def nanojoules(timeline: Timeline) -> tuple[list[int], ...]:
    """Return the columns of a `BatteryBalance` in whole nanojoules."""
    fleet, last = timeline.fleet, timeline.last_slot
    if fleet.batteries is None:
        raise InputError("fleet", "without batteries", "a fleet with batteries")
    computing, sending = ([0] * fleet.devices for _ in range(2))
    ledger, batteries = Ledger(fleet.batteries, fleet.devices), fleet.batteries
    # The payments are made once more from the timeline: this also checks that each could be paid.
    for slot, device, slots, trains in _paid(timeline):
        kind, account = ("computing", computing) if trains else ("sending", sending)
        each = batteries.nanojoules(kind, device)
        amount = slots * (each if trains else nanojoules_at(each, timeline.powers.get((device, slot), 1.0)))
        ledger.pay(device, amount, slot)
        account[device - 1] += amount
    # The harvest since the last payment is only counted when the charge is asked for.
    for device in range(1, fleet.devices + 1):
        ledger.charge_at(device, last)
    return ledger.initial, ledger.harvested, computing, sending, ledger.spilled, ledger.charge


def _paid(timeline: Timeline) -> list[tuple[int, int, int, bool]]:
    """Return (slot, device, slots, training or not) of everything that is paid for, in order of time."""
    done, last = Trainings.of(timeline), timeline.last_slot
    # What starts after the last round is no part of the timeline, though the run has paid for it.
    begun = (done.start < last) & (done.start < done.departure)
    until = np.minimum(done.ready, done.departure)
    columns = (done.start, done.device, until - done.start)
    paid = [(*row, True) for row in zip(*(column[begun].tolist() for column in columns), strict=True)]
    _, device, _, start, end = timeline.lost.T
    until = np.minimum(end, departures(timeline.fleet, device, start))
    sent = ((timeline.start, timeline.device, timeline.end - timeline.start), (start, device, until - start))
    for table in sent:
        paid += [(*row, False) for row in zip(*(column.tolist() for column in table), strict=True)]
    # A device starts one thing in a slot, so the order among equal slots does not matter.
    return sorted(paid)
