"""Compiled draws of fading (`RayleighDraws`): who has the best channel, and how far an uplink gets.

Numbers are drawn where they are needed and only there. The answers are those of the tables that numpy makes,
to the bit: where rounding errors of a logarithm could decide, the answer is that the link has to be asked.
"""

from __future__ import annotations

from math import cos, floor, log, log1p, log2, pi, sqrt
from typing import Any

import numpy as np
from numba import njit

from slotwise.base.random_kernel import mixed

NO_DEVICE, NOT_KNOWN = -1, -2  # instead of a device that is chosen
UNKNOWN = -1  # bits that rounding errors decide
CLOSE = 1e-11  # relative; a thousand times the rounding errors of a score
CLOSE_BITS = 1e-12  # relative; a thousand times those of log1p and log2
_MOST_EXACT = 2.0**53  # beyond, not every whole number is a float
_TOGETHER = 256  # devices whose bounds are compared at once

_11 = np.uint64(11)
_ONE = np.int64(1023 << 52)  # the bits of 1.0 as a float64: an exponent of 11 bits and 52 of the mantissa
_BENT = 0.0861  # the most by which log2 exceeds its chords between powers of two
_LN2 = log(2.0)


@njit(cache=True, error_model="numpy")
def drawn_snr(draws: Any, n: int, block: int) -> tuple[float, float]:
    """Return the SNR of device n+1 in a block, and a number that its rounding errors are relative to."""
    state, sight = mixed(draws.states[n], block), draws.sight
    power = -log1p(-(float(state >> _11) * 2.0**-53))
    if sight == 0:
        return power * draws.mean[n], power * draws.mean[n]
    # As in `Rician`: both paths may cancel.
    angle = 2 * pi * (float(mixed(state, 1) >> _11) * 2.0**-53)
    gain = max(0.0, (sight + power + 2 * sqrt(sight * power) * cos(angle)) / (sight + 1))
    return gain * draws.mean[n], (sight + power) * draws.mean[n]


@njit(cache=True, error_model="numpy")
def drawn_bits(draws: Any, places: Any, block: int) -> int:
    """Return the bits of a slot to the worst of some devices; `UNKNOWN` if rounding errors decide them."""
    snr, error = np.inf, 0.0
    for n in places:
        one, size = drawn_snr(draws, n, block)
        snr, error = min(snr, one), max(error, CLOSE_BITS * size)
    if len(draws.thresholds):
        low = np.searchsorted(draws.thresholds, snr - error, side="right")
        if low != np.searchsorted(draws.thresholds, snr + error, side="right"):
            return UNKNOWN
        return draws.bits[low - 1] if low else 0
    bits = log2(1 + snr / draws.gap) * draws.scale
    # The slope of the logarithm is at most 1.5 / (gap + SNR).
    error = CLOSE_BITS * (bits + draws.scale) + 1.5 * error / (draws.gap + snr) * draws.scale
    if bits >= _MOST_EXACT or floor(bits - error) != floor(bits + error):
        return UNKNOWN
    return floor(bits)  # type: ignore[no-any-return]


