"""Path loss in dB as a function of distance: log-distance, free space, and 3GPP's urban cells.

The 3GPP formulas are those of TR 38.901 (V16.1.0), tables 7.4.1-1 (path loss) and 7.4.2-1 (probability of
line of sight), for outdoor devices. Distances are horizontal and in metres, frequencies in GHz.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log10, pi
from typing import NamedTuple

import numpy as np

from slotwise.fleet.chances import Floats

SPEED_OF_LIGHT = 299_792_458.0  # m/s
DEVICE_HEIGHT = 1.5  # m, h_UT
NEAREST, FARTHEST = 10.0, 5_000.0  # m, the range of the formulas of TR 38.901


class UrbanCell(NamedTuple):
    """Constants of one environment in table 7.4.1-1 of TR 38.901."""

    server_height: float  # m, h_BS
    los_intercept: float  # dB, line of sight up to the breakpoint
    los_slope: float  # dB a decade
    breakpoint_factor: float  # of log10(d'_BP² + (h_BS − h_UT)²) beyond it
    nlos_intercept: float  # dB, without line of sight
    nlos_slope: float
    nlos_frequency: float  # dB a decade of frequency
    nlos_height: float  # dB a metre of height above 1.5 m
    los_decay: float  # m, of the probability of line of sight


UMI = UrbanCell(10.0, 32.4, 21.0, 9.5, 22.4, 35.3, 21.3, 0.3, 36.0)  # street canyon
UMA = UrbanCell(25.0, 28.0, 22.0, 9.0, 13.54, 39.08, 20.0, 0.6, 63.0)


def free_space(distance: Floats, carrier_ghz: float) -> Floats:
    """Return 20 log10(4 π d f / c) (Friis, 1946): the loss between isotropic antennas."""
    return 20 * np.log10(4 * pi * distance * carrier_ghz * 1e9 / SPEED_OF_LIGHT)


def log_distance(distance: Floats, exponent: float, reference_db: float) -> Floats:
    """Return PL(1 m) + 10 n log10(d / 1 m) (Rappaport, Wireless Communications, 2002, eq. 4.67)."""
    return reference_db + 10 * exponent * np.log10(distance)


def urban_los(distance: Floats, carrier_ghz: float, cell: UrbanCell) -> Floats:
    """Return the path loss with line of sight (TR 38.901, table 7.4.1-1: PL1 up to the breakpoint, then PL2).

    The breakpoint distance is d'_BP = 4 h'_BS h'_UT f / c with both heights reduced by 1 m (note 1).
    """
    rise = cell.server_height - DEVICE_HEIGHT
    slant = np.hypot(distance, rise)
    breakpoint_m = 4 * (cell.server_height - 1) * (DEVICE_HEIGHT - 1) * carrier_ghz * 1e9 / SPEED_OF_LIGHT
    common = cell.los_intercept + 20 * log10(carrier_ghz)
    near = common + cell.los_slope * np.log10(slant)
    beyond = common + 40 * np.log10(slant) - cell.breakpoint_factor * log10(breakpoint_m**2 + rise**2)
    return np.where(distance <= breakpoint_m, near, beyond)


def urban_nlos(distance: Floats, carrier_ghz: float, cell: UrbanCell) -> Floats:
    """Return the path loss without line of sight: PL'_NLOS, but at least that with it (table 7.4.1-1)."""
    slant = np.hypot(distance, cell.server_height - DEVICE_HEIGHT)
    loss = cell.nlos_intercept + cell.nlos_slope * np.log10(slant) + cell.nlos_frequency * log10(carrier_ghz)
    # Nothing at the height of 1.5 m; the term is kept because the table has it.
    loss = loss - cell.nlos_height * (DEVICE_HEIGHT - 1.5)
    return np.maximum(loss, urban_los(distance, carrier_ghz, cell))


def los_probability(distance: Floats, cell: UrbanCell) -> Floats:
    """Return the probability of line of sight: 1 up to 18 m, then 18/d + exp(−d/x)(1 − 18/d) (table 7.4.2-1).

    x is 36 m for urban micro cells and 63 m for urban macro cells with devices below 13 m.
    """
    near = 18.0 / np.maximum(distance, 18.0)
    return near + np.exp(-distance / cell.los_decay) * (1 - near)


def urban_mean(distance: Floats, carrier_ghz: float, cell: UrbanCell) -> Floats:
    """Return the mean path loss in dB over line of sight and none, each with its probability."""
    share = los_probability(distance, cell)
    with_sight, without = (loss(distance, carrier_ghz, cell) for loss in (urban_los, urban_nlos))
    return share * with_sight + (1 - share) * without


Urban = Callable[[Floats, float, UrbanCell], Floats]
URBAN: Mapping[str, tuple[Urban, UrbanCell]] = {
    "umi-los": (urban_los, UMI),
    "umi-nlos": (urban_nlos, UMI),
    "umi": (urban_mean, UMI),
    "uma-los": (urban_los, UMA),
    "uma-nlos": (urban_nlos, UMA),
    "uma": (urban_mean, UMA),
}
