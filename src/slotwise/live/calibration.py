"""calibrate: from the measured times of a live run to a fleet that can be planned, simulated and trained."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import InputError, UserError
from slotwise.base.files import check_writable, write_atomically, write_csv
from slotwise.fleet import Fleet
from slotwise.live.server.timings import FILE, Timing
from slotwise.options import Range
from slotwise.options.checks import Value
from slotwise.runs import SavedRun

SLACK = 1.1  # of a slot that is chosen here: it is this much longer than the median uplink
ROUNDING = 1e-9  # of a slot, so that a time of exactly one slot is one slot


@dataclass(frozen=True)
class DeviceTimes:
    """Times of one device in seconds, each as the quantile asked for; NaN if there is no measurement."""

    device: int
    turns: int  # grants of the channel
    lost: int  # of them without a good update
    compute_seconds: float
    uplink_seconds: float


@dataclass(frozen=True)
class Calibration:
    """Fleet of a live run as it was measured.

    Attributes:
        slot_ms: Milliseconds of a slot.
        devices: Times of each device.
        compute_slots: Slots of a training of each device.
        link_slots: Slots of an uplink of each device.
        broadcast_slots: Slots of a broadcast.
        uplink_loss: Share of grants without a good update, of all devices.
        device_uplink_loss: That share of each device.
        unmeasured: Devices without measurements; they have the median slots of the others.
    """

    slot_ms: float
    devices: tuple[DeviceTimes, ...]
    compute_slots: tuple[int, ...]
    link_slots: tuple[int, ...]
    broadcast_slots: int
    uplink_loss: float
    device_uplink_loss: tuple[float, ...]
    unmeasured: tuple[int, ...]

    def fleet(self) -> Fleet:
        """Return the fleet, for `simulate` and `plan`."""
        compute, link, losses = self.compute_slots, self.link_slots, self.device_uplink_loss
        return Fleet(compute_slots=compute, link_slots=link, device_uplink_loss=losses if any(losses) else ())

    def write(self, path: Path | str) -> Path:
        """Write the fleet file, and a TOML file next to it with all options; return the latter's path.

        The latter has the slots of a broadcast too, and the losses, which a live server would not take.
        """
        path = Path(path)
        check_fleet_file(path)
        rows = zip(range(1, len(self.devices) + 1), self.compute_slots, self.link_slots, strict=True)
        write_csv(path, ("device", "compute_slots", "link_slots"), rows)
        options: dict[str, object] = {
            "devices": len(self.devices),
            "link-slots": self.broadcast_slots,
            "device-compute-slots": [*self.compute_slots],
            "device-link-slots": [*self.link_slots],
        }
        if self.uplink_loss:
            options["device-uplink-loss"] = [*self.device_uplink_loss]
        settings = path.with_suffix(".toml")
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in options.items()]
        text = f"# Measured by slotwise calibrate; a slot has {self.slot_ms:g} ms.\n" + "".join(lines)
        write_atomically(settings, text)
        return settings


def check_fleet_file(path: Path) -> None:
    """Raise an InputError if the fleet cannot be written to ``path``."""
    if path.suffix != ".csv":
        raise InputError("out", path, "a file that ends in .csv")
    check_writable(path)


@dataclass(frozen=True, kw_only=True)
class CalibrationConfig(Value):
    """Options of the measurement of a fleet.

    Attributes:
        slot_ms: Milliseconds of a slot. Default: those of the run or, if its slots had no fixed length, a
            little more than the median uplink divided by the run's link slots.
        quantile: Share of a device's trainings and uplinks that must fit into its slots.
    """

    slot_ms: Annotated[float | None, Range(above=0)] = None
    quantile: Annotated[float, Range(above=0, most=1)] = 0.9


def calibrate(run: Path | str, **options: Any) -> Calibration:
    """Measure the fleet of the live run in a folder; ``options`` are fields of `CalibrationConfig`.

    Raises:
        UserError: the folder is not that of a live run, or nothing was measured in it.
    """
    chosen = CalibrationConfig(**options)
    slot_ms, quantile = chosen.slot_ms, chosen.quantile
    saved = SavedRun.read(run)
    config = saved.config
    if not saved.is_live:
        raise UserError(f"{run}: a simulated run; only a live run measures devices")
    turns = read_timings(saved.path / FILE, config.channel.devices)
    times = tuple(_times(device, turns, quantile) for device in range(1, config.channel.devices + 1))
    uplinks = [one.uplink_seconds for one in times if isfinite(one.uplink_seconds)]
    if not uplinks:
        raise UserError(f"{run}: no update has arrived in this run")
    slot_ms = slot_ms or dict(saved.description.get("live_options", {})).get("slot_ms")
    if slot_ms is None:
        slot_ms = float(f"{1000 * SLACK * float(np.median(uplinks)) / config.channel.link_slots:.3g}")
    compute, unmeasured = _slots([one.compute_seconds for one in times], slot_ms)
    link, _ = _slots([one.uplink_seconds for one in times], slot_ms)
    # The time from broadcast to ``ready`` without the training is what the model took to the device.
    broadcast = _quantile(np.array([turn.ready_seconds - turn.compute_seconds for turn in turns]), quantile)
    received = _whole_slots(broadcast, slot_ms) if isfinite(broadcast) else config.channel.link_slots
    return Calibration(
        slot_ms=slot_ms,
        devices=times,
        compute_slots=compute,
        link_slots=link,
        broadcast_slots=received,
        uplink_loss=_share(sum(one.lost for one in times), len(turns)),
        device_uplink_loss=tuple(_share(one.lost, one.turns) for one in times),
        unmeasured=unmeasured,
    )


def read_timings(path: Path, devices: int) -> list[Timing]:
    """Return the turns in the file of a live run; a line that a crash has cut off is left out."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            header, *rows = csv.reader(file)
    except (OSError, ValueError, csv.Error):
        raise UserError(f"{path}: cannot be read; runs of earlier versions have no such file") from None
    if tuple(header) != Timing._fields:
        raise UserError(f"{path}: must have the columns {', '.join(Timing._fields)}")
    found = []
    for row in rows:
        try:
            timing = _timing(row)
        except (ValueError, TypeError):
            continue
        if 1 <= timing.device <= devices:
            found.append(timing)
    if not found:
        raise UserError(f"{path}: no measurements")
    return found


