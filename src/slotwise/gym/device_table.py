"""The observation of agents: a table with a row for each device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError
from slotwise.schedule import Episode

COLUMNS = 4
DECIBELS = 50.0  # an SNR of so many dB, and of more, is 1

Table = NDArray[np.float32]


class DeviceTable:
    """Follows an episode. The columns are numbers from −1 to 1:

    - 1 if the device may be chosen now, else 0;
    - its age in relation to the mean age of all devices, a/(a + mean): 0.5 is the mean;
    - the SNR of its uplink, in units of 50 dB and cut off at ±1; 0 over a link without SNR;
    - what its battery holds, as a share; 1 without batteries.
    """

    def __init__(self, episode: Episode) -> None:
        self._episode, devices = episode, episode.scenario.devices
        self._arrived = np.zeros(devices, dtype=np.int64)
        self._since = np.zeros(devices)
        batteries = episode.fleet.batteries
        self._capacity = None if batteries is None else np.broadcast_to(batteries.capacity, devices)
        self.ages = np.zeros(devices)
        """Slots since the first decision at which each device's last update had arrived, or since slot 0."""
        self.mean_age = 0.0

    def update(self, slot: int) -> None:
        """Note what has happened until a slot."""
        arrived = self._episode.arrived
        self._since[arrived > self._arrived] = slot
        self._arrived, self.ages = arrived, slot - self._since
        self.mean_age = float(np.add.reduce(self.ages)) / len(arrived)

    def rows(self, mask: NDArray[np.int8]) -> Table:
        """Return the table; ``mask`` is 1 for the devices that may be chosen."""
        columns = np.empty((COLUMNS, len(mask)), dtype=np.float32)
        columns[0] = mask
        columns[1] = self.ages / (self.ages + (self.mean_age + 1e-9))
        snr = self._episode.snr_db * (1 / DECIBELS)
        columns[2] = np.minimum(np.maximum(snr, -1.0, out=snr), 1.0, out=snr)  # faster than clip
        columns[3] = 1 if self._capacity is None else self._episode.joules / self._capacity
        return columns.T


def place_of(action: Any, places: int) -> int:
    """Return an action that is one of so many places, from 0.

    Raises:
        InputError: it is none of them.
    """
    given = np.asarray(action)
    if given.size != 1 or given.dtype.kind not in "iu" or not 0 <= given.item() < places:
        raise InputError("action", action, f"a whole number from 0 to {places - 1}")
    return int(given.item())


def mask_of(allowed: Sequence[int], size: int) -> NDArray[np.int8]:
    """Return 1 for each number from 1 to ``size`` that is allowed, and 0 for all others."""
    mask = np.zeros(size + 1, dtype=np.int8)
    mask[allowed] = 1
    return mask[1:]
