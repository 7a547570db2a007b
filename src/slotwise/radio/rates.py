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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np

from slotwise.base.errors import InputError, MissingError, UserError
from slotwise.base.random_streams import Floats
from slotwise.fleet.csv_rows import read_table
from slotwise.options import Choice, FileName, Named, NoFlag, Range, StandsFor
from slotwise.options.checks import Value

CQI_TABLE = Path(__file__).with_name("cqi_table.csv")
MOST_DECIBELS, MOST_EFFICIENCY = 200, 1000  # of a scheme's threshold and efficiency
Schemes = tuple[tuple[float, float], ...]  # (threshold in dB, efficiency), ascending
MOST_NEEDED = 100.0  # bits per second and hertz, of a threshold
USUAL_SLOT_MS = 100.0
Bits = Annotated[int, Range(least=1, most=10**15)]
Decibels = Annotated[float, Range(least=-200.0, most=200.0)]
SlotMs = Annotated[float, Range(least=1e-3, most=1e9)]
Gap = Annotated[float, Range(least=0.0, most=60.0)]


class Rate(Protocol):
    """Spectral efficiency as a function of the SNR."""

    def efficiency(self, snr: Floats) -> Floats:
        """Return bits per second and hertz at linear SNRs."""


@dataclass(frozen=True, kw_only=True)
class Shannon(Value):
    """log2(1 + SNR/Γ): Shannon (1949), with a gap Γ (Cioffi et al., IEEE Trans. Comm. 43, 1995).

    Attributes:
        gap_db: SNR gap to Shannon's capacity in dB, also of the thresholds of the cqi table.
    """

    gap_db: Gap = 0.0

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
class SchemeTable(Value, Stepped):
    """Modulation and coding schemes of your own.

    Attributes:
        schemes: (SNR threshold in dB, bits per second and hertz) of each scheme of your own table.
    """

    schemes: Annotated[Schemes, NoFlag()]

    def __post_init__(self) -> None:
        super().__post_init__()
        pairs: list[tuple[float, float]] = []
        for pair in self.schemes:
            numbers: Any = pair if isinstance(pair, tuple | list) else ()
            if len(numbers) != 2 or any(type(number) not in (int, float) for number in numbers):
                raise InputError("schemes", pair, "pairs of an SNR in dB and of bits per second and hertz")
            if wrong := _wrong(numbers[0], numbers[1], pairs):
                raise InputError("schemes", pair, f"pairs of numbers: {wrong[1]}")
            pairs.append((float(numbers[0]), float(numbers[1])))
        object.__setattr__(self, "schemes", tuple(pairs))

    def steps(self) -> Schemes:
        """Return the schemes as they are listed."""
        return self.schemes


@dataclass(frozen=True, kw_only=True)
class SchemesFile(StandsFor):
    """Schemes of your own in a CSV file, which is read when a link is described.

    Attributes:
        path: CSV file of modulation and coding schemes: snr_db and efficiency, ascending.
    """

    path: Annotated[Path, FileName(), Named("schemes_file")]

    def meant(self) -> SchemeTable:
        """Read the schemes from the file."""
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
        if wrong := _wrong(threshold, efficiency, schemes):
            raise table.error(row.number, *wrong)
        schemes.append((threshold, efficiency))
    if not schemes:
        raise UserError(f"{path}: no schemes: must have a row for each")
    return tuple(schemes)


def _wrong(
    threshold: float, efficiency: float, before: Sequence[tuple[float, float]]
) -> tuple[str, str] | None:
    """Return which number of a scheme cannot be after those before, and why; None if both can."""
    if not abs(threshold) <= MOST_DECIBELS:
        return "snr_db", f"{threshold:g}: must be from -{MOST_DECIBELS} to {MOST_DECIBELS} dB"
    if not 0 < efficiency <= MOST_EFFICIENCY:
        return "efficiency", f"{efficiency:g}: must be above 0 and at most {MOST_EFFICIENCY}"
    if before and threshold <= before[-1][0]:
        return "snr_db", f"{threshold:g}: must be above that before"
    if before and efficiency <= before[-1][1]:
        return "efficiency", f"{efficiency:g}: must be above that before"
    return None


# Thresholds: the SNR that an uplink at a fixed rate needs.


def required_bits(name: str, bits: int | None, coherence_slots: int = 1) -> int:
    """Return the bits of a message; times the slots of a block they must fit 64 bits."""
    if bits is None:
        raise MissingError(name, "given, because the size of the model is not known")
    most = (2**63 - 1) // coherence_slots
    if bits > most:
        raise InputError(name, bits, f"at most {most:,} with radio_coherence_slots {coherence_slots}")
    return bits


@dataclass(frozen=True, kw_only=True)
class NeededSnr(Value):
    """The SNR at which the bits of an uplink just fit into its slots by Shannon's formula with the gap.

    Attributes:
        gap_db: SNR gap to Shannon's capacity in dB, also of the thresholds of the cqi table.
        slot_ms: Duration of a slot in milliseconds, also for joules.
        bits: Bits of an uplink. Default: those of the model's update.
    """

    gap_db: Gap = 0.0
    slot_ms: SlotMs = USUAL_SLOT_MS
    bits: Bits | None = None

    def snr(self, symbols: float) -> float:
        """Return the linear SNR that an uplink of ``symbols`` hertz-seconds needs."""
        efficiency = required_bits("radio_bits", self.bits) / symbols
        if efficiency > MOST_NEEDED:
            allowed = f"fewer: {efficiency:,.0f} bits per second and hertz would be needed"
            raise InputError("radio_bits", self.bits, allowed)
        return Shannon(gap_db=self.gap_db).snr_for(efficiency)


@dataclass(frozen=True, kw_only=True)
class GivenSnr(Value):
    """An SNR that is given: neither the bits of an uplink nor the duration of a slot matters.

    Attributes:
        threshold_db: SNR below which an uplink of fixed-rate is lost. Default: the SNR at which its
            bits just fit into its slots by Shannon's formula with the gap.
    """

    slot_ms: ClassVar[float] = USUAL_SLOT_MS  # for joules only
    bits: ClassVar[None] = None
    threshold_db: Decibels

    def snr(self, symbols: float) -> float:  # noqa: ARG002
        """Return the threshold as a linear SNR."""
        return float(10 ** (self.threshold_db / 10))
