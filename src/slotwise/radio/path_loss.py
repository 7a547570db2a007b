"""Path loss in dB as a function of distance: log-distance, free space, and 3GPP's urban cells.

The 3GPP formulas are those of TR 38.901 (V16.1.0), tables 7.4.1-1 (path loss) and 7.4.2-1 (probability of
line of sight), for outdoor devices. Distances are horizontal and in metres, frequencies in GHz.

To add a path loss, write a class with a method ``loss_db`` and name it in `PATH_LOSSES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, log10, pi
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from slotwise.base.random_streams import Floats
from slotwise.options import Choice, Range
from slotwise.options.checks import Value

SPEED_OF_LIGHT = 299_792_458.0  # m/s
DEVICE_HEIGHT = 1.5  # m, h_UT
NEAREST, FARTHEST = 10.0, 5_000.0  # m, the range of the formulas of TR 38.901


@dataclass(frozen=True, kw_only=True)
class PathLoss(Value, ABC):
    """Mean loss of power on the way between server and device.

    Attributes:
        carrier_ghz: Carrier frequency in GHz.
    """

    farthest_m: ClassVar[float] = inf  # the formula does not hold beyond
    carrier_ghz: Annotated[float, Range(least=0.01, most=1000.0)] = 3.5

    @abstractmethod
    def loss_db(self, distance: Floats) -> Floats:
        """Return the path loss in dB at distances in metres."""


class FreeSpace(PathLoss):
    """20 log10(4 π d f / c) (Friis, 1946): the loss between isotropic antennas."""

    def loss_db(self, distance: Floats) -> Floats:
        """Return the path loss in dB."""
        return 20 * np.log10(4 * pi * distance * self.carrier_ghz * 1e9 / SPEED_OF_LIGHT)


@dataclass(frozen=True, kw_only=True)
class LogDistance(PathLoss):
    """PL(1 m) + 10 n log10(d / 1 m) (Rappaport, Wireless Communications, 2002, eq. 4.67).

    Attributes:
        exponent: Exponent of the path loss log-distance.
        reference_db: Path loss at 1 m of log-distance. Default: that of free space.
    """

    exponent: Annotated[float, Range(least=0.0, most=10.0)] = 3.0
    reference_db: Annotated[float, Range(least=-200.0, most=300.0)] | None = None

    def loss_db(self, distance: Floats) -> Floats:
        """Return the path loss in dB."""
        reference = self.reference_db
        if reference is None:
            reference = float(FreeSpace(carrier_ghz=self.carrier_ghz).loss_db(np.ones(1))[0])
        return reference + 10 * self.exponent * np.log10(distance)


class Environment(NamedTuple):
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


STREET_CANYON = Environment(10.0, 32.4, 21.0, 9.5, 22.4, 35.3, 21.3, 0.3, 36.0)
MACRO = Environment(25.0, 28.0, 22.0, 9.0, 13.54, 39.08, 20.0, 0.6, 63.0)


class UrbanMicro(PathLoss):
    """Urban micro cell (UMi street canyon): the mean in dB over line of sight and none, by probability."""

    farthest_m: ClassVar[float] = FARTHEST
    environment: ClassVar[Environment] = STREET_CANYON

    def loss_db(self, distance: Floats) -> Floats:
        """Return the path loss in dB; the formulas begin at 10 m, and nearer devices have the loss there."""
        return self._formula(np.maximum(distance, NEAREST))

    def _formula(self, distance: Floats) -> Floats:
        share = self.sight_probability(distance)
        return share * self.with_sight(distance) + (1 - share) * self.without_sight(distance)

    def sight_probability(self, distance: Floats) -> Floats:
        """Return the probability of line of sight: 1 up to 18 m, then 18/d + exp(−d/x)(1 − 18/d).

        From table 7.4.2-1; x is 36 m for urban micro cells and 63 m for urban macro cells with devices below
        13 m.
        """
        near = 18.0 / np.maximum(distance, 18.0)
        return near + np.exp(-distance / self.environment.los_decay) * (1 - near)

    def with_sight(self, distance: Floats) -> Floats:
        """Return the path loss with line of sight (table 7.4.1-1: PL1 up to the breakpoint, then PL2).

        The breakpoint distance is d'_BP = 4 h'_BS h'_UT f / c with both heights reduced by 1 m (note 1).
        """
        cell = self.environment
        rise = cell.server_height - DEVICE_HEIGHT
        slant = np.hypot(distance, rise)
        heights = 4 * (cell.server_height - 1) * (DEVICE_HEIGHT - 1)
        breakpoint_m = heights * self.carrier_ghz * 1e9 / SPEED_OF_LIGHT
        common = cell.los_intercept + 20 * log10(self.carrier_ghz)
        near = common + cell.los_slope * np.log10(slant)
        beyond = common + 40 * np.log10(slant) - cell.breakpoint_factor * log10(breakpoint_m**2 + rise**2)
        return np.where(distance <= breakpoint_m, near, beyond)

    def without_sight(self, distance: Floats) -> Floats:
        """Return the path loss without line of sight: PL'_NLOS, but at least that with it (table 7.4.1-1)."""
        cell = self.environment
        slant = np.hypot(distance, cell.server_height - DEVICE_HEIGHT)
        frequency = cell.nlos_frequency * log10(self.carrier_ghz)
        loss = cell.nlos_intercept + cell.nlos_slope * np.log10(slant) + frequency
        # Nothing at the height of 1.5 m; the term is kept because the table has it.
        loss = loss - cell.nlos_height * (DEVICE_HEIGHT - 1.5)
        return np.maximum(loss, self.with_sight(distance))


class UrbanMicroSight(UrbanMicro):
    """Urban micro cell with line of sight."""

    def _formula(self, distance: Floats) -> Floats:
        return self.with_sight(distance)


class UrbanMicroNoSight(UrbanMicro):
    """Urban micro cell without line of sight."""

    def _formula(self, distance: Floats) -> Floats:
        return self.without_sight(distance)


class UrbanMacro(UrbanMicro):
    """Urban macro cell (UMa): the mean in dB over line of sight and none, by probability."""

    environment: ClassVar[Environment] = MACRO


class UrbanMacroSight(UrbanMicroSight):
    """Urban macro cell with line of sight."""

    environment: ClassVar[Environment] = MACRO


class UrbanMacroNoSight(UrbanMicroNoSight):
    """Urban macro cell without line of sight."""

    environment: ClassVar[Environment] = MACRO


PATH_LOSSES: Mapping[str, type[PathLoss]] = {
    "log-distance": LogDistance,
    "free-space": FreeSpace,
    "umi": UrbanMicro,
    "umi-los": UrbanMicroSight,
    "umi-nlos": UrbanMicroNoSight,
    "uma": UrbanMacro,
    "uma-los": UrbanMacroSight,
    "uma-nlos": UrbanMacroNoSight,
}
PATH_LOSS = Choice("radio_path_loss", PATH_LOSSES, prefix="radio_")
