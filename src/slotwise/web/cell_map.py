"""The map of a cell: where the devices of a radio link are, how well they are heard, and what came of it."""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from slotwise.radio import ChannelModel, RadioOptions
from slotwise.runs.config import RunConfig
from slotwise.schedule import Timeline

if TYPE_CHECKING:
    from slotwise.radio import RadioLink
    from slotwise.radio.channel import ModelConditions

GOLDEN_ANGLE = pi * (3 - sqrt(5))  # radians: directions that never meet, however many there are


def cell_map(config: RunConfig, timeline: Timeline) -> dict[str, Any] | None:
    """Return distances, directions, mean SNRs and uplinks of all devices; None without a model of the cell.

    The model knows distances only. Directions are for the drawing: device n is n golden angles around.
    """
    options = config.link
    if not isinstance(options, RadioOptions) or not isinstance(options.channel, ChannelModel):
        return None
    link = cast("RadioLink", config.make_link())
    snr_db = cast("ModelConditions", link.conditions).mean_snr_db
    cell = options.channel.cell(config.channel.devices, config.seed)
    numbers = np.arange(1, config.channel.devices + 1)
    return {
        "distance_m": _rounded(cell.distance_m),
        "angle": _rounded(numbers * GOLDEN_ANGLE % (2 * pi), 4),
        "snr_db": _rounded(snr_db),
        "threshold_db": float(round(10 * np.log10(link.threshold), 1)) if link.fixed_slots else None,
        **_uplinks(timeline),
    }


def _uplinks(timeline: Timeline) -> dict[str, list[Any]]:
    """Return for each device the uplinks that arrived, those that were lost, and their mean slots."""
    devices = timeline.scenario.devices
    lost = timeline.lost[:, 1]
    sent = np.concatenate([timeline.device, lost])
    slots = np.concatenate([timeline.end - timeline.start, timeline.lost[:, 4] - timeline.lost[:, 3]])
    count = np.bincount(sent, minlength=devices + 1)[1:]
    total = np.bincount(sent, weights=slots, minlength=devices + 1)[1:]
    failed = np.bincount(lost, minlength=devices + 1)[1:]
    mean = [round(t / c, 2) if c else None for t, c in zip(total.tolist(), count.tolist(), strict=True)]
    return {"arrived": (count - failed).tolist(), "lost": failed.tolist(), "mean_slots": mean}


def _rounded(values: Any, digits: int = 1) -> list[float]:
    return [float(value) for value in np.round(values, digits)]
