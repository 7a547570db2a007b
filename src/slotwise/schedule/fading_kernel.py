"""Compiled loop of `fading_timeline`: choose the next sender and follow its uplink, until a round is full."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

BY_CHANNEL, BY_SHARE, BY_AGE = 0, 1, 2  # what a selection maximises
FULL_ROUND, NEEDS_TABLE, NEEDS_UPLINK, NEEDS_ROOM, NOBODY, OVER = 0, 1, 2, 3, 4, 5  # why the loop returns
IDLE = np.iinfo(np.int64).max  # ready_at of a device that waits for a model
# Entries of ``state``, which the loop changes,
SLOT, ROUND, FIRST_BLOCK, MISSING, AGAIN, CHOSEN, ROWS, LOST = range(8)
# and of ``limits``, which it does not.
DEADLINE, COHERENCE, FIXED, UPDATE_BITS, GIVE_UP, KIND, ERASURE, AT_ONCE = range(8)
# Columns of ``devices``.
READY_AT, ARRIVED, LAST_ROUND, VERSION = range(4)


@njit(cache=True, error_model="numpy", fastmath={"nnan", "nsz", "reassoc"})
def largest(values: Any) -> float:
    """Return the maximum. The flags let it be computed in vectors; a maximum has no rounding."""
    found = values[0]
    for n in range(len(values)):
        found = max(found, values[n])
    return found  # type: ignore[no-any-return]


@njit(cache=True, error_model="numpy")
def choose(devices: Any, share: Any, score: Any, slot: int, k: int, kind: int, value: Any) -> int:
    """Return the ready device with the largest value, the lower index among equals; −1 if none is ready."""
    ready_at, last_round = devices[READY_AT], devices[LAST_ROUND]
    for n in range(len(value)):
        rank = float(k - last_round[n]) if kind == BY_AGE else score[n] * share[n]
        value[n] = rank if ready_at[n] <= slot else -np.inf
    best = largest(value)
    for n in range(len(value)):
        if value[n] == best and ready_at[n] <= slot:
            return n
    return -1


@njit(cache=True, error_model="numpy")
def follow(bits: Any, n: int, place: int, offset: int, limits: Any) -> int:
    """Return the slots of an uplink, negative if it is lost; 0 if the table ends before it does.

    ``place`` is the row of its first block in the table, ``offset`` the slots of that block that are over.
    """
    fixed, wanted, slots = limits[FIXED], limits[UPDATE_BITS], 0
    end = fixed if fixed > 0 else limits[GIVE_UP]
    while slots < end:
        if place >= len(bits):
            return 0
        span = min(limits[COHERENCE] - offset, end - slots)
        each = bits[place, n]
        if fixed > 0:
            if each == 0:
                return -fixed  # type: ignore[no-any-return]
        elif each * span >= wanted:
            return slots + -(-wanted // each)  # type: ignore[no-any-return]
        wanted -= each * span
        slots += span
        place, offset = place + 1, 0
    return slots if fixed > 0 else -slots


@njit(cache=True, error_model="numpy")
def play_round(
    state: Any,
    limits: Any,
    scores: Any,
    bits: Any,
    devices: Any,
    share: Any,
    value: Any,
    rows: Any,
    lost: Any,
    given: int,
) -> int:
    """Play uplinks until the round is full or something is missing, and return which of both.

    ``scores`` and ``bits`` are [block, device], from block ``state[FIRST_BLOCK]`` on. ``given`` are the slots
    of the chosen device's uplink, negative if lost; 0 if they are to be found in the table.
    """
    coherence, kind = limits[COHERENCE], limits[KIND]
    while state[MISSING] > 0:
        slot, n = state[SLOT], state[CHOSEN]
        if slot > limits[DEADLINE]:
            return OVER
        if state[ROWS] == len(rows) or state[LOST] == len(lost):
            return NEEDS_ROOM
        place = slot // coherence - state[FIRST_BLOCK]
        if n < 0:
            if place < 0 or place >= len(scores):
                return NEEDS_TABLE
            n = state[AGAIN]
            if n < 0:
                n = choose(devices, share, scores[place], slot, state[ROUND], kind, value)
            if n < 0:
                state[SLOT] = devices[READY_AT].min()
                if state[SLOT] == IDLE:
                    return NOBODY
                continue
        slots = given if given != 0 else follow(bits, n, place, slot % coherence, limits)
        if slots == 0:
            state[CHOSEN] = n
            return NEEDS_UPLINK
        given = 0
        failed = slots < 0
        end = slot + abs(slots)
        row = lost[state[LOST]] if failed else rows[state[ROWS]]
        row[0], row[1], row[2], row[3], row[4] = state[ROUND], n + 1, devices[VERSION, n], slot, end
        state[LOST if failed else ROWS] += 1
        state[SLOT], state[CHOSEN], state[AGAIN] = end, -1, -1
        if failed and not limits[ERASURE]:
            state[AGAIN] = n if limits[AT_ONCE] else -1
            continue
        if not failed:
            devices[ARRIVED, n] += 1
            devices[LAST_ROUND, n] = state[ROUND]
            if kind == BY_SHARE:
                share[n] = 1.0 / (1 + devices[ARRIVED, n])
        devices[READY_AT, n] = IDLE
        state[MISSING] -= 1
    return FULL_ROUND
