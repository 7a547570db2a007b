"""The compiled loop of `presence_simulator`: one round of devices that come, go and send in turn.

Presence changes far more often than anything is sent, so these events are not objects: departures and returns
are two columns, and what a device does is an entry of ``devices``. A departure only changes that entry.
Entries of the two heaps that no longer agree with it are dropped when they come up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from slotwise.base.random_kernel import mixed

FULL_ROUND, NEEDS_ROOM, OVER = 0, 1, 2  # why the loop returns
# Entries of ``state``, which the loop changes (LAST is a device with the largest turn of those that wait),
SLOT, MISSING, COMPUTING, LEAVES, RETURNS, ROWS, LOST, SENDERS, PENDING, READY, LAST, SENDING, LEFT = range(
    13
)
# and of ``limits``, which it does not.
DEADLINE, WAITS_FOR_ALL, ERASURE, AT_ONCE = range(4)
# Columns of ``devices``: what it does, the model it has, when it is ready, its turn, the numbers of
# its trainings and attempts, and whether it has sent in this round. ``booked`` is the model it waits for.
DOES, VERSION, READY_AT, TURN, TRAININGS, ATTEMPTS, HAS_SENT = range(7)
WAITS, COMPUTES, IS_READY, SENDS, IS_AWAY = range(5)  # what a device does
NOBODY, NEVER = -1, 2**62
_11, _TO_UNIT = np.uint64(11), 2.0**-53


@njit(cache=True)
def chance(state: Any, number: int) -> float:
    """Return the number in [0, 1) that `random_streams.chance` draws."""
    return (mixed(state, number) >> _11) * _TO_UNIT  # type: ignore[no-any-return]


@njit(cache=True)
def push(heap: Any, size: int, key: int, n: int) -> None:
    """Add (key, n) to a heap of ``size`` entries."""
    place = size
    while place > 0:
        above = (place - 1) >> 1
        if heap[0, above] < key or (heap[0, above] == key and heap[1, above] <= n):
            break
        heap[0, place], heap[1, place] = heap[0, above], heap[1, above]
        place = above
    heap[0, place], heap[1, place] = key, n


@njit(cache=True)
def drop_first(heap: Any, size: int) -> None:
    """Remove the first of ``size`` entries."""
    size -= 1
    key, n, place = heap[0, size], heap[1, size], 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        other = below + 1
        if other < size and (
            heap[0, other] < heap[0, below]
            or (heap[0, other] == heap[0, below] and heap[1, other] < heap[1, below])
        ):
            below = other
        if key < heap[0, below] or (key == heap[0, below] and n < heap[1, below]):
            break
        heap[0, place], heap[1, place] = heap[0, below], heap[1, below]
        place = below
    heap[0, place], heap[1, place] = key, n


@njit(cache=True, inline="always")
def forget_last(state: Any, n: int) -> None:
    """Note that a device does not wait for the channel any more."""
    if state[LAST] == n:
        state[LAST] = NOBODY


@njit(cache=True)
def follow_presence(
    state: Any, devices: Any, booked: Any, away: Any, back: Any, until: int, joins: int
) -> None:
    """Let devices leave and return up to slot ``until``; who returns waits for the model ``joins``.

    ``away`` and ``back`` are rows of slots and devices, in order of time.
    """
    event, end = state[LEAVES], state[RETURNS]
    # A device returns after it has left and leaves after it has returned: the order within a slot is free.
    while True:
        leaves = away[0, event] if event < away.shape[1] else NEVER
        returns = back[0, end] if end < back.shape[1] else NEVER
        if min(leaves, returns) > until:
            break
        if returns < leaves:
            n = back[1, end] - 1
            devices[n, DOES], booked[n] = WAITS, joins
            end += 1
            continue
        n = away[1, event] - 1
        if devices[n, DOES] == COMPUTES:
            state[COMPUTING] -= 1
        if state[SENDING] == n and state[LEFT] < 0:
            state[LEFT] = leaves
        forget_last(state, n)
        devices[n, DOES], booked[n], devices[n, HAS_SENT] = IS_AWAY, -1, 0
        event += 1
    state[LEAVES], state[RETURNS] = event, end


@njit(cache=True)
def queue(state: Any, devices: Any, ready: Any, n: int, turn: int) -> None:
    """Let a device wait for the channel."""
    devices[n, DOES], devices[n, TURN] = IS_READY, turn
    last = state[LAST]
    if (last < 0 and state[READY] == 0) or (last >= 0 and devices[last, TURN] < turn):
        state[LAST] = n
    push(ready, state[READY], turn, n)
    state[READY] += 1


@njit(cache=True)
def last_turn(state: Any, devices: Any) -> int:
    """Return the largest turn of all that wait for the channel; −1 if none does."""
    last = state[LAST]
    if last < 0 and state[READY] > 0:  # it is not known any more
        for n in range(len(devices)):
            if devices[n, DOES] == IS_READY and (last < 0 or devices[n, TURN] > devices[last, TURN]):
                last = n
        state[LAST] = last
    return -1 if last < 0 else devices[last, TURN]


@njit(cache=True)
def get_ready(state: Any, devices: Any, pending: Any, ready: Any) -> None:
    """Queue the updates of trainings that have ended by the present slot."""
    while state[PENDING] > 0 and pending[0, 0] <= state[SLOT]:
        at, n = pending[0, 0], pending[1, 0]
        drop_first(pending, state[PENDING])
        state[PENDING] -= 1
        if devices[n, DOES] == COMPUTES and devices[n, READY_AT] == at:
            state[COMPUTING] -= 1
            queue(state, devices, ready, n, devices[n, TURN])


@njit(cache=True)
def next_sender(state: Any, devices: Any, ready: Any) -> int:
    """Remove and return the device whose turn comes first; `NOBODY` if no device waits."""
    while state[READY] > 0:
        turn, n = ready[0, 0], ready[1, 0]
        drop_first(ready, state[READY])
        state[READY] -= 1
        if devices[n, DOES] == IS_READY and devices[n, TURN] == turn:
            forget_last(state, n)
            return n  # type: ignore[no-any-return]
    return NOBODY


@njit(cache=True)
def next_event(state: Any, devices: Any, pending: Any, away: Any, back: Any) -> int:
    """Return the next slot in which a training ends or a device leaves or returns; `NEVER` if none."""
    while state[PENDING] > 0:
        at, n = pending[0, 0], pending[1, 0]
        if devices[n, DOES] == COMPUTES and devices[n, READY_AT] == at:
            break
        drop_first(pending, state[PENDING])
        state[PENDING] -= 1
    found = pending[0, 0] if state[PENDING] > 0 else NEVER
    if state[LEAVES] < away.shape[1]:
        found = min(found, away[0, state[LEAVES]])
    if state[RETURNS] < back.shape[1]:
        found = min(found, back[0, state[RETURNS]])
    return found


@njit(cache=True)
def end_uplink(
    state: Any, limits: Any, devices: Any, ready: Any, senders: Any, n: int, end: int, lost: bool
) -> None:
    """Go to the end of an uplink: its device waits for a model, or sends again, unless it has left."""
    present = state[LEFT] < 0
    state[SLOT], state[SENDING], state[LEFT] = end, NOBODY, -1
    if lost and not limits[ERASURE]:
        if present:
            # Behind all that are ready now. With an equal turn the lower index would send first.
            turn = -1 if limits[AT_ONCE] else max(end, last_turn(state, devices) + 1)
            queue(state, devices, ready, n, turn)
        return
    state[MISSING] -= 1
    if present:
        devices[n, DOES], devices[n, HAS_SENT] = WAITS, 1
        senders[state[SENDERS]] = n + 1
        state[SENDERS] += 1


@njit(cache=True)
def hand_out(
    state: Any,
    devices: Any,
    booked: Any,
    pending: Any,
    receivers: Any,
    turns: Any,
    model: int,
    slot: int,
    compute: Any,
    jitter: float,
    draws: Any,
) -> None:
    """Let receivers compute from ``slot`` on; ``turns`` are planned, −1 where none is."""
    for place in range(len(receivers)):
        n = receivers[place] - 1
        slots = compute[n]
        if jitter > 0:
            # The operations of `Fleet.slots_of_training`, rounded alike.
            share = jitter * (2 * chance(draws[n], devices[n, TRAININGS]) - 1)
            slots = max(1, int(np.rint(slots * (1 + share))))
        devices[n, TRAININGS] += 1
        at = slot + slots
        devices[n, DOES], devices[n, VERSION], devices[n, READY_AT] = COMPUTES, model, at
        devices[n, TURN], booked[n] = turns[place] if turns[place] >= 0 else at, -1
        push(pending, state[PENDING], at, n)
        state[PENDING] += 1
    state[COMPUTING] += len(receivers)


@njit(cache=True)
def play_round(
    state: Any,
    limits: Any,
    devices: Any,
    booked: Any,
    pending: Any,
    ready: Any,
    away: Any,
    back: Any,
    slots: Any,
    losses: Any,
    draws: Any,
    rows: Any,
    lost: Any,
    senders: Any,
    k: int,
    joins: int,
    waits: bool,
) -> int:
    """Play uplinks until round ``k`` is full or no device can add an update, and return why it ends.

    ``waits`` is True if the round could not end in this slot, because no device would receive the next model.
    """
    while True:
        get_ready(state, devices, pending, ready)
        if state[ROWS] == len(rows) or state[LOST] == len(lost):
            return NEEDS_ROOM
        n = NOBODY
        if state[MISSING] > 0 and not (limits[WAITS_FOR_ALL] and state[COMPUTING] > 0):
            n = next_sender(state, devices, ready)
        if n == NOBODY:
            if not waits and (state[MISSING] == 0 or state[COMPUTING] == 0):
                return FULL_ROUND
            waits, slot = False, next_event(state, devices, pending, away, back)
            if slot == NEVER or slot > limits[DEADLINE]:
                return OVER
            follow_presence(state, devices, booked, away, back, slot, joins)
            state[SLOT] = slot
            continue
        slot, attempt = state[SLOT], devices[n, ATTEMPTS]
        end = slot + slots[n]
        if end > limits[DEADLINE]:
            return OVER
        devices[n, DOES], devices[n, ATTEMPTS], state[SENDING] = SENDS, attempt + 1, n
        version = devices[n, VERSION]
        follow_presence(state, devices, booked, away, back, end, joins)
        # A departure in slot ``end`` is late enough: all slots [slot, end) of the uplink are over.
        failed = 0 <= state[LEFT] < end or (losses[n] > 0 and chance(draws[n], attempt) < losses[n])
        row = lost[state[LOST]] if failed else rows[state[ROWS]]
        row[0], row[1], row[2], row[3], row[4] = k, n + 1, version, slot, end
        state[LOST if failed else ROWS] += 1
        state[SLOT] = end
        get_ready(state, devices, pending, ready)
        end_uplink(state, limits, devices, ready, senders, n, end, failed)
