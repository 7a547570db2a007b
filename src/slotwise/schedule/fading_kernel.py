"""Compiled loop of `fading_timeline`: choose the next sender and follow its uplink, until a round is full.

Scores and bits are read from tables of the link. Fading that `drawing_kernel` knows is drawn instead: a table
would take most of the time of a simulation with short blocks. Device ``NUMBER`` n is not at place n − 1 then:
those with the largest mean SNR come first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from slotwise.schedule import drawing_kernel
from slotwise.schedule.drawing_kernel import NEVER, NO_DEVICE, NOT_COMPUTED, NOT_KNOWN, best_channel

FULL_ROUND, NEEDS_TABLE, NEEDS_UPLINK, NEEDS_ROOM, NOBODY, OVER = 0, 1, 2, 3, 4, 5  # why the loop returns
# Entries of ``state``, which the loop changes,
SLOT, ROUND, FIRST_BLOCK, MISSING, AGAIN, CHOSEN, ROWS, LOST, PENDING = range(9)
# and of ``limits``, which it does not.
DEADLINE, COHERENCE, FIXED, UPDATE_BITS, GIVE_UP, FAIR, ERASURE, AT_ONCE = range(8)
# Columns of ``devices``.
READY_AT, ARRIVED, VERSION, NUMBER, NEEDED = range(5)

follow_draws = drawing_kernel.follow


@njit(cache=True, error_model="numpy")
def choose(score: Any, weight: Any, number: Any) -> int:
    """Return the ready device with the largest score times its weight, the lower number among equals."""
    best, highest = NO_DEVICE, -np.inf
    for n in range(len(weight)):
        if weight[n] < 0:
            continue
        # The product of `proportional_fair`, rounded alike. Weights are 1 with other selections.
        # −inf is also the dB value of a ready device whose SNR is 0, hence the first condition.
        value = score[n] * weight[n]
        if best < 0 or value > highest or (value == highest and number[n] < number[best]):
            best, highest = n, value
    return best


@njit(cache=True, error_model="numpy")
def get_ready(state: Any, fair: bool, devices: Any, weight: Any, pending: Any) -> None:
    """Give a weight to the devices whose training has ended by the present slot."""
    left = 0
    for entry in range(state[PENDING]):
        n = pending[entry]
        if devices[READY_AT, n] <= state[SLOT]:
            weight[n] = 1.0 / (1 + devices[ARRIVED, n]) if fair else 1.0
            devices[NEEDED, n] = NOT_COMPUTED
        else:
            pending[left] = n
            left += 1
    state[PENDING] = left


@njit(cache=True, error_model="numpy")
def next_sender(
    state: Any,
    limits: Any,
    scores: Any,
    draws: Any,
    devices: Any,
    weight: Any,
    pending: Any,
    level: Any,
    room: Any,
) -> int:
    """Return the place that sends in the present slot; `NOT_KNOWN` if scores are needed from the link."""
    slot, drawn = state[SLOT], len(draws.states) > 0
    block = slot // limits[COHERENCE]
    place = 0 if drawn else block - state[FIRST_BLOCK]
    # Before a retransmission, too: its uplink is followed in the same table.
    if place >= len(scores):
        return NOT_KNOWN
    if state[AGAIN] >= 0:
        return state[AGAIN]  # type: ignore[no-any-return]
    get_ready(state, limits[FAIR] > 0, devices, weight, pending)
    # If the scores of the block came from the link, they are kept: FIRST_BLOCK is then this block.
    if drawn and block != state[FIRST_BLOCK]:
        return best_channel(draws, block, weight, limits[FAIR] > 0, devices[NEEDED], level, room)
    return choose(scores[place], weight, devices[NUMBER])


@njit(cache=True, error_model="numpy")
def follow(bits: Any, draws: Any, place: Any, block: int, first: int, offset: int, limits: Any) -> int:
    """Return the slots of an uplink, negative if it is lost; 0 if the link has to be asked.

    It starts when ``offset`` slots of ``block`` are over; the first row of ``bits`` is of block ``first``.
    What becomes of it after the deadline has no effect, and is not followed.
    """
    fixed, wanted, slots, n = limits[FIXED], limits[UPDATE_BITS], 0, place[0]
    left = limits[DEADLINE] - (block * limits[COHERENCE] + offset)
    if fixed > left:
        return fixed  # type: ignore[no-any-return]
    end = fixed if fixed > 0 else min(limits[GIVE_UP], left + 1)
    if len(draws.states) > 0:
        slot = block * limits[COHERENCE] + offset
        return follow_draws(draws, place, slot, slot + end, limits[COHERENCE], 0 if fixed > 0 else wanted)
    # Block after block, as `RadioLink.uplink` does: all slots of a block carry the same bits.
    while slots < end:
        if block - first >= len(bits):
            return 0
        span = min(limits[COHERENCE] - offset, end - slots)
        each = bits[block - first, n]
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
    state: Any, limits: Any, devices: Any, weight: Any, rows: Any, lost: Any, n: int, found: int
) -> None:
    """Write down an uplink of ``found`` slots, negative if it is lost, and go to its end."""
    failed, slot = found < 0, state[SLOT]
    end = slot + abs(found)
    row = lost[state[LOST]] if failed else rows[state[ROWS]]
    row[0], row[1], row[2], row[3], row[4] = state[ROUND], devices[NUMBER, n], devices[VERSION, n], slot, end
    state[LOST if failed else ROWS] += 1
    state[SLOT], state[CHOSEN], state[AGAIN] = end, -1, -1
    if failed and not limits[ERASURE]:
        # The weight stays: the device is still ready, and these selections ignore the order of the queue.
        state[AGAIN] = n if limits[AT_ONCE] else -1
        return
    if not failed:
        devices[ARRIVED, n] += 1
    weight[n], devices[NEEDED, n] = -1.0, NEVER
    state[MISSING] -= 1


@njit(cache=True, error_model="numpy")
def play_round(
    state: Any,
    limits: Any,
    scores: Any,
    bits: Any,
    draws: Any,
    devices: Any,
    weight: Any,
    pending: Any,
    level: Any,
    room: Any,
    place: Any,
    rows: Any,
    lost: Any,
    given: int,
) -> int:
    """Play uplinks until the round is full or something is missing, and return which of both.

    ``scores`` and ``bits`` are [block, device], from block ``state[FIRST_BLOCK]`` on; with ``draws`` there is
    one row of scores, of a block in which the draws do not tell who is best. ``given`` are the slots of the
    chosen device's uplink, negative if lost; 0 if they are to be found here.
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
            n = next_sender(state, limits, scores, draws, devices, weight, pending, level, room)
            if n == NOT_KNOWN:
                return NEEDS_TABLE
            if n < 0:
                # Nobody is ready: the channel waits until the first training ends.
                if state[PENDING] == 0:
                    return NOBODY
                state[SLOT] = devices[READY_AT][pending[: state[PENDING]]].min()
                continue
        found = given
        if given == 0:
            block, offset = slot // coherence, slot % coherence
            place[0] = n
            found = follow(bits, draws, place, block, state[FIRST_BLOCK], offset, limits)
        if found == 0:
            # The choice is kept, so that the next call goes on with this uplink and does not choose again.
            state[CHOSEN] = n
            return NEEDS_UPLINK
        given = 0
        end_uplink(state, limits, devices, weight, rows, lost, n, found)
    return FULL_ROUND
