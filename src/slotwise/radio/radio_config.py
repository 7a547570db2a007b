"""RadioConfig: the options of the radio, from which a link is built."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from slotwise.errors import ConflictError, InputError
from slotwise.radio.path_loss import FARTHEST, URBAN
from slotwise.radio.rates import MOST_DECIBELS, MOST_EFFICIENCY, Schemes
from slotwise.radio.traces import file_sha256
from slotwise.scenario import LARGEST, LARGEST_SEED, check_fields, refuse_unused, whole

LinkMode = Literal["rate-adaptive", "fixed-rate"]
Placement = Literal["cell", "ring"]
PathLoss = Literal["log-distance", "free-space", "umi", "umi-los", "umi-nlos", "uma", "uma-los", "uma-nlos"]
FadingName = Literal["none", "rayleigh", "rician", "nakagami"]
RateName = Literal["shannon", "cqi"]
Band = Literal["own", "divided"]
TraceEnd = Literal["refuse", "repeat"]


@dataclass(frozen=True, kw_only=True)
class RadioConfig:
    """Options of the radio; without ``radio_link`` there is none, and uplinks take fixed slots.

    Attributes:
        radio_link: Links over a fading channel: rate-adaptive (an uplink takes the slots until its bits are
            through) or fixed-rate (it takes --link-slots and is lost below a threshold). Default: no radio.
        radio_placement: Devices uniform in a cell, or all on a ring of the same radius.
        radio_radius_m: Radius of the cell or ring, in metres.
        radio_nearest_m: Smallest distance to the server in a cell, in metres.
        radio_distances_m: Distances of devices 1 to N in metres, one by one.
        radio_path_loss: Path loss: log-distance, free-space, or 3GPP TR 38.901 urban micro (umi) and macro
            cells (uma), with or without line of sight or the mean of both.
        radio_exponent: Exponent of the path loss log-distance.
        radio_reference_db: Path loss at 1 m of log-distance. Default: that of free space.
        radio_carrier_ghz: Carrier frequency in GHz.
        radio_shadowing_db: Standard deviation of log-normal shadowing in dB, drawn once for each device.
        radio_fading: Small-scale fading: none, rayleigh, rician or nakagami.
        radio_rician_k_db: Power of the line of sight over that of all other paths, in dB, of rician.
        radio_nakagami_m: Shape m of nakagami, at least 0.5; 1 is rayleigh.
        radio_coherence_slots: Slots of a block in which the fading is constant.
        radio_bandwidth_hz: Bandwidth in Hz.
        radio_band: With several sub-channels: each has the bandwidth of its own, or it is divided among them.
        radio_noise_dbm_hz: Noise power density in dBm/Hz.
        radio_noise_figure_db: Noise figure of the server's receiver in dB.
        radio_device_noise_figure_db: Noise figure of a device's receiver in dB.
        radio_power_dbm: Transmit power of a device in dBm.
        radio_server_power_dbm: Transmit power of the server in dBm.
        radio_antenna_gain_db: Antenna gain of server and device together, in dB.
        radio_rate: Rate at an SNR: shannon, or the schemes of 3GPP's cqi table.
        radio_schemes: (SNR threshold in dB, bits per second and hertz) of each scheme of your own table.
        radio_gap_db: SNR gap to Shannon's capacity in dB, also of the thresholds of the cqi table.
        radio_slot_ms: Duration of a slot in milliseconds, also for joules. Follows --cpu-slot-ms if that is
            given. Refused with a --radio-threshold-db, where only joules would depend on it: --slot-seconds.
        radio_bits: Bits of an uplink. Default: those of the model's update.
        radio_broadcast_bits: Bits of a broadcast. Default: 32 for each number of the model.
        radio_threshold_db: SNR below which an uplink of fixed-rate is lost. Default: the SNR at which its
            bits just fit into its slots by Shannon's formula with the gap.
        radio_give_up_slots: Slots after which an uplink of rate-adaptive is lost.
        radio_quantile: Quantile of the random slots of an uplink that plans assume: just-in-time delivery,
            batteries, and the choice of the shortest uplink.
        radio_trace: CSV file of (device, slot or block, snr_db or bits) that replaces the model.
        radio_trace_end: After the end of the trace: refuse a deadline beyond it, or repeat the trace.
        radio_trace_sha256: SHA-256 of the trace file.
        radio_seed: Random seed of the radio. Default: that of the run.
    """

    radio_link: LinkMode | None = None
    radio_placement: Placement = "cell"
    radio_radius_m: float = 500.0
    radio_nearest_m: float = 10.0
    radio_distances_m: tuple[float, ...] = ()
    radio_path_loss: PathLoss = "umi"
    radio_exponent: float = 3.0
    radio_reference_db: float | None = None
    radio_carrier_ghz: float = 3.5
    radio_shadowing_db: float = 0.0
    radio_fading: FadingName = "rayleigh"
    radio_rician_k_db: float = 6.0
    radio_nakagami_m: float = 2.0
    radio_coherence_slots: int = 1
    radio_bandwidth_hz: float = 1e6
    radio_band: Band = "own"
    radio_noise_dbm_hz: float = -174.0
    radio_noise_figure_db: float = 5.0
    radio_device_noise_figure_db: float = 9.0
    radio_power_dbm: float = 23.0
    radio_server_power_dbm: float = 43.0
    radio_antenna_gain_db: float = 0.0
    radio_rate: RateName = "shannon"
    radio_schemes: Schemes = ()
    radio_gap_db: float = 0.0
    radio_slot_ms: float = 100.0
    radio_bits: int | None = None
    radio_broadcast_bits: int | None = None
    radio_threshold_db: float | None = None
    radio_give_up_slots: int = 10_000
    radio_quantile: float = 0.25
    radio_trace: str | None = None
    radio_trace_end: TraceEnd = "refuse"
    radio_trace_sha256: str | None = None
    radio_seed: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.radio_trace, Path):
            object.__setattr__(self, "radio_trace", str(self.radio_trace))
        check_fields(self)
        object.__setattr__(self, "radio_schemes", _schemes(self.radio_schemes))
        object.__setattr__(self, "radio_distances_m", _numbers("radio_distances_m", self.radio_distances_m))
        for name, (lowest, highest) in RANGES.items():
            value = getattr(self, name)
            if value is not None and not lowest <= value <= highest:
                raise InputError(name, value, f"a number from {lowest:,g} to {highest:,g}")
        for name in ("radio_coherence_slots", "radio_bits", "radio_broadcast_bits", "radio_give_up_slots"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), largest=LARGEST_BITS if "bits" in name else LARGEST)
        if self.radio_seed is not None:
            whole("radio_seed", self.radio_seed, 0, LARGEST_SEED)
        if self.radio_trace is not None and self.radio_distances_m:
            raise ConflictError("radio_trace", "radio_distances_m")
        refuse_unused(self)
        self._check_distances()
        if self.radio_trace is not None:
            self._look_at_trace(Path(self.radio_trace).absolute())

    def _check_distances(self) -> None:
        if self.radio_placement == "cell" and self.radio_nearest_m >= self.radio_radius_m:
            allowed = f"below radio_radius_m, {self.radio_radius_m:g}"
            raise InputError("radio_nearest_m", f"{self.radio_nearest_m:g}", allowed)
        for device, distance in enumerate(self.radio_distances_m, start=1):
            lowest, highest = RANGES["radio_radius_m"]
            if not lowest <= distance <= highest:
                allowed = f"numbers from {lowest:g} to {highest:,g}"
                raise InputError("radio_distances_m", f"{distance} of device {device}", allowed)
        drawn = self.radio_trace is None and not self.radio_distances_m
        if drawn and self.radio_path_loss in URBAN and self.radio_radius_m > FARTHEST:
            allowed = f"at most {FARTHEST:g} with radio_path_loss {self.radio_path_loss}"
            raise InputError("radio_radius_m", f"{self.radio_radius_m:g}", allowed)

    def _look_at_trace(self, path: Path) -> None:
        """Keep the absolute name of the trace and, unless it is known already, its SHA-256."""
        object.__setattr__(self, "radio_trace", str(path))
        if self.radio_trace_sha256 is None:
            object.__setattr__(self, "radio_trace_sha256", file_sha256(path))

    @property
    def depends_on_seed(self) -> bool:
        """True if another seed gives other channels."""
        if self.radio_link is None or self.radio_trace is not None:
            return False
        placed = self.radio_placement == "cell" and not self.radio_distances_m
        return placed or bool(self.radio_shadowing_db) or self.radio_fading != "none"

    def unused(self) -> dict[str, str]:
        """Return the options without effect on this radio, with the reason."""
        names = [field.name for field in fields(self)]
        if self.radio_link is None:
            return dict.fromkeys([name for name in names if name != "radio_link"], "without radio_link")
        found: dict[str, str] = {}
        if self.radio_trace is not None:
            found |= dict.fromkeys(MODEL_OPTIONS, "with radio_trace")
        else:
            found |= dict.fromkeys(("radio_trace_end", "radio_trace_sha256"), "without radio_trace")
        if self.radio_distances_m:
            given = ("radio_placement", "radio_radius_m", "radio_nearest_m")
            found |= dict.fromkeys(given, "with radio_distances_m")
        elif self.radio_placement == "ring":
            found["radio_nearest_m"] = "with radio_placement ring"
        for name, (owner, values) in OWNERS.items():
            if getattr(self, owner) not in values:
                found.setdefault(name, f"with {owner} {getattr(self, owner)}")
        if self.radio_schemes:
            found |= dict.fromkeys(("radio_rate", "radio_gap_db"), "with radio_schemes")
        if not needs_slot(self.radio_link, self.radio_threshold_db):
            names = ["radio_bits", "radio_gap_db", "radio_slot_ms"]
            found |= dict.fromkeys(names, "with radio_threshold_db")
        if not self.depends_on_seed:
            found["radio_seed"] = "if nothing is drawn for the radio"
        return found


def needs_slot(link: str | None, threshold_db: float | None) -> bool:
    """Return whether uplinks depend on the duration of a slot.

    At a fixed rate it decides only which SNR is needed, so not if that is given.
    """
    return link == "rate-adaptive" or (link == "fixed-rate" and threshold_db is None)


LARGEST_BITS = 10**15
# The smallest and largest value of each number.
RANGES: dict[str, tuple[float, float]] = {
    "radio_radius_m": (0.1, 1e7),
    "radio_nearest_m": (0.1, 1e7),
    "radio_exponent": (0.0, 10.0),
    "radio_reference_db": (-200.0, 300.0),
    "radio_carrier_ghz": (0.01, 1000.0),
    "radio_shadowing_db": (0.0, 30.0),
    "radio_rician_k_db": (-100.0, 100.0),
    "radio_nakagami_m": (0.5, 1000.0),
    "radio_bandwidth_hz": (1.0, 1e12),
    "radio_noise_dbm_hz": (-300.0, 100.0),
    "radio_noise_figure_db": (0.0, 100.0),
    "radio_device_noise_figure_db": (0.0, 100.0),
    "radio_power_dbm": (-200.0, 200.0),
    "radio_server_power_dbm": (-200.0, 200.0),
    "radio_antenna_gain_db": (-200.0, 200.0),
    "radio_gap_db": (0.0, 60.0),
    "radio_slot_ms": (1e-3, 1e9),
    "radio_threshold_db": (-200.0, 200.0),
    "radio_quantile": (0.01, 0.99),
}
# Options that have an effect only with some values of another.
OWNERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "radio_exponent": ("radio_path_loss", ("log-distance",)),
    "radio_reference_db": ("radio_path_loss", ("log-distance",)),
    "radio_rician_k_db": ("radio_fading", ("rician",)),
    "radio_nakagami_m": ("radio_fading", ("nakagami",)),
    "radio_coherence_slots": ("radio_fading", ("rayleigh", "rician", "nakagami")),
    "radio_threshold_db": ("radio_link", ("fixed-rate",)),
    "radio_give_up_slots": ("radio_link", ("rate-adaptive",)),
    "radio_quantile": ("radio_link", ("rate-adaptive",)),
    # Broadcasts at a fixed rate take fixed slots and always arrive.
    "radio_broadcast_bits": ("radio_link", ("rate-adaptive",)),
    "radio_server_power_dbm": ("radio_link", ("rate-adaptive",)),
    "radio_device_noise_figure_db": ("radio_link", ("rate-adaptive",)),
    "radio_rate": ("radio_link", ("rate-adaptive",)),
    "radio_schemes": ("radio_link", ("rate-adaptive",)),
}
# Options of the model, which a trace replaces; its blocks have radio_coherence_slots.
MODEL_OPTIONS = (
    *("radio_placement", "radio_radius_m", "radio_nearest_m", "radio_distances_m", "radio_path_loss"),
    *("radio_exponent", "radio_reference_db", "radio_carrier_ghz", "radio_shadowing_db", "radio_fading"),
    *("radio_rician_k_db", "radio_nakagami_m", "radio_noise_dbm_hz", "radio_antenna_gain_db"),
)


def _numbers(name: str, values: tuple[object, ...]) -> tuple[float, ...]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(name, value, "a list of numbers")
    return tuple(float(value) for value in values if isinstance(value, int | float))


def _schemes(value: object) -> Schemes:
    """Return (threshold, efficiency) pairs, both ascending."""
    allowed = (
        f"pairs of an SNR threshold of at most ±{MOST_DECIBELS} dB and at most {MOST_EFFICIENCY} bits per "
        "second and hertz, both ascending"
    )
    found: list[tuple[float, float]] = []
    for pair in value if isinstance(value, tuple | list) else ():
        numbers = pair if isinstance(pair, tuple | list) else ()
        if len(numbers) != 2 or any(type(number) not in (int, float) for number in numbers):
            raise InputError("radio_schemes", pair, allowed)
        threshold, efficiency = numbers
        possible = abs(threshold) <= MOST_DECIBELS and 0 < efficiency <= MOST_EFFICIENCY
        if not possible or (found and (threshold <= found[-1][0] or efficiency <= found[-1][1])):
            raise InputError("radio_schemes", pair, allowed)
        found.append((float(threshold), float(efficiency)))
    return tuple(found)
