"""The link budget: from transmit power, path loss and noise to a mean signal-to-noise ratio."""

from __future__ import annotations

from math import log10

import numpy as np

from slotwise.fleet.chances import Floats, units
from slotwise.radio.draws import SHADOWING, device_states, normals


def noise_dbm(bandwidth_hz: float, density_dbm_hz: float, figure_db: float) -> float:
    """Return the noise power N_0 + 10 log10(W) + F in dBm (Rappaport, 2002, appendix B)."""
    return density_dbm_hz + 10 * log10(bandwidth_hz) + figure_db


def shadowing_db(devices: int, deviation_db: float, seed: int) -> Floats:
    """Return log-normal shadowing: a normal loss in dB with mean 0, drawn once for each device.

    See Rappaport, Wireless Communications, 2002, eq. 4.69.
    """
    if not deviation_db:
        return np.zeros(devices)
    return deviation_db * normals(units(device_states(seed, SHADOWING, devices)))


def linear(decibels: Floats) -> Floats:
    """Return ratios from decibels."""
    return np.asarray(10.0 ** (decibels / 10), dtype=np.float64)


def decibels(ratio: Floats) -> Floats:
    """Return decibels from ratios; −inf for 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(10 * np.log10(ratio), dtype=np.float64)
