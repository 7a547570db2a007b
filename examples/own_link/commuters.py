"""Commuters: a link of one's own, over which half of the devices are out of reach from time to time."""

from collections.abc import Sequence

import numpy as np

from slotwise.radio import Transmission
from slotwise.scenario import Scenario


class Commuters:
    """Devices with even numbers are out of reach in the second half of every period."""

    def __init__(self, scenario: Scenario, period: int) -> None:
        self.planned_slots = (scenario.link_slots,) * scenario.devices
        self.planned_broadcast_slots = scenario.link_slots
        self.even, self.period = np.arange(1, scenario.devices + 1) % 2 == 0, period

    def uplink(self, device: int, slot: int, attempt: int) -> Transmission:  # noqa: ARG002
        """Take the slots that plans assume, and lose what a device out of reach sends."""
        return Transmission(self.planned_slots[device - 1], lost=bool(self.snr_db(slot)[device - 1] < 0))

    def broadcast(self, receivers: Sequence[int], slot: int) -> int:  # noqa: ARG002
        """Take the same slots every time."""
        return self.planned_broadcast_slots

    def snr_db(self, slot: int) -> np.ndarray:
        """Return 10 dB for devices within reach, and -10 dB for the others."""
        away = 2 * (slot % self.period) >= self.period
        return np.where(self.even & away, -10.0, 10.0)


def commuters(scenario: Scenario, seed: int, *, period: int = 20) -> Commuters:  # noqa: ARG001
    """Return the link of a scenario's devices; nothing is random here, so the seed is not used."""
    return Commuters(scenario, period)
