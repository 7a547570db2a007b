"""Numbers of every device of a cell, as columns for tables and JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.fleet.chances import Floats
from slotwise.radio.cell import make_cell
from slotwise.radio.planned_durations import quantile_of, uplink_durations
from slotwise.radio.radio_config import RadioConfig
from slotwise.radio.radio_link import RadioLink
from slotwise.scenario import Scenario

BLOCKS = 1_000  # in which means and losses are counted
TOGETHER = 10_000  # devices whose blocks are drawn at once


def cell_columns(
    radio: RadioConfig, scenario: Scenario, link: RadioLink, seed: int
) -> dict[str, NDArray[Any]]:
    """Return one array per quantity, with an entry for each device.

    Distance and losses are those of the model; the rest is counted in the first 1,000 blocks: the mean SNR,
    the share of blocks in which a slot carries nothing and, at an adaptive rate, the mean bits of a slot and
    the 10th, 50th and 90th percentile of the slots of an uplink.
    """
    columns: dict[str, NDArray[Any]] = {"device": np.arange(1, link.devices + 1)}
    if radio.radio_trace is None:
        cell = make_cell(radio, scenario.devices, seed, scenario.sub_channels)
        columns["distance_m"] = cell.distance_m
        columns["path_loss_db"] = cell.path_loss_db + cell.shadowing_db
    snr, outage, bits = _means(link)
    columns["snr_db"] = 10 * np.log10(np.maximum(snr, 1e-30))
    columns["outage"] = outage
    if not link.fixed_slots:
        durations = uplink_durations(link)
        columns["bits_per_slot"] = bits
        for percent in (10, 50, 90):
            columns[f"slots_{percent}%"] = quantile_of(durations, percent / 100)
    return columns


def _means(link: RadioLink) -> list[Floats]:
    """Return the mean SNR, the share of blocks without bits and the mean bits of a slot of every device."""
    parts = []
    for first in range(0, link.devices, TOGETHER):  # all at once would take gigabytes
        places = np.arange(first, min(first + TOGETHER, link.devices))
        snr = link.conditions.snr(0, BLOCKS, places=places)
        bits = link.uplink_bits(snr)
        parts.append((snr.mean(axis=0), (bits == 0).mean(axis=0), bits.mean(axis=0)))
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def cell_summary(columns: dict[str, NDArray[Any]]) -> str:
    """Return the mean over the devices in one line of text."""
    parts = [f"mean SNR {columns['snr_db'].mean():.1f} dB", f"outage {columns['outage'].mean():.1%}"]
    if "slots_50%" in columns:
        slots = columns["slots_50%"]
        span = f"{slots.min():,}" + (f" to {slots.max():,}" if slots.max() > slots.min() else "")
        parts.append(f"median slots of an uplink {span}")
    count = len(columns["device"])
    return f"{count:,} device{'s' * (count != 1)}: " + ", ".join(parts)
