"""Compiled draws of fading (`FadingDraws`): who has the best channel, and how far an uplink gets.

Numbers are drawn where they are needed and only there. The answers are those of the tables that numpy makes,
to the bit: where rounding errors of a logarithm could decide, the answer is that the link has to be asked.
"""

from __future__ import annotations

from math import cos, floor, log, log1p, log2, pi, sqrt
from typing import Any

import numpy as np
from numba import njit

from slotwise.base.random_kernel import mixed
from slotwise.schedule.link import FadingDraws, Integers

NO_DEVICE, NOT_KNOWN = -1, -2  # instead of a device that is chosen
UNKNOWN = -1  # bits that rounding errors decide
CLOSE = 1e-11  # relative; a thousand times the rounding errors of a score
CLOSE_BITS = 1e-12  # relative; a thousand times those of log1p and log2
_MOST_EXACT = 2.0**53  # beyond, not every whole number is a float
TOGETHER = 256  # devices whose bounds are compared at once
_SMALLEST = 2.0**-54  # in place of 0 where a logarithm is taken
_ROUNDED = 1 + 1e-9  # more than rounding errors

_11 = np.uint64(11)
_ONE = np.int64(1023 << 52)  # the bits of 1.0 as a float64: an exponent of 11 bits and 52 of the mantissa
_BENT = 0.0861  # the most by which log2 exceeds its chords between powers of two
_LN2 = log(2.0)
_NOTHING = np.int64(-(2**63))  # the bits of −0.0


@njit(cache=True, error_model="numpy")
def drawn_snr(draws: Any, n: int, block: int) -> tuple[float, float]:
    """Return the SNR of device n+1 in a block, and a number that its rounding errors are relative to."""
    state, sight, mean = mixed(draws.states[n], block), draws.sight, draws.mean[n]
    if draws.shape > 0:
        gain, size = nakagami_gain(state, draws.shape)
        return gain * mean, size * mean
    if sight == np.inf:
        return mean, mean
    power = -log1p(-(float(state >> _11) * 2.0**-53))
    if sight == 0:
        return power * mean, power * mean
    # As in `Rician`: both paths may cancel.
    angle = 2 * pi * (float(mixed(state, 1) >> _11) * 2.0**-53)
    gain = max(0.0, (sight + power + 2 * sqrt(sight * power) * cos(angle)) / (sight + 1))
    return gain * mean, (sight + power) * mean


@njit(cache=True, error_model="numpy")
def nakagami_gain(key: Any, m: float) -> tuple[float, float]:
    """Return a gain as `Nakagami` draws it, and the size of its rounding errors.

    The size is infinite if rounding errors decide whether an attempt is rejected.
    """
    d = (m if m >= 1 else m + 1) - 1 / 3
    c, factor, attempt = 1 / sqrt(9 * d), d / m, 0
    if m < 1:
        factor *= max(float(key >> _11) * 2.0**-53, _SMALLEST) ** (1 / m)
    while True:
        attempt += 1
        first = mixed(key, attempt)
        second = mixed(first, 1)
        radius = sqrt(-2 * log(max(float(first >> _11) * 2.0**-53, _SMALLEST)))
        normal = radius * cos(2 * pi * (float(second >> _11) * 2.0**-53))
        base = 1 + c * normal
        if abs(base) < 1e-6:
            return 0.0, np.inf
        if base < 0:
            continue
        cube = base**3
        level = log(max(float(mixed(second, 1) >> _11) * 2.0**-53, _SMALLEST))
        excess = normal**2 / 2 + d - d * cube + d * log(cube) - level
        # Rounding errors of the terms, and of the logarithm of a small cube.
        if abs(excess) < CLOSE * (normal**2 + d * (1 + cube) - level) + 1e-13 * d / base:
            return 0.0, np.inf
        if excess > 0:
            return cube * factor, (1 + c * radius) ** 3 * factor


@njit(cache=True, error_model="numpy")
def drawn_bits(draws: Any, places: Any, block: int) -> int:
    """Return the bits of a slot to the worst of some devices; `UNKNOWN` if rounding errors decide them."""
    snr, error = np.inf, 0.0
    for n in places:
        one, size = drawn_snr(draws, n, block)
        snr, error = min(snr, one), max(error, CLOSE_BITS * size)
    if error == np.inf:
        return UNKNOWN
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


@njit(cache=True, error_model="numpy", inline="always")
def largest_gain(draws: Any) -> float:
    """Return a number that no gain exceeds: random numbers have 53 bits."""
    if draws.shape > 0:
        d = (draws.shape if draws.shape >= 1 else draws.shape + 1) - 1 / 3
        normal = sqrt(-2 * log(_SMALLEST))
        return (1 + normal / sqrt(9 * d)) ** 3 * d / draws.shape * _ROUNDED  # type: ignore[no-any-return]
    if draws.sight == np.inf:
        return _ROUNDED
    root = sqrt(draws.sight) + sqrt(-log(2.0**-53))
    return root**2 / (draws.sight + 1) * _ROUNDED  # type: ignore[no-any-return]


