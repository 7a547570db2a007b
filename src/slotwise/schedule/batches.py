"""The schedule of equal, faultless devices that send in the order in which they get ready, without events.

Devices that received the same model finish together, and models are broadcast one after another. So the queue
at the channel is a queue of *batches*: the receivers of w_0, then those of w_1, and so on, each in ascending
order. A round takes the next S devices from that queue, whatever the timing; the timing is one maximum per
batch a round touches. That makes a schedule a loop over rounds, and its columns array operations.

It must equal the Scheduler driven event by event: tests compare both.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import count, islice

import numpy as np

from slotwise.fleet import Fleet
from slotwise.scenario import Scenario
from slotwise.schedule.policy import Batched, FixedDelay
from slotwise.schedule.timeline import Column, Timeline

# Uplinks of one round that follow each other without a gap: (round, version, uplinks, first slot).
_Stretch = tuple[int, int, int, int]


def batches_timeline(
    scenario: Scenario, name: str, delivery: Batched, fleet: Fleet, rounds: int | None
) -> Timeline:
    """Return the timeline of a policy for equal devices; it is empty if no round fits."""
    ends, number, version, uplinks, start = _columns(scenario, delivery, rounds)
    link = scenario.link_slots
    # Uplink i of a stretch starts i·r slots after the stretch does.
    start = np.repeat(start, uplinks)
    place = np.arange(len(start))
    place -= np.repeat(np.cumsum(uplinks) - uplinks, uplinks)
    place *= link
    start += place
    sizes = np.fromiter(islice(delivery.batches(), len(ends) + 1), np.int64, len(ends) + 1)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    devices = delivery.queue(
        int(offsets[-1])
    )  # senders and receivers are the same queue, cut at different places
    order: Column | slice = slice(None)
    if scenario.sub_channels > 1:
        # Starts ascend already. Only devices that start in the same slot are put in order.
        order = np.lexsort((devices[: len(start)], start))
    return Timeline(
        scenario=scenario,
        schedule=name,
        delay=delivery.delay,
        fleet=fleet,
        round=np.repeat(number, uplinks),
        device=devices[: len(start)][order],
        version=np.repeat(version, uplinks)[order],
        start=start,
        end=start + link,
        broadcast_start=ends - link,
        broadcast_end=ends,
        receiver=devices,
        receiver_offsets=offsets,
    )


def _columns(scenario: Scenario, delivery: Batched, rounds: int | None) -> tuple[Column, ...]:
    """Return the ends of all rounds, and round, version, uplinks and first slot of all stretches.

    A schedule may have millions of rounds, which as Python's tuples would take twenty times the memory.
    """
    ends, numbers, versions, uplinks, starts = (array(code) for code in "qiiiq")
    for end, stretches in _play_rounds(scenario, delivery.batches(), rounds):
        ends.append(end)
        for k, version, sent, start in stretches:
            numbers.append(k)
            versions.append(version)
            uplinks.append(sent)
            starts.append(start)
    return tuple(np.array(column) for column in (ends, numbers, versions, uplinks, starts))


def round_ends(scenario: Scenario, delay: int = 0, rounds: int | None = None) -> Iterator[int]:
    """Yield the slot at which each round with a fixed delay ends, without the rest of the timeline."""
    batches = FixedDelay(scenario.devices, scenario.group_size, delay).batches()
    return (end for end, _ in _play_rounds(scenario, batches, rounds))


def _play_rounds(
    scenario: Scenario, batches: Iterable[int], rounds: int | None
) -> Iterator[tuple[int, list[_Stretch]]]:
    """Yield the end of each round and its uplinks, until ``rounds`` are done or the deadline is near."""
    sizes = iter(batches)
    ends = array("q")
    channels = min(scenario.sub_channels, scenario.group_size)  # others are not used
    version, left, ready, slot = 0, next(sizes), scenario.compute_slots, 0
    for k in count() if rounds is None else range(rounds):
        missing, stretches = scenario.group_size, []
        free = [slot] * channels  # when each is, the first first
        while missing:
            if not left:
                # The receivers of w_{v+1} have it when round v ends. That round is over: w_0 to w_k have at
                # least (k+1)S receivers, so round k never reaches beyond w_k.
                ready = ends[version] + scenario.compute_slots
                version, left = version + 1, next(sizes)
            start = max(free[0], ready)
            if channels == 1:
                sent = min(missing, left)
                free[0] = slot = start + sent * scenario.link_slots
            else:  # one uplink at a time, on the sub-channel that is free first
                sent, slot = 1, start + scenario.link_slots
                # All uplinks take r slots and starts ascend, so the list stays sorted by appending.
                free = [*free[1:], slot]
            stretches.append((k, version, sent, start))
            missing, left = missing - sent, left - sent
        slot += scenario.link_slots
        if scenario.deadline is not None and slot > scenario.deadline:
            return
        ends.append(slot)
        yield slot, stretches
