"""Random durations of uplinks and broadcasts, drawn to plan with.

They have the distribution of those that will happen and are not those: a plan that knew them in advance would
know more than a server can.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slotwise.fleet.chances import mixed_all
from slotwise.radio.draws import PLANNING, device_states

if TYPE_CHECKING:
    from slotwise.radio.radio_link import RadioLink

Integers = NDArray[np.int64]
SAMPLES = 64  # of each device, or of a broadcast
MOST_BLOCKS = 256  # of one sample; beyond, the mean rate so far is assumed


def quantile_of(durations: Integers, quantile: float) -> Integers:
    """Return a quantile of each row of durations, in whole slots."""
    return np.quantile(durations, quantile, axis=1, method="inverted_cdf").astype(np.int64)


def uplink_durations(link: RadioLink) -> Integers:
    """Return slots of uplinks, [N, samples]; one that would be given up counts as long as that takes."""
    settings, devices = link.settings, link.devices

    def bits(block: int) -> Integers:
        # Sample s starts in block s·MOST_BLOCKS.
        rows = [link.conditions.snr(s * MOST_BLOCKS + block, 1, planning=True)[0] for s in range(SAMPLES)]
        return link.uplink_bits(np.stack(rows, axis=1))

    shape = (devices, SAMPLES)
    return _durations(bits, shape, settings.update_bits, link.coherence_slots, settings.give_up_slots)


def broadcast_durations(link: RadioLink) -> Integers:
    """Return slots of broadcasts to ``group_size`` devices chosen at random, [1, samples]."""
    settings = link.settings
    states = device_states(0, PLANNING, link.devices)
    # The first of an order by random numbers: a group drawn without replacement.
    groups = [np.argsort(mixed_all(states, s))[: settings.group_size] for s in range(SAMPLES)]

    def bits(block: int) -> Integers:
        rows = [link.conditions.snr(s * MOST_BLOCKS + block, 1, planning=True)[0] for s in range(SAMPLES)]
        worst = [row[group].min() for row, group in zip(rows, groups, strict=True)]
        return link.broadcast_bits(np.array([worst]))

    each = link.coherence_slots
    return _durations(bits, (1, SAMPLES), settings.broadcast_bits, each, MOST_BLOCKS * each)


def _durations(
    bits: Callable[[int], Integers], shape: tuple[int, int], total: int, each: int, limit: int
) -> Integers:
    """Return the slots until ``total`` bits are through, at ``bits(block)`` a slot, at most ``limit``."""
    missing, found = np.full(shape, total, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for block in range(MOST_BLOCKS):
        # A rate above ``total`` ends in one slot just as well, and its products might overflow.
        rate = np.minimum(bits(block), total)
        ends = (missing > 0) & (rate * each >= missing)
        found[ends] = block * each + -(-missing[ends] // rate[ends])
        missing = np.where(ends, 0, np.where(missing > 0, missing - rate * each, 0))
        if not missing.any() or (block + 1) * each >= limit:
            break
    # Uplinks that are not through yet go on at their mean rate so far, up to the limit.
    sent = total - missing
    slots = float((block + 1) * each * total) / np.maximum(sent, 1)
    late = missing > 0
    found[late] = np.minimum(np.ceil(slots[late]), limit).astype(np.int64)
    return np.minimum(found, limit)