@njit(cache=True, error_model="numpy", fastmath={"contract", "nnan", "nsz"})
def bound_scores(
    states: Any, mean: Any, weight: Any, sight: float, block: int, by_rate: bool, least: Any, most: Any
) -> None:
    """Fill in a lower and an upper bound of the score of every device; negative for those that are not ready.

    The bits of a float64 are its logarithm, but for straight lines between the powers of two: log2 exceeds
    them by at most `_BENT`. So no logarithm is taken, and the loop is compiled to vectors. With a line of
    sight, paths add up or cancel at most.
    """
    root = sqrt(sight)
    for n in range(len(weight)):
        rest = 1.0 - float(np.int64(mixed(states[n], block) >> _11)) * 2.0**-53
        above = float(_ONE - np.float64(rest).view(np.int64)) * 2.0**-52  # at least −log2(rest)
        high, low = above * _LN2, max(0.0, above - _BENT) * _LN2
        if sight > 0:
            high, low = (root + sqrt(high)) ** 2 / (sight + 1), 0.0
        high, low = high * mean[n], low * mean[n]
        if by_rate:
            high = float(np.float64(1.0 + high).view(np.int64) - _ONE) * 2.0**-52 + _BENT
            low = float(np.float64(1.0 + low).view(np.int64) - _ONE) * 2.0**-52
        least[n], most[n] = low * weight[n], high * weight[n]


@njit(cache=True)
def largest(values: Any) -> float:
    """Return the maximum of an array of floats, or −0 if none is positive.

    Floats of at least 0 have the order of their bits. In a function of its own it is compiled to vectors.
    """
    bits = values.view(np.int64)
    found = _NOTHING
    for value in bits:
        found = max(found, value)
    return np.int64(found).view(np.float64)


@njit(cache=True, error_model="numpy")
def highest_possible(draws: Any, first: int, by_rate: bool) -> float:
    """Return what no score of the devices from ``first`` on exceeds: their means are not larger."""
    most = draws.mean[first] * largest_gain(draws)
    return log2(1.0 + most) * _ROUNDED if by_rate else most


@njit(cache=True, error_model="numpy")
def lowest_limit(draws: Any, block: int, weight: Any, by_rate: bool, bounds: Any) -> float:
    """Fill in the bounds of all devices that may have the highest score, and return what it reaches."""
    if by_rate:
        # Rates differ by less than SNRs, so that hardly any part could be passed over.
        bound_scores(draws.states, draws.mean, weight, draws.sight, block, True, bounds[0], bounds[1])
        return largest(bounds[0]) * (1 - 1e-9) - 1e-12
    limit = 0.0
    for first in range(0, len(weight), TOGETHER):
        if highest_possible(draws, first, False) < limit:
            break
        part = slice(first, first + TOGETHER)
        numbers = draws.states[part], draws.mean[part], weight[part]
        bound_scores(*numbers, draws.sight, block, False, bounds[0, part], bounds[1, part])
        limit = max(limit, largest(bounds[0, part]) * (1 - 1e-9) - 1e-12)
    return limit


@njit(cache=True, error_model="numpy")
def best_channel(draws: Any, block: int, weight: Any, by_rate: bool, bounds: Any) -> int:
    """Return the place of the ready device with the largest SNR, or log2(1 + SNR), times its weight.

    Draws and weights are in the order of `by_mean`; weights are at most 1, and −1 of devices that are not
    ready. `NO_DEVICE` if none is ready, and `NOT_KNOWN` if another is so close that it might be the larger
    one. ``bounds`` is an array [2, N], which is filled in.
    """
    best, highest, second, size, snr_of_best = NO_DEVICE, -1.0, -1.0, 0.0, -1.0
    bounded = draws.shape == 0 and draws.sight < np.inf
    limit = lowest_limit(draws, block, weight, by_rate, bounds) if bounded else 0.0
    for first in range(0, len(weight), TOGETHER):
        last, most = min(first + TOGETHER, len(weight)), highest_possible(draws, first, by_rate)
        if most < limit:
            break
        if (largest(bounds[1, first:last]) if bounded else most * largest(weight[first:last])) < limit:
            continue
        for n in range(first, last):
            if weight[n] < 0 or (bounds[1, n] if bounded else most * weight[n]) < limit:
                continue
            snr, errors = drawn_snr(draws, n, block)
            if errors == np.inf:
                return NOT_KNOWN
            # Equal numbers are equal however they are rounded: the lower index, which comes first, is chosen.
            if snr == snr_of_best and weight[n] == weight[best] and draws.mean[n] == draws.mean[best]:
                continue
            score = (log2(1.0 + snr) if by_rate else snr) * weight[n]
            second, size = max(second, min(score, highest)), max(size, errors * weight[n])
            if score > highest:
                best, highest, snr_of_best = n, score, snr
                limit = max(limit, score * (1 - 1e-9) - 1e-12)
    # 1 + SNR is rounded to 2e-16.
    return NOT_KNOWN if second >= 0 and second >= highest - CLOSE * (highest + size) - 1e-15 else best


def by_mean(draws: FadingDraws) -> tuple[Integers, FadingDraws]:
    """Return the places of devices from the largest mean SNR to the smallest, and draws in that order."""
    order = np.argsort(-draws.mean, kind="stable")
    return order, draws._replace(states=draws.states[order], mean=draws.mean[order])
