"""Compiled draws of Rayleigh fading for the loop of `fading_kernel`: scores of a block, bits of one uplink.

Drawing a whole table with numpy takes most of the time of a simulation with short blocks. Here a block is
drawn when a sender is chosen in it, in one vectorised loop with approximate logarithms. The choice is the
exact one all the same: where two scores are too close to tell which is larger, the loop asks the link.
"""

from __future__ import annotations

from math import log1p, log2, sqrt
from typing import Any

import numpy as np
from numba import njit

from slotwise.fleet.chances import FIRST, SECOND, STEP

CLOSE = 4e-8  # relative; ten times the largest error of a score
CLOSE_BITS = 1e-12  # relative; a thousand times the rounding errors of log1p and log2
UNKNOWN = -1  # bits that rounding errors decide

_STEP, _FIRST, _SECOND = (np.uint64(number) for number in (STEP, FIRST, SECOND))
_11, _12, _27, _30, _31, _52 = (np.uint64(shift) for shift in (11, 12, 27, 30, 31, 52))
# The bits of a float64: sign, 11 of the exponent plus 1023, 52 of the mantissa.
_MANTISSA, _EXPONENT_OF_1 = np.uint64(2**52 - 1), np.uint64(1023 << 52)
_EXPONENT_OF_2_52 = np.uint64((1023 + 52) << 52)
_LN2, _SQRT2 = np.log(2.0), sqrt(2.0)


@njit(cache=True, inline="always")
def mixed(state: Any, block: Any) -> Any:
    """Return the state after one more part of the key, as `slotwise.fleet.chances.mixed_all` does."""
    state = state + np.uint64(block) + _STEP
    state = (state ^ (state >> _30)) * _FIRST
    state = (state ^ (state >> _27)) * _SECOND
    return state ^ (state >> _31)


@njit(cache=True, inline="always")
def approximate_log(x: float) -> float:
    """Return ln x of a normal x > 0 with a relative error below 2.1e-9, without a branch or a call.

    x = m·2^e with m from sqrt(1/2) to sqrt(2), and ln m = 2 artanh((m − 1) / (m + 1)), of which five terms of
    the series are taken: |s| is at most 0.172, and the next would be s^11 / 11.
    """
    bits = np.float64(x).view(np.uint64)
    # An integer below 2^52 as a float: its bits are the mantissa of 2^52 plus it.
    exponent = np.uint64((bits >> _52) | _EXPONENT_OF_2_52).view(np.float64) - (2.0**52 + 1023)
    mantissa = np.uint64((bits & _MANTISSA) | _EXPONENT_OF_1).view(np.float64)
    large = mantissa > _SQRT2
    mantissa = 0.5 * mantissa if large else mantissa
    exponent = exponent + 1.0 if large else exponent
    s = (mantissa - 1.0) / (mantissa + 1.0)
    q = s * s
    return exponent * _LN2 + 2 * s * (1 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q / 9))))  # type: ignore[no-any-return]


@njit(cache=True, error_model="numpy", fastmath={"contract", "nsz"})
def draw_scores(states: Any, mean: Any, block: int, by_rate: bool, scores: Any) -> None:
    """Fill in the SNR of every device in a block, or log2(1 + SNR), with a relative error of `CLOSE`/10."""
    for n in range(len(scores)):
        # 1 − u, of a number u in [0, 1) that has the first 52 bits of the state.
        # An exact draw has 53. These fill a mantissa, which saves the conversion from an integer.
        rest = 2.0 - np.uint64((mixed(states[n], block) >> _12) | _EXPONENT_OF_1).view(np.float64)
        snr = -approximate_log(rest) * mean[n]
        scores[n] = approximate_log(1.0 + snr) * (1 / _LN2) if by_rate else snr


@njit(cache=True, error_model="numpy")
def drawn_bits(draws: Any, block: int, n: int) -> int:
    """Return the bits of a slot of device n+1 in a block; `UNKNOWN` if rounding errors decide them."""
    # The same formulas as in numpy, whose logarithms may differ in the last bits: near a threshold
    # the link itself decides.
    unit = float(mixed(draws.states[n], block) >> _11) * 2.0**-53
    snr = -log1p(-unit) * draws.mean[n]
    if len(draws.thresholds):
        place = np.searchsorted(draws.thresholds, snr, side="right")
        for near in range(max(0, place - 1), min(place + 1, len(draws.thresholds))):
            if abs(snr - draws.thresholds[near]) <= CLOSE_BITS * draws.thresholds[near]:
                return UNKNOWN
        return draws.bits[place - 1] if place else 0
    bits = log2(1 + snr / draws.gap) * draws.scale
    if bits >= 2.0**53:  # beyond, not every whole number is a float
        return UNKNOWN
    if abs(bits - round(bits)) <= CLOSE_BITS * (bits + draws.scale):
        return UNKNOWN
    return int(np.floor(bits))
