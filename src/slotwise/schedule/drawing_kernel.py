"""Compiled draws of fading (`FadingDraws`): who has the best channel, and how far an uplink gets.

Numbers are drawn where they are needed and only there. The answers are those of the tables that numpy makes,
to the bit: where rounding errors of a logarithm could decide, the answer is that the link has to be asked.
"""

from __future__ import annotations

from math import cos, exp, floor, log, log1p, log2, pi, sqrt
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
NOT_COMPUTED, NEVER = -1, 2**62  # instead of the number that a device needs
WANTED, MANY = 8, 64  # devices whose scores are computed, and so many that less would be faster
_MOST_POWER = 37.0  # more than −ln(2^−53), the largest that is drawn
_SMALLEST = 2.0**-54  # in place of 0 where a logarithm is taken
_ROUNDED = 1 + 1e-9  # more than rounding errors

_11 = np.uint64(11)


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


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
def number_needed(draws: Any, n: int, weight: float, by_rate: bool, level: float) -> int:
    """Return the least number that a device has to draw in a block for its score to reach a level."""
    if not level > 0:
        return 0
    snr = 2.0 ** (level / weight) - 1.0 if by_rate else level / weight
    gain = snr / draws.mean[n] * (2 - _ROUNDED)
    if draws.shape > 0 or draws.sight == np.inf:
        return NEVER if gain > largest_gain(draws) else 0
    if draws.sight > 0:  # with a line of sight, paths add up at most
        root = sqrt((draws.sight + 1) * gain) - sqrt(draws.sight)
        gain = root * root if root > 0 else 0.0
    if not gain < _MOST_POWER:
        return NEVER if gain >= _MOST_POWER else 0
    rest = exp(-gain)
    return max(0, int((1.0 - rest) * 2.0**53) - int(rest * 2.0**53 * 1e-7) - 2)


@njit(cache=True)
def reaches(states: Any, needed: Any, block: int) -> bool:
    """Return whether one of some devices draws the number that it needs."""
    # Compiled to vectors, which anything else in the loop would prevent, and a range within longer arrays.
    found = 0
    for n in range(len(states)):
        found |= np.int64(mixed(states[n], block) >> _11) >= needed[n]
    return found != 0


@njit(cache=True, error_model="numpy")
def places_within(mean: Any, least: float) -> int:
    """Return how many devices have at least a mean SNR; they are in the order of `by_mean`."""
    low, high = 0, len(mean)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if mean[middle] >= least else (low, middle)
    return low


@njit(cache=True, error_model="numpy")
def highest_score(
    draws: Any, block: int, weight: Any, by_rate: bool, needed: Any, level: float
) -> tuple[int, float, int]:
    """Return the place with the highest score among those that draw what they need, the score, and how many.

    Instead of the place it is `NOT_KNOWN` if another is so close that it might be the better one.
    """
    best, highest, second, size, snr_of_best, drawn = NO_DEVICE, -1.0, -1.0, 0.0, -1.0, 0
    most = largest_gain(draws) * _ROUNDED
    end = places_within(draws.mean, (2.0**level - 1.0 if by_rate else level) / most)
    for first in range(0, end, 64):
        last = min(first + 64, end)
        if not reaches(draws.states[first:last], needed[first:last], block):
            continue
        for n in range(first, last):
            if np.int64(mixed(draws.states[n], block) >> _11) < needed[n]:
                continue
            if needed[n] == NOT_COMPUTED:
                needed[n] = number_needed(draws, n, weight[n], by_rate, level)
            # Who has not even this is passed over: with other than Rayleigh fading they are many.
            possible = most * draws.mean[n]
            if (log2(1.0 + possible) if by_rate else possible) * weight[n] < highest:
                continue
            drawn += 1
            snr, errors = drawn_snr(draws, n, block)
            if errors == np.inf:
                return NOT_KNOWN, np.inf, drawn
            # Equal numbers are equal however they are rounded: the lower index, which comes first, is chosen.
            if snr == snr_of_best and weight[n] == weight[best] and draws.mean[n] == draws.mean[best]:
                continue
            score = (log2(1.0 + snr) if by_rate else snr) * weight[n]
            second, size = max(second, min(score, highest)), max(size, errors * weight[n])
            if score > highest:
                best, highest, snr_of_best = n, score, snr
    # 1 + SNR is rounded to 2e-16.
    is_close = second >= 0 and second >= highest - CLOSE * (highest + size) - 1e-15
    return (NOT_KNOWN if is_close else best), highest, drawn


@njit(cache=True, error_model="numpy")
def find_level(draws: Any, block: int, weight: Any, by_rate: bool, needed: Any, scores: Any) -> float:
    """Return a score that about `WANTED` devices reach in a block, after updating what all of them need."""
    count = 0
    for n in range(len(weight)):
        if weight[n] >= 0:
            snr, _ = drawn_snr(draws, n, block)
            scores[count] = -(log2(1.0 + snr) if by_rate else snr) * weight[n]
            count += 1
    # A little less, so that who is not considered is worse in spite of all rounding errors.
    lowest = 0.0 if count < MANY else -np.partition(scores[:count], WANTED)[WANTED]
    level = max(0.0, lowest * (2 - _ROUNDED) - 1e-15)
    for n in range(len(weight)):
        needed[n] = number_needed(draws, n, weight[n], by_rate, level) if weight[n] >= 0 else NEVER
    return level


@njit(cache=True, error_model="numpy")
def best_channel(
    draws: Any, block: int, weight: Any, by_rate: bool, needed: Any, level: Any, scores: Any
) -> int:
    """Return the place of the ready device with the largest SNR, or log2(1 + SNR), times its weight.

    Draws and weights are in the order of `by_mean`; weights are at most 1, and −1 of devices that are not
    ready. `NO_DEVICE` if none is ready, and `NOT_KNOWN` if another is so close that it might be the larger
    one.

    Most devices draw too small a number to be the best, whatever it is exactly. ``needed`` has the least
    number that may reach the score ``level[0]``: `NEVER` of devices that are not ready, `NOT_COMPUTED` of
    those whose weight has changed. The level is found anew if nobody reaches it, or more than ``level[1]``
    devices do. ``scores`` is an array [N] for intermediate results.
    """
    best, highest, drawn = highest_score(draws, block, weight, by_rate, needed, level[0])
    reached = highest >= level[0] * _ROUNDED + 1e-15 * (level[0] > 0)
    if reached and drawn <= level[1]:
        return best
    level[0] = find_level(draws, block, weight, by_rate, needed, scores)
    found, _, drawn = highest_score(draws, block, weight, by_rate, needed, level[0])
    level[1] = max(MANY, 2 * drawn)
    return best if reached else found


def by_mean(draws: FadingDraws) -> tuple[Integers, FadingDraws]:
    """Return the places of devices from the largest mean SNR to the smallest, and draws in that order."""
    order = np.argsort(-draws.mean, kind="stable")
    return order, draws._replace(states=draws.states[order], mean=draws.mean[order])
