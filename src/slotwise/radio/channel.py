"""Channels: the SNR of every device in every block, from a model or from a recorded trace."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError, NoEffectError, UserError
from slotwise.base.random_streams import Floats, SchedulePurpose, States, device_states, mixed_all, units
from slotwise.options import Either, FileName, Found, Named, Range
from slotwise.options.checks import LARGEST_SEED, Value
from slotwise.radio.fading import FADING, Fading, NoFading, Rayleigh, Slots
from slotwise.radio.path_loss import PATH_LOSS, PathLoss, UrbanMicro
from slotwise.radio.placement import PLACEMENT, CellPlacement
from slotwise.radio.traces import Trace, file_sha256, read_trace

Integers = NDArray[np.int64]
TraceEnd = Literal["refuse", "repeat"]


class ModelConditions:
    """The SNR of the uplink of N devices: a mean for each, times fading that is constant in a block."""

    def __init__(self, mean_snr_db: Floats, fading: Fading | NoFading, seed: int) -> None:
        self.mean_snr_db, self.fading, self.coherence_slots = mean_snr_db, fading, fading.coherence_slots
        self.devices = len(mean_snr_db)
        self.mean_snr = linear(mean_snr_db)
        # The states after (seed, purpose, device): a block then costs one step of the generator.
        self._states: dict[bool, States] = {
            planning: device_states(seed, purpose, self.devices)
            for planning, purpose in ((False, SchedulePurpose.FADING), (True, SchedulePurpose.PLANNED_FADING))
        }

    def states(self, *, planning: bool = False) -> States:
        """Return the states from which the blocks of each device are drawn."""
        return self._states[planning]

    def snr(
        self, first_block: int, blocks: int, *, places: Integers | None = None, planning: bool = False
    ) -> Floats:
        """Return linear SNRs [blocks, N], or [blocks, P] of the devices at ``places`` (device n is at n−1).

        With ``planning`` they have the same distribution, but are not those that will happen.
        """
        numbers = np.arange(first_block, first_block + blocks, dtype=np.uint64)[:, None]
        states, mean = self._states[planning], self.mean_snr
        if places is not None:
            states, mean = states[places], mean[places]
        return mean * self.fading.gains(mixed_all(states[None, :], numbers))


@dataclass(frozen=True, eq=False)
class TraceConditions:
    """The SNRs of a trace; a trace of bits is turned into the SNRs at which Shannon's formula gives them."""

    trace: Trace
    coherence_slots: int
    bits_at_unit_efficiency: float  # hertz times seconds of a slot

    @property
    def devices(self) -> int:
        """The number of devices N."""
        return self.trace.devices

    def snr(
        self,
        first_block: int,
        blocks: int,
        *,
        places: Integers | None = None,
        planning: bool = False,  # noqa: ARG002
    ) -> Floats:
        """Return linear SNRs [blocks, N]; plans know the trace itself, as it is all there is."""
        values = self.trace.rows(first_block, blocks)
        values = values if places is None else values[:, places]
        if self.trace.quantity == "snr_db":
            return linear(values)
        # Half a bit more than the trace has, so that rounding down gives its bits exactly.
        return np.exp2((values + 0.5) / self.bits_at_unit_efficiency) - 1


Conditions = ModelConditions | TraceConditions


class Cell(NamedTuple):
    """The devices of a channel model, by device: entry n−1 is device n."""

    distance_m: Floats
    path_loss_db: Floats  # without shadowing
    shadowing_db: Floats
    gain_db: Floats  # of antennas, path loss and shadowing together; the mean over fading


