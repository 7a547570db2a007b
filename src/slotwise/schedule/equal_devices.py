"""The schedule of equal, faultless devices that send in the order in which they get ready, without events.

Devices that received the same model finish together, and models are broadcast one after another. So the queue
at the channel is a queue of *batches*: the receivers of w_0, then those of w_1, and so on, each in ascending
order. A round takes the next S devices from that queue, whatever the timing; the timing is one maximum per
batch a round touches. That makes a schedule a loop over rounds, and its columns array operations.

Policies use this as their fast path. It must equal the Scheduler driven event by event: tests compare both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, count, islice, repeat, tee

import numpy as np

from slotwise.scenario import Scenario
from slotwise.schedule.timeline import Column, Timeline

# Uplinks of one round that follow each other without a gap: (round, version, uplinks, first slot).
_Stretch = tuple[int, int, int, int]


def equal_devices_timeline(
    scenario: Scenario,
    name: str,
    delay: int,
    batches: Iterable[int],
    queue: Callable[[int], Column],
    rounds: int | None,
) -> Timeline:
    """Return the timeline of a policy for equal devices; it is empty if no round fits.

    ``batches`` yields the number of receivers of w_0, w_1, …; ``queue`` returns the first devices of the
    queue, as many as it is asked for.
    """
    # Batch sizes are read twice: to play the rounds, and then for the offsets of the receivers.
    sizes, sizes_again = tee(batches)
    played = list(_play_rounds(scenario, sizes, rounds))
    table = np.array([stretch for _, part in played for stretch in part], dtype=np.int64).reshape(-1, 4)
    uplinks, link = table[:, 2], scenario.link_slots
    # Uplink i of a stretch starts i·r slots after the stretch does.
    start = np.repeat(table[:, 3], uplinks)
    first = np.repeat(np.cumsum(uplinks) - uplinks, uplinks)
    start += (np.arange(len(start)) - first) * link
    ends = np.array([end for end, _ in played], dtype=np.int64)
    offsets = np.cumsum([0, *islice(sizes_again, len(ends) + 1)], dtype=np.int64)
    devices = queue(int(offsets[-1]))  # senders and receivers are the same queue, cut at different places
    order: Column | slice = slice(None)
    if scenario.sub_channels > 1:
        # Starts ascend already. Only devices that start in the same slot are put in order.
        order = np.lexsort((devices[: len(start)], start))
    return Timeline(
        scenario=scenario,
        schedule=name,
        delay=delay,
        round=np.repeat(table[:, 0].astype(np.int32), uplinks),
        device=devices[: len(start)][order],
        version=np.repeat(table[:, 1].astype(np.int32), uplinks)[order],
        start=start,
        end=start + link,
        broadcast_start=ends - link,
        broadcast_end=ends,
        receiver=devices,
        receiver_offsets=offsets,
    )


def fixed_delay_timeline(scenario: Scenario, name: str, delay: int, rounds: int | None) -> Timeline:
    """Return the timeline of equal devices with a fixed intentional delay; 0 is asynchronous FL."""
    queue = partial(_queue_of_senders, scenario.devices, scenario.group_size)
    return equal_devices_timeline(scenario, name, delay, _batches(scenario, delay), queue, rounds)


def round_ends(scenario: Scenario, delay: int = 0, rounds: int | None = None) -> Iterator[int]:
    """Yield the slot at which each round with a fixed delay ends, without the rest of the timeline."""
    return (end for end, _ in _play_rounds(scenario, _batches(scenario, delay), rounds))


def _play_rounds(
    scenario: Scenario, batches: Iterable[int], rounds: int | None
) -> Iterator[tuple[int, list[_Stretch]]]:
    """Yield the end of each round and its uplinks, until ``rounds`` are done or the deadline is near."""
    sizes = iter(batches)
    ends: list[int] = []
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


def _batches(scenario: Scenario, delay: int) -> Iterator[int]:
    """Yield the number of receivers of w_0, w_1, …: Algorithm 2's initial sets, then S each."""
    size, left = scenario.group_size, scenario.devices
    first = min((scenario.groups - delay) * size, left)
    # The last of these groups is short if S does not divide N.
    initial = (min(size, left - first - i * size) for i in range(delay))
    return chain([first], initial, repeat(size))


def _queue_of_senders(devices: int, size: int, length: int) -> Column:
    """Return devices in the order in which they send: 1..N, then each round's senders again.

    The senders of a round are sorted, because they all receive the same model and then tie. It only matters
    if S does not divide N. All rounds within N places of the known part are sorted at once.
    """
    queue = np.empty(max(length, devices), dtype=np.int32)
    queue[:devices] = np.arange(1, devices + 1)
    known, copied = devices, 0
    while known < length:
        # Only rounds whose senders are all known can be sorted and appended.
        rounds = min((known - copied) // size, -(-(length - known) // size))
        block = np.sort(queue[copied : copied + rounds * size].reshape(rounds, size), axis=1).ravel()
        part = block[: length - known]
        queue[known : known + len(part)] = part
        known, copied = known + len(part), copied + rounds * size
    return queue[:length]
