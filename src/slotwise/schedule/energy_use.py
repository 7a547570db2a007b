"""EnergyUse: what devices with batteries pay in one run, and when they can."""

from __future__ import annotations

from slotwise.base.errors import InputError
from slotwise.fleet import Fleet
from slotwise.fleet.battery import NANOJOULES, Ledger, nanojoules_at
from slotwise.schedule.link import Link, Transmission


class EnergyUse:
    """The batteries of a fleet in the course of one run: when they can pay, and what they pay.

    A device starts a training when its battery holds the energy of the training and of one uplink of the
    slots that the link plans with. It starts an uplink only with the energy of that one; if the uplink turns
    out to take more slots than the battery can pay for, it is broken off and lost.
    """

    def __init__(self, fleet: Fleet, link: Link) -> None:
        if fleet.batteries is None:
            raise ValueError("the fleet has no batteries")
        batteries, everyone = fleet.batteries, range(1, fleet.devices + 1)
        self._fleet, self.ledger = fleet, Ledger(batteries, fleet.devices)
        self._computing = [batteries.nanojoules("computing", n) for n in everyone]
        self._sending = [batteries.nanojoules("sending", n) for n in everyone]
        planned = link.planned_slots
        self._uplink = [self._sending[n - 1] * planned[n - 1] for n in everyone]
        # A battery that cannot hold the longest training that jitter permits would block its device for good.
        longest = fleet.without_faults().compute_slots
        for n in everyone:
            needed = self._computing[n - 1] * longest[n - 1] + self._uplink[n - 1]
            capacity = batteries.nanojoules("capacity", n)
            if needed > capacity:
                allowed = f"at least {needed / NANOJOULES:g} J, one training and uplink of device {n}"
                raise InputError("battery_joules", capacity / NANOJOULES, allowed)

    def train(self, device: int, since: int, slot: int, slots: int) -> int | None:
        """Return the slot in which a training can start, after paying for it; None if never.

        The model is on the way since ``since`` and there in ``slot``. A device that leaves before it starts
        pays nothing, and one that leaves in the middle only for what it computed.
        """
        # It leaves while it receives, or in the slot in which it would start, and never computes.
        if self._fleet.leaves_within(device, since, slot + 1):
            return slot
        each = self._computing[device - 1]
        begins = self.ledger.first_slot(device, each * slots + self._uplink[device - 1], slot)
        if begins is not None and not self._fleet.leaves_within(device, slot, begins + 1):
            self._pay(device, each, begins, slots)
        return begins

    def uplink_slot(self, device: int, slot: int) -> int | None:
        """Return the first slot from ``slot`` on in which the device can pay for an uplink; None if never."""
        return self.ledger.first_slot(device, self._uplink[device - 1], slot)

    def send(self, device: int, slot: int, transmission: Transmission) -> Transmission:
        """Return what becomes of an uplink that starts in ``slot``, after paying for it."""
        slots, lost, power = transmission
        each = nanojoules_at(self._sending[device - 1], power)
        if each:
            # At least the planned slots: the training, or the wait after a loss, has left their energy.
            # The harvest during the uplink does not count, as all slots are paid for at its start.
            affordable = self.ledger.charge_at(device, slot) // each
            slots, lost = min(slots, affordable), lost or slots > affordable
        self._pay(device, each, slot, slots)
        return Transmission(slots, lost, power)

    def _pay(self, device: int, each: int, slot: int, slots: int) -> None:
        """Pay for the slots until the end of an activity or the device's departure."""
        end = self._fleet.departure(device, slot, slot + slots)
        self.ledger.pay(device, each * (end - slot), slot)
