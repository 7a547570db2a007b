"""Rates: from a signal-to-noise ratio to bits per second and hertz.

Shannon's formula with a gap, or a table of modulation and coding schemes with thresholds. The table shipped,
`cqi_table.csv`, has the modulations, code rates and efficiencies of 3GPP TS 38.214, table 5.2.2.1-2 (the same
as in TS 36.213, table 7.2.3-1). The standard fixes no thresholds: they depend on the receiver and on the
block error rate aimed at. Here the threshold of a scheme is the SNR at which Shannon's formula with the gap
gives its efficiency; a table of your own has thresholds of its own.

To add a rate, write a class with a method ``efficiency`` and name it in `RATES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np

from slotwise.errors import InputError, UserError
from slotwise.fleet.csv_rows import read_table
from slotwise.options import Choice, FileName, Named, NoFlag, Range, StandsFor
from slotwise.options.checks import check_fields
from slotwise.random_streams import Floats

CQI_TABLE = Path(__file__).with_name("cqi_table.csv")
MOST_DECIBELS, MOST_EFFICIENCY = 200, 1000  # of a scheme's threshold and efficiency
Schemes = tuple[tuple[float, float], ...]  # (threshold in dB, efficiency), ascending
Gap = Annotated[float, Range(least=0.0, most=60.0)]


class Rate(Protocol):
    """Spectral efficiency as a function of the SNR."""

    def efficiency(self, snr: Floats) -> Floats:
        """Return bits per second and hertz at linear SNRs."""


@dataclass(frozen=True, kw_only=True)
class Shannon:
    """log2(1 + SNR/Γ): Shannon (1949), with a gap Γ (Cioffi et al., IEEE Trans. Comm. 43, 1995).

    Attributes:
        gap_db: SNR gap to Shannon's capacity in dB, also of the thresholds of the cqi table.
    """

    gap_db: Gap = 0.0

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def gap(self) -> float:
        """The linear gap Γ."""
        return float(10 ** (self.gap_db / 10))

    def efficiency(self, snr: Floats) -> Floats:
        """Return bits per second and hertz."""
        return np.log2(1 + snr / self.gap)

    def snr_for(self, efficiency: float) -> float:
        """Return the linear SNR Γ (2^ρ − 1) at which the formula gives the efficiency ρ."""
        return float(self.gap * (2.0**efficiency - 1))


class Stepped(ABC):
    """The efficiency of the best scheme whose threshold is reached; 0 below the lowest."""

    @abstractmethod
    def steps(self) -> Schemes:
        """Return (threshold in dB, efficiency) of each scheme, ascending."""

    @cached_property
    def thresholds(self) -> Floats:
        """The linear SNR that each scheme needs."""
        return np.asarray(10.0 ** (np.array([threshold for threshold, _ in self.steps()]) / 10))

    @cached_property
    def _efficiencies(self) -> Floats:
        return np.array([0.0, *(efficiency for _, efficiency in self.steps())])

    def efficiency(self, snr: Floats) -> Floats:
        """Return bits per second and hertz."""
        return self._efficiencies[np.searchsorted(self.thresholds, snr, side="right")]


class Cqi(Shannon, Stepped):
    """The schemes of 3GPP's CQI table, with thresholds from Shannon's formula with a gap."""

    efficiency = Stepped.efficiency

    def steps(self) -> Schemes:
        """Return (threshold in dB, efficiency) of CQI 1 to 15."""
        return tuple((float(10 * np.log10(self.snr_for(rate))), rate) for rate in cqi_efficiencies())


@cache
def cqi_efficiencies() -> tuple[float, ...]:
    """Return the efficiencies of CQI 1 to 15."""
    table = read_table(CQI_TABLE, ("cqi", "modulation", "code_rate_1024", "efficiency"))
    return tuple(table.number(row, "efficiency") for row in table.rows)


@dataclass(frozen=True, kw_only=True)
class SchemeTable(Stepped):
    """Modulation and coding schemes of your own.

    Attributes:
        schemes: (SNR threshold in dB, bits per second and hertz) of each scheme of your own table.
    """

    schemes: Annotated[Schemes, NoFlag()]

    def __post_init__(self) -> None:
        check_fields(self)
        allowed = (
            f"pairs of an SNR threshold of at most ±{MOST_DECIBELS} dB and at most {MOST_EFFICIENCY} bits "
            "per second and hertz, both ascending"
        )
        pairs: list[tuple[float, float]] = []
        for pair in self.schemes:
            numbers: Any = pair if isinstance(pair, tuple | list) else ()
            if len(numbers) != 2 or any(type(number) not in (int, float) for number in numbers):
                raise InputError("schemes", pair, allowed)
            threshold, efficiency = numbers
            possible = abs(threshold) <= MOST_DECIBELS and 0 < efficiency <= MOST_EFFICIENCY
            if not possible or (pairs and (threshold <= pairs[-1][0] or efficiency <= pairs[-1][1])):
                raise InputError("schemes", pair, allowed)
            pairs.append((float(threshold), float(efficiency)))
        object.__setattr__(self, "schemes", tuple(pairs))

    def steps(self) -> Schemes:
        """Return the schemes."""
        return self.schemes


@dataclass(frozen=True, kw_only=True)
class SchemesFile(StandsFor):
    """Schemes of your own in a CSV file, which is read when a link is described.

    Attributes:
        path: CSV file of modulation and coding schemes: snr_db and efficiency, ascending.
    """

    path: Annotated[Path, FileName(), Named("schemes_file")]

    def meant(self) -> SchemeTable:
        """Read the schemes."""
        if not isinstance(self.path, str | Path):
            raise InputError("radio_schemes_file", self.path, "the name of a CSV file")
        return SchemeTable(schemes=read_schemes(Path(self.path)))


RATES: Mapping[str, type[Any]] = {"shannon": Shannon, "cqi": Cqi}
RATE = Choice("radio_rate", RATES, prefix="radio_", unnamed=(SchemeTable, SchemesFile))


def read_schemes(path: Path) -> Schemes:
    """Read a table of schemes from a CSV file with the columns ``snr_db`` and ``efficiency``, both ascending.

    Raises:
        UserError: the file is malformed; the message names the file, row and column.
    """
    table = read_table(path, ("snr_db", "efficiency"), required=("snr_db", "efficiency"))
    schemes: list[tuple[float, float]] = []
    for row in table.rows:
        threshold, efficiency = table.number(row, "snr_db"), table.number(row, "efficiency")
        if abs(threshold) > MOST_DECIBELS:
            what = f"{threshold:g}: must be from -{MOST_DECIBELS} to {MOST_DECIBELS} dB"
            raise table.error(row.number, "snr_db", what)
        if not 0 < efficiency <= MOST_EFFICIENCY:
            what = f"{efficiency:g}: must be above 0 and at most {MOST_EFFICIENCY}"
            raise table.error(row.number, "efficiency", what)
        if schemes and threshold <= schemes[-1][0]:
            raise table.error(row.number, "snr_db", f"{threshold:g}: must be above that of the row before")
        if schemes and efficiency <= schemes[-1][1]:
            what = f"{efficiency:g}: must be above that of the row before"
            raise table.error(row.number, "efficiency", what)
        schemes.append((threshold, efficiency))
    if not schemes:
        raise UserError(f"{path}: no schemes: must have a row for each")
    return tuple(schemes)
