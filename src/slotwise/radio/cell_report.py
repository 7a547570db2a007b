"""Numbers of every device of a cell, as columns for tables and JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.radio.cell import make_cell
from slotwise.radio.planned_durations import quantile_of, uplink_durations
from slotwise.radio.radio_config import RadioConfig
from slotwise.radio.radio_link import RadioLink
from slotwise.scenario import Scenario

BLOCKS = 1_000  # in which means and losses are counted


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
    snr = link.conditions.snr(0, BLOCKS)
    bits = link.uplink_bits(snr)
    columns["snr_db"] = 10 * np.log10(np.maximum(snr.mean(axis=0), 1e-30))
    columns["outage"] = (bits == 0).mean(axis=0)
    if not link.fixed_slots:
        durations = uplink_durations(link)
        columns["bits_per_slot"] = bits.mean(axis=0)
        for percent in (10, 50, 90):
            columns[f"slots_{percent}%"] = quantile_of(durations, percent / 100)
    return columns


def cell_summary(columns: dict[str, NDArray[Any]]) -> str:
    """Return the mean over the devices in one line of text."""
    parts = [f"mean SNR {columns['snr_db'].mean():.1f} dB", f"outage {columns['outage'].mean():.1%}"]
    if "slots_50%" in columns:
        slots = columns["slots_50%"]
        span = f"{slots.min():,}" + (f" to {slots.max():,}" if slots.max() > slots.min() else "")
        parts.append(f"median slots of an uplink {span}")
    count = len(columns["device"])
    return f"{count:,} device{'s' * (count != 1)}: " + ", ".join(parts)
