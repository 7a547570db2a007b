"""Rates: from a signal-to-noise ratio to bits per second and hertz.

Shannon's formula with a gap, or a table of modulation and coding schemes with thresholds. The table shipped,
`cqi_table.csv`, has the modulations, code rates and efficiencies of 3GPP TS 38.214, table 5.2.2.1-2 (the same
as in TS 36.213, table 7.2.3-1). The standard fixes no thresholds: they depend on the receiver and on the
block error rate aimed at. Here the threshold of a scheme is the SNR at which Shannon's formula with the gap
gives its efficiency; a table of your own has thresholds of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np

from slotwise.errors import UserError
from slotwise.fleet.chances import Floats
from slotwise.fleet.csv_rows import read_table

CQI_TABLE = Path(__file__).with_name("cqi_table.csv")
MOST_DECIBELS, MOST_EFFICIENCY = 200, 1000  # of a scheme's threshold and efficiency
Schemes = tuple[tuple[float, float], ...]  # (threshold in dB, efficiency), ascending


class Rate(Protocol):
    """Spectral efficiency as a function of the SNR."""

    def efficiency(self, snr: Floats) -> Floats:
        """Return bits per second and hertz at linear SNRs."""


@dataclass(frozen=True)
class Shannon:
    """log2(1 + SNR/Γ): Shannon (1949), with a gap Γ (Cioffi et al., IEEE Trans. Comm. 43, 1995)."""

    gap: float = 1.0

    def efficiency(self, snr: Floats) -> Floats:
        """Return bits per second and hertz."""
        return np.log2(1 + snr / self.gap)


@dataclass(frozen=True)
class SchemeTable:
    """The efficiency of the best scheme whose threshold is reached; 0 below the lowest."""

    schemes: Schemes

    @property
    def thresholds(self) -> Floats:
        """The linear SNR that each scheme needs."""
        return np.asarray(10.0 ** (np.array([threshold for threshold, _ in self.schemes]) / 10))

    def efficiency(self, snr: Floats) -> Floats:
        """Return bits per second and hertz."""
        steps = np.array([0.0, *(efficiency for _, efficiency in self.schemes)])
        return steps[np.searchsorted(self.thresholds, snr, side="right")]


def snr_for(efficiency: float, gap: float = 1.0) -> float:
    """Return the linear SNR Γ (2^ρ − 1) at which Shannon's formula with a gap gives the efficiency ρ."""
    return float(gap * (2.0**efficiency - 1))


def cqi_schemes(gap: float = 1.0) -> Schemes:
    """Return the schemes of the CQI table, with thresholds from Shannon's formula with a gap."""
    return tuple((float(10 * np.log10(snr_for(rate, gap))), rate) for rate in cqi_efficiencies())


@cache
def cqi_efficiencies() -> tuple[float, ...]:
    """Return the efficiencies of CQI 1 to 15."""
    table = read_table(CQI_TABLE, ("cqi", "modulation", "code_rate_1024", "efficiency"))
    return tuple(table.number(row, "efficiency") for row in table.rows)


def read_schemes(path: Path) -> Schemes:
    """Read a table of schemes from a CSV file with the columns ``snr_db`` and ``efficiency``, both ascending.

    Raises:
        UserError: the file is malformed; the message names the file, row and column.
    """
    table = read_table(path, ("snr_db", "efficiency"), required=("snr_db", "efficiency"))
    found: list[tuple[float, float]] = []
    for row in table.rows:
        threshold, efficiency = table.number(row, "snr_db"), table.number(row, "efficiency")
        if abs(threshold) > MOST_DECIBELS:
            what = f"{threshold:g}: must be from -{MOST_DECIBELS} to {MOST_DECIBELS} dB"
            raise table.error(row.number, "snr_db", what)
        if not 0 < efficiency <= MOST_EFFICIENCY:
            what = f"{efficiency:g}: must be above 0 and at most {MOST_EFFICIENCY}"
            raise table.error(row.number, "efficiency", what)
        if found and threshold <= found[-1][0]:
            raise table.error(row.number, "snr_db", f"{threshold:g}: must be above that of the row before")
        if found and efficiency <= found[-1][1]:
            what = f"{efficiency:g}: must be above that of the row before"
            raise table.error(row.number, "efficiency", what)
        found.append((threshold, efficiency))
    if not found:
        raise UserError(f"{path}: no schemes: must have a row for each")
    return tuple(found)