@njit(cache=True, error_model="numpy")
def follow(draws: Any, places: Any, slot: int, end: int, each: int, wanted: int) -> int:
    """Return the slots of a transmission to the worst of some devices, negative if it is lost.

    It starts in ``slot``, in blocks of ``each`` slots, and is lost if its bits are not through by ``end``;
    with 0 bits ``wanted``, if a slot carries none. 0 is the answer if the link has to be asked.
    """
    start = slot
    while slot < end:
        block = slot // each
        span = min((block + 1) * each, end) - slot
        bits = drawn_bits(draws, places, block)
        if bits < 0:
            return 0
        if wanted == 0:
            if bits == 0:
                return start - end
        else:
            # More than all that is left makes no difference, and the product might overflow.
            bits = min(bits, wanted)
            if bits * span >= wanted:
                return slot - start + -(-wanted // bits)
            wanted -= bits * span
            if wanted == 0:
                return slot + span - start
        slot += span
    return end - start if wanted == 0 else start - end


@njit(cache=True, error_model="numpy")
def durations(draws: Any, samples: int, apart: int, each: int, wanted: int) -> Any:
    """Return what `follow` does for some uplinks of every device: [N, samples].

    They start every ``apart`` slots, and are lost if they do not end before the next starts.
    """
    place, slots = np.zeros(1, dtype=np.int64), np.empty((len(draws.states), samples), dtype=np.int64)
    for n in range(len(draws.states)):
        place[0] = n
        for sample in range(samples):
            slots[n, sample] = follow(draws, place, sample * apart, (sample + 1) * apart, each, wanted)
    return slots


@njit(cache=True, error_model="numpy", fastmath={"contract", "nnan", "nsz"})
def bound_scores(draws: Any, block: int, ready: Any, share: Any, by_rate: bool, bounds: Any) -> None:
    """Fill in a lower and an upper bound of the score of every device; −1 for those that are not ready.

    The bits of a float64 are its logarithm, but for straight lines between the powers of two: log2 exceeds
    them by at most `_BENT`. So no logarithm is taken, and the loop is compiled to vectors. With a line of
    sight, paths add up or cancel at most.
    """
    states, mean, least, most = draws.states, draws.mean, bounds[0], bounds[1]
    sight, root = draws.sight, sqrt(draws.sight)
    for n in range(len(ready)):
        rest = 1.0 - float(np.int64(mixed(states[n], block) >> _11)) * 2.0**-53
        above = float(_ONE - np.float64(rest).view(np.int64)) * 2.0**-52  # at least −log2(rest)
        high, low = above * _LN2, max(0.0, above - _BENT) * _LN2
        if sight > 0:
            high, low = (root + sqrt(high)) ** 2 / (sight + 1), 0.0
        high, low = high * mean[n], low * mean[n]
        if by_rate:
            high = float(np.float64(1.0 + high).view(np.int64) - _ONE) * 2.0**-52 + _BENT
            low = float(np.float64(1.0 + low).view(np.int64) - _ONE) * 2.0**-52
        least[n] = low * share[n] if ready[n] else -1.0
        most[n] = high * share[n] if ready[n] else -1.0


@njit(cache=True)
def largest(values: Any) -> Any:
    """Return the maximum of an array of int64; in a function of its own it is compiled to vectors."""
    found = values[0]
    for value in values:
        found = max(found, value)
    return found


@njit(cache=True, error_model="numpy")
def best_channel(draws: Any, block: int, ready: Any, share: Any, by_rate: bool, bounds: Any) -> int:
    """Return the ready device with the largest SNR, or log2(1 + SNR), times its share.

    `NO_DEVICE` if none is ready, and `NOT_KNOWN` if another is so close that it might be the larger one.
    ``bounds`` is an array [2, N], which is filled in.
    """
    bound_scores(draws, block, ready, share, by_rate, bounds)
    # Floats of at least 0 have the order of their bits.
    limit = np.int64(largest(bounds[0].view(np.int64))).view(np.float64) * (1 - 1e-9) - 1e-12
    best, highest, second, size = NO_DEVICE, -1.0, -1.0, 0.0
    for first in range(0, len(ready), _TOGETHER):
        part = bounds[1, first : first + _TOGETHER]
        if np.int64(largest(part.view(np.int64))).view(np.float64) < limit:
            continue
        for n in range(first, first + len(part)):
            if ready[n] and bounds[1, n] >= limit:
                snr, errors = drawn_snr(draws, n, block)
                score = (log2(1.0 + snr) if by_rate else snr) * share[n]
                second, size = max(second, min(score, highest)), max(size, errors * share[n])
                if score > highest:
                    best, highest = n, score
                    limit = max(limit, score * (1 - 1e-9) - 1e-12)
    # 1 + SNR is rounded to 2e-16.
    return NOT_KNOWN if second >= 0 and second >= highest - CLOSE * (highest + size) - 1e-15 else best
