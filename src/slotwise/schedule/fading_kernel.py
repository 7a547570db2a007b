"""Compiled loop of `fading_timeline`: choose the next sender and follow its uplink, until a round is full.

Rayleigh fading is drawn here, too: drawing a whole table with numpy takes most of the time of a simulation
with short blocks. A block is drawn when a sender is chosen in it, in one vectorised loop with approximate
logarithms. The choice is the exact one all the same: where two scores are too close to tell which is larger,
the loop asks the link.
"""

from __future__ import annotations

from math import log1p, log2, sqrt
from typing import Any

import numpy as np
from numba import njit

from slotwise.base.random_streams import FIRST, SECOND, STEP

BY_CHANNEL, BY_SHARE, BY_AGE = 0, 1, 2  # what a selection maximises
FULL_ROUND, NEEDS_TABLE, NEEDS_UPLINK, NEEDS_ROOM, NOBODY, OVER = 0, 1, 2, 3, 4, 5  # why the loop returns
IDLE = np.iinfo(np.int64).max  # ready_at of a device that waits for a model
# Entries of ``state``, which the loop changes,
SLOT, ROUND, FIRST_BLOCK, MISSING, AGAIN, CHOSEN, ROWS, LOST, EXACT = range(9)
# and of ``limits``, which it does not.
DEADLINE, COHERENCE, FIXED, UPDATE_BITS, GIVE_UP, KIND, ERASURE, AT_ONCE = range(8)
# Columns of ``devices``.
READY_AT, ARRIVED, LAST_ROUND, VERSION = range(4)
NO_DEVICE, NOT_KNOWN = -1, -2  # instead of a device that is chosen
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
    """Return the state after one more part of the key, as `slotwise.base.random_streams.mixed_all` does."""
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


@njit(cache=True, error_model="numpy", fastmath={"nnan", "nsz", "reassoc"})
def largest(values: Any) -> float:
    """Return the maximum. The flags let it be computed in vectors; a maximum has no rounding."""
    found = values[0]
    for n in range(len(values)):
        found = max(found, values[n])
    return found  # type: ignore[no-any-return]


@njit(cache=True, error_model="numpy")
def choose(
    devices: Any, share: Any, score: Any, slot: int, k: int, kind: int, value: Any, exact: bool
) -> int:
    """Return the ready device with the largest value, the lower index among equals; `NO_DEVICE` if none is.

    If scores are not exact and another value is so close that it might be the larger one: `NOT_KNOWN`.
    """
    ready_at, last_round = devices[READY_AT], devices[LAST_ROUND]
    for n in range(len(value)):
        # The product of `proportional_fair`, rounded alike. Shares stay 1 with other selections.
        # Scores are only compared within a block: drawn ones may be linear and those of a table in dB.
        rank = float(k - last_round[n]) if kind == BY_AGE else score[n] * share[n]
        value[n] = rank if ready_at[n] <= slot else -np.inf
    best = largest(value)
    if not exact and best >= 0:
        limit, close = best - CLOSE * best - 1e-15, 0  # 1 + SNR is rounded to 2e-16
        for n in range(len(value)):
            close += value[n] >= limit
        if close > 1:
            return NOT_KNOWN
    for n in range(len(value)):
        # −inf is also the dB value of a ready device whose SNR is 0, hence the second condition.
        # The first hit is the lower index among equals, as in the selections.
        if value[n] == best and ready_at[n] <= slot:
            return n
    return NO_DEVICE


@njit(cache=True, error_model="numpy")
def next_sender(
    state: Any, limits: Any, scores: Any, draws: Any, devices: Any, share: Any, value: Any
) -> int:
    """Return the device that sends in the present slot; `NOT_KNOWN` if scores are needed from the link."""
    slot, kind, drawn = state[SLOT], limits[KIND], len(draws.states) > 0
    block = slot // limits[COHERENCE]
    place = 0 if drawn else block - state[FIRST_BLOCK]
    # Before a retransmission, too: its uplink is followed in the same table.
    if place >= len(scores):
        return NOT_KNOWN
    if state[AGAIN] >= 0:
        return state[AGAIN]  # type: ignore[no-any-return]
    # A block is drawn at the first choice in it. If its scores came from the link, they are kept:
    # FIRST_BLOCK is then this block.
    if drawn and block != state[FIRST_BLOCK]:
        if kind != BY_AGE:
            draw_scores(draws.states, draws.mean, block, kind == BY_SHARE, scores[0])
        state[FIRST_BLOCK], state[EXACT] = block, kind == BY_AGE
    exact = state[EXACT] > 0
    return choose(devices, share, scores[place], slot, state[ROUND], kind, value, exact)