@dataclass(frozen=True, kw_only=True)
class ChannelModel(Value):
    """Mean SNRs from distance, path loss and shadowing, and block fading around them.

    Attributes:
        placement: Devices uniform in a cell, or all on a ring of the same radius.
        path_loss: Path loss: log-distance, free-space, or 3GPP TR 38.901 urban micro (umi) and macro
            cells (uma), with or without line of sight or the mean of both.
        shadowing_db: Standard deviation of log-normal shadowing in dB, drawn once for each device.
        fading: Small-scale fading: none, rayleigh, rician or nakagami.
        noise_dbm_hz: Noise power density in dBm/Hz.
        antenna_gain_db: Antenna gain of server and device together, in dB.
        seed: Random seed of the radio. Default: that of the run.
    """

    placement: Annotated[Any, PLACEMENT] = CellPlacement()  # noqa: RUF009
    path_loss: Annotated[PathLoss, PATH_LOSS] = UrbanMicro()  # noqa: RUF009
    shadowing_db: Annotated[float, Range(least=0.0, most=30.0)] = 0.0
    fading: Annotated[Fading | NoFading, FADING] = Rayleigh()  # noqa: RUF009
    noise_dbm_hz: Annotated[float, Range(least=-300.0, most=100.0)] = -174.0
    antenna_gain_db: Annotated[float, Range(least=-200.0, most=200.0)] = 0.0
    seed: Annotated[int, Range(least=0, most=LARGEST_SEED)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        reason = f"with radio_path_loss {PATH_LOSS.name_of(self.path_loss)}"
        self.placement.refuse_beyond(self.path_loss.farthest_m, reason)
        if self.seed is not None and not self.is_random:
            raise NoEffectError("seed", self.seed, "if nothing is drawn for the radio")

    @property
    def is_random(self) -> bool:
        """True if another seed gives other channels."""
        return self.placement.is_random or bool(self.shadowing_db) or self.fading.is_random

    @property
    def depends_on_seed(self) -> bool:
        """True if another seed of the run gives other channels."""
        return self.is_random and self.seed is None

    @property
    def coherence_slots(self) -> int:
        """Slots of a block."""
        return self.fading.coherence_slots

    def cell(self, devices: int, seed: int) -> Cell:
        """Return the placement and the losses of devices 1 to N; ``seed`` is that of the run."""
        seed = seed if self.seed is None else self.seed
        distance = self.placement.distances(devices, seed)
        loss, shadowing = self.path_loss.loss_db(distance), shadowing_db(devices, self.shadowing_db, seed)
        return Cell(distance, loss, shadowing, self.antenna_gain_db - loss - shadowing)

    def conditions(self, budget: Budget, devices: int, deadline: int | None, seed: int) -> Conditions:  # noqa: ARG002
        """Return SNRs = transmit power + antenna gains − path loss − shadowing − noise, all in dB or dBm."""
        noise = noise_dbm(budget.hertz, self.noise_dbm_hz, budget.noise_figure_db)
        snr_db = budget.power_dbm + self.cell(devices, seed).gain_db - noise
        return ModelConditions(snr_db, self.fading, seed if self.seed is None else self.seed)


@dataclass(frozen=True, kw_only=True)
class RecordedTrace(Value):
    """Recorded channels instead of a model.

    Attributes:
        path: CSV file of (device, slot or block, snr_db or bits) that replaces the model.
        end: After the end of the trace: refuse a deadline beyond it, or repeat the trace.
        sha256: SHA-256 of the trace file.
        coherence_slots: Slots of a block in which the fading is constant.
    """

    path: Annotated[str, FileName(), Named("trace")]
    end: Annotated[TraceEnd, Named("trace_end")] = "refuse"
    sha256: Annotated[str | None, Found("path"), Named("trace_sha256")] = None
    coherence_slots: Slots = 1

    depends_on_seed = False

    def __post_init__(self) -> None:
        if isinstance(self.path, Path):
            object.__setattr__(self, "path", str(self.path))
        super().__post_init__()
        path = Path(self.path).absolute()
        object.__setattr__(self, "path", str(path))
        if self.sha256 is None:
            object.__setattr__(self, "sha256", file_sha256(path))

    def conditions(self, budget: Budget, devices: int, deadline: int | None, seed: int) -> Conditions:  # noqa: ARG002
        """Return the SNRs of the file, which must be as it was when the trace was named."""
        path = Path(self.path)
        if file_sha256(path) != self.sha256:
            raise UserError(f"{path}: the trace has changed since the run began; start a new one")
        trace, scale = read_trace(path, devices), budget.hertz * budget.seconds
        if trace.quantity == "bits":
            # Bits are kept as the SNR 2^(bits / scale), which must not overflow.
            scale = max(scale, float(trace.values.max()) / MOST_DOUBLINGS)
        if trace.time == "slot" and self.coherence_slots != 1:
            raise InputError("radio_coherence_slots", self.coherence_slots, "omitted with a trace by slot")
        slots = len(trace) * self.coherence_slots
        if deadline is not None and slots < deadline and self.end == "refuse":
            allowed = f"one of at least {deadline:,}, the deadline, or used with radio_trace_end repeat"
            raise InputError("radio_trace", f"{self.path} with {slots:,} slots", allowed)
        return TraceConditions(trace, self.coherence_slots, scale)


Channel = Annotated[ChannelModel | RecordedTrace, Either((ChannelModel, RecordedTrace))]
MOST_DOUBLINGS = 1000  # of an SNR in a float64, which ends at 2^1024


class Budget(NamedTuple):
    """Bandwidth, slot length, transmit power and noise figure of an uplink, which the link knows."""

    hertz: float  # bandwidth
    seconds: float  # of a slot
    power_dbm: float  # of a device
    noise_figure_db: float  # of the server


def noise_dbm(bandwidth_hz: float, density_dbm_hz: float, figure_db: float) -> float:
    """Return the noise power N_0 + 10 log10(W) + F in dBm (Rappaport, 2002, appendix B)."""
    return density_dbm_hz + 10 * log10(bandwidth_hz) + figure_db


def shadowing_db(devices: int, deviation_db: float, seed: int) -> Floats:
    """Return log-normal shadowing: a normal loss in dB with mean 0, drawn once for each device.

    See Rappaport, Wireless Communications, 2002, eq. 4.69.
    """
    if not deviation_db:
        return np.zeros(devices)
    inverse, numbers = NormalDist().inv_cdf, units(device_states(seed, SchedulePurpose.SHADOWING, devices))
    return deviation_db * np.array([inverse(max(number, 2.0**-54)) for number in numbers], dtype=np.float64)


def linear(decibels: Floats) -> Floats:
    """Return ratios from decibels."""
    return np.asarray(10.0 ** (decibels / 10), dtype=np.float64)


def decibels(ratio: Floats) -> Floats:
    """Return decibels from ratios; −inf for 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(10 * np.log10(ratio), dtype=np.float64)