def _timing(row: Sequence[str]) -> Timing:
    device, round_number, version, training, computed, ready, sent, lost = row
    counts = (int(device), int(round_number), int(version), int(training))
    measured = _seconds(ready)
    # A device may say anything of its training. The server has measured from the broadcast to its end, which
    # is longer; without this measurement the training is not known.
    said = min(_seconds(computed), measured) if isfinite(measured) else np.nan
    return Timing(*counts, said, measured, _seconds(sent), int(lost))


def _seconds(text: str) -> float:
    return float(text) if text else np.nan


def _times(device: int, turns: Sequence[Timing], quantile: float) -> DeviceTimes:
    own = [turn for turn in turns if turn.device == device]
    computed = np.array([turn.compute_seconds for turn in own])
    if not np.isfinite(computed).any():  # a device of protocol 1 does not say how long its trainings took
        computed = np.array([turn.ready_seconds for turn in own])
    sent = np.array([turn.uplink_seconds for turn in own])
    lost = sum(turn.lost for turn in own)
    return DeviceTimes(device, len(own), lost, _quantile(computed, quantile), _quantile(sent, quantile))


def _quantile(values: NDArray[np.float64], quantile: float) -> float:
    """Return the smallest value that so large a share of the known values does not exceed."""
    known = values[np.isfinite(values)]
    return float(np.quantile(known, quantile, method="inverted_cdf")) if known.size else np.nan


def _slots(seconds: Sequence[float], slot_ms: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the slots of each device, and the devices without a measurement, which have the median."""
    known = [_whole_slots(value, slot_ms) for value in seconds if isfinite(value)]
    usual = sorted(known)[len(known) // 2] if known else 1
    slots = tuple(_whole_slots(value, slot_ms) if isfinite(value) else usual for value in seconds)
    return slots, tuple(number for number, value in enumerate(seconds, 1) if not isfinite(value))


def _share(lost: int, turns: int) -> float:
    """Return the share of lost uplinks; below 1, because an uplink that is never received has no end."""
    return round(lost / max(turns, lost + 1), 6)


def _whole_slots(seconds: float, slot_ms: float) -> int:
    return max(1, ceil(1000 * seconds / slot_ms - ROUNDING))
