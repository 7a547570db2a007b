"""Decay of the step size over a run: a factor between 0 and 1 as a function of the periods elapsed."""

from __future__ import annotations

from math import cos, floor, pi
from typing import Literal

RateDecay = Literal["constant", "step", "exponential", "inverse", "cosine"]
RateUnit = Literal["round", "slot", "training"]


def rate_factor(decay: RateDecay, periods: float) -> float:
    """Return the factor after some periods: 1 at the start, and never rising."""
    match decay:
        case "constant":
            return 1.0
        case "step":
            return 0.5 ** min(floor(periods), 1000)
        case "exponential":
            return float(0.5 ** min(periods, 1000.0))
        case "inverse":
            return 1 / (1 + periods)
        case "cosine":
            return 0.5 * (1 + cos(pi * min(1.0, periods)))