@njit(cache=True, error_model="numpy")
def follow(bits: Any, draws: Any, n: int, block: int, first: int, offset: int, limits: Any) -> int:
    """Return the slots of an uplink, negative if it is lost; 0 if the link has to be asked.

    It starts when ``offset`` slots of ``block`` are over; the first row of ``bits`` is of block ``first``.
    What becomes of it after the deadline has no effect, and is not followed.
    """
    fixed, wanted, slots = limits[FIXED], limits[UPDATE_BITS], 0
    left = limits[DEADLINE] - (block * limits[COHERENCE] + offset)
    if fixed > left:
        return fixed  # type: ignore[no-any-return]
    end = fixed if fixed > 0 else min(limits[GIVE_UP], left + 1)
    drawn = len(draws.states) > 0
    # Block after block, as `RadioLink.uplink` does: all slots of a block carry the same bits.
    while slots < end:
        if not drawn and block - first >= len(bits):
            return 0
        span = min(limits[COHERENCE] - offset, end - slots)
        each = drawn_bits(draws, block, n) if drawn else bits[block - first, n]
        if each < 0:
            return 0
        if fixed > 0:
            if each == 0:
                return -fixed  # type: ignore[no-any-return]
        else:
            # More than all that is left makes no difference, and the product might overflow.
            each = min(each, wanted)
            if each * span >= wanted:
                return slots + -(-wanted // each)  # type: ignore[no-any-return]
            wanted -= each * span
        slots += span
        block, offset = block + 1, 0
    return slots if fixed > 0 else -slots


@njit(cache=True, error_model="numpy")
def end_uplink(
    state: Any, limits: Any, devices: Any, share: Any, rows: Any, lost: Any, n: int, found: int
) -> None:
    """Write down an uplink of ``found`` slots, negative if it is lost, and go to its end."""
    failed, slot = found < 0, state[SLOT]
    end = slot + abs(found)
    row = lost[state[LOST]] if failed else rows[state[ROWS]]
    row[0], row[1], row[2], row[3], row[4] = state[ROUND], n + 1, devices[VERSION, n], slot, end
    state[LOST if failed else ROWS] += 1
    state[SLOT], state[CHOSEN], state[AGAIN] = end, -1, -1
    if failed and not limits[ERASURE]:
        # READY_AT stays: the device is still ready, and these selections ignore the order of the queue.
        state[AGAIN] = n if limits[AT_ONCE] else -1
        return
    if not failed:
        devices[ARRIVED, n] += 1
        devices[LAST_ROUND, n] = state[ROUND]
        if limits[KIND] == BY_SHARE:
            share[n] = 1.0 / (1 + devices[ARRIVED, n])
    devices[READY_AT, n] = IDLE
    state[MISSING] -= 1


@njit(cache=True, error_model="numpy")
def play_round(
    state: Any,
    limits: Any,
    scores: Any,
    bits: Any,
    draws: Any,
    devices: Any,
    share: Any,
    value: Any,
    rows: Any,
    lost: Any,
    given: int,
) -> int:
    """Play uplinks until the round is full or something is missing, and return which of both.

    ``scores`` and ``bits`` are [block, device], from block ``state[FIRST_BLOCK]`` on; with ``draws`` there is
    one row of scores, which is drawn here. ``given`` are the slots of the chosen device's uplink, negative if
    lost; 0 if they are to be found here.
    """
    # All progress is in the arrays: the caller adds what was missing and calls again.
    coherence = limits[COHERENCE]
    while state[MISSING] > 0:
        slot, n = state[SLOT], state[CHOSEN]
        if slot > limits[DEADLINE]:
            return OVER
        # Before the choice: whatever becomes of the uplink, there is a row for it.
        if state[ROWS] == len(rows) or state[LOST] == len(lost):
            return NEEDS_ROOM
        if n < 0:
            n = next_sender(state, limits, scores, draws, devices, share, value)
            if n == NOT_KNOWN:
                return NEEDS_TABLE
            if n < 0:
                # Nobody is ready: the channel waits until the first training ends.
                state[SLOT] = devices[READY_AT].min()
                if state[SLOT] == IDLE:
                    return NOBODY
                continue
        found = given
        if given == 0:
            block, offset = slot // coherence, slot % coherence
            found = follow(bits, draws, n, block, state[FIRST_BLOCK], offset, limits)
        if found == 0:
            # The choice is kept, so that the next call goes on with this uplink and does not choose again.
            state[CHOSEN] = n
            return NEEDS_UPLINK
        given = 0
        end_uplink(state, limits, devices, share, rows, lost, n, found)
    return FULL_ROUND
