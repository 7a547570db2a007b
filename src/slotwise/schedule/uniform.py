"""The schedule of equal, faultless devices, without events.

Devices that received the same model finish together, and models are broadcast one after another. So the queue
at the channel is a queue of *batches*: the receivers of w_0, then those of w_1, and so on, each in ascending
order. A round takes the next S devices from that queue, whatever the timing; the timing is one maximum per
batch a round touches. That makes a schedule a loop over rounds, and its columns array operations.

It must equal the Scheduler driven event by event; the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count, repeat
from typing import Any, NamedTuple

import numpy as np

from slotwise.scenario import Scenario
from slotwise.schedule.delivery import Delayed, Synchronous
from slotwise.schedule.timeline import Column, Schedule, Timeline


class Stretch(NamedTuple):
    """Uplinks that follow each other without a gap: one batch (the receivers of ``version``) in one round."""

    round: int
    version: int
    uplinks: int
    start: int


class PlayedRound(NamedTuple):
    """The slot at which a round ends, and the stretches of uplinks it is made of."""

    end: int
    stretches: list[Stretch]


def play_rounds(
    scenario: Scenario, batches: Iterator[int], rounds: int | None = None
) -> Iterator[PlayedRound]:
    """One round after another, until ``rounds`` are done or the next one would end after the deadline.

    ``batches`` gives the number of receivers of w_0, w_1, …
    """
    ends: list[int] = []
    version, left, ready, slot = 0, next(batches), scenario.compute_slots, 0
    for k in count() if rounds is None else range(rounds):
        missing, stretches = scenario.group_size, []
        while missing:
            if not left:
                ready = ends[version] + scenario.compute_slots
                version, left = version + 1, next(batches)
            sent, start = min(missing, left), max(slot, ready)
            stretches.append(Stretch(k, version, sent, start))
            missing, left, slot = missing - sent, left - sent, start + sent * scenario.link_slots
        slot += scenario.link_slots
        if scenario.deadline is not None and slot > scenario.deadline:
            return
        ends.append(slot)
        yield PlayedRound(slot, stretches)


def batch_sizes(scenario: Scenario, delivery: Delayed | Synchronous) -> Iterator[int]:
    """The number of receivers of each model: the initial bookings, then S after every round."""
    return chain((len(devices) for _, devices in delivery.initial()), repeat(scenario.group_size))


def each_round_end(scenario: Scenario, delay: int = 0, rounds: int | None = None) -> Iterator[int]:
    """The slot at which each round of async (delay 0) or idfl ends, without the rest of the timeline."""
    delivery = Delayed(scenario.devices, scenario.group_size, delay)
    return (played.end for played in play_rounds(scenario, batch_sizes(scenario, delivery), rounds))


def round_ends(scenario: Scenario, delay: int = 0, rounds: int | None = None) -> list[int]:
    """All of them at once."""
    return list(each_round_end(scenario, delay, rounds))


def uniform_timeline(
    scenario: Scenario, schedule: Schedule, delivery: Delayed | Synchronous, rounds: int | None
) -> Timeline:
    """The timeline of equal devices; empty where no round fits."""
    played = list(play_rounds(scenario, batch_sizes(scenario, delivery), rounds))
    stretches = [stretch for part in played for stretch in part.stretches]
    table = np.array(stretches, dtype=np.int64).reshape(-1, 4)
    uplinks, link = table[:, 2], scenario.link_slots
    start = np.repeat(table[:, 3], uplinks)
    first = np.repeat(np.cumsum(uplinks) - uplinks, uplinks)
    start += (np.arange(len(start)) - first) * link
    ends = np.array([part.end for part in played], dtype=np.int64)
    return Timeline(
        scenario=scenario,
        schedule=schedule,
        delay=delivery.delay if isinstance(delivery, Delayed) else 0,
        round=np.repeat(table[:, 0].astype(np.int32), uplinks),
        version=np.repeat(table[:, 1].astype(np.int32), uplinks),
        start=start,
        end=start + link,
        broadcast_start=ends - link,
        broadcast_end=ends,
        **_devices(scenario, delivery, len(ends)),
    )


def _devices(scenario: Scenario, delivery: Delayed | Synchronous, rounds: int) -> dict[str, Any]:
    """Senders and receivers: both are the queue of batches, cut after the last uplink and the last model."""
    sizes = batch_sizes(scenario, delivery)
    offsets = np.cumsum([0, *(next(sizes) for _ in range(rounds + 1))], dtype=np.int64)
    length = int(offsets[-1])
    queue = _delayed_queue if isinstance(delivery, Delayed) else _synchronous_queue
    devices = queue(delivery, length)  # type: ignore[arg-type]
    uplinks = rounds * scenario.group_size
    return {"device": devices[:uplinks], "receiver": devices, "receiver_offsets": offsets}


def _delayed_queue(delivery: Delayed, length: int) -> Column:
    """1..N, and from there the senders of each round in ascending order, N places after they sent.

    A round is sorted because its senders all receive the same model and then tie. It only matters where S
    does not divide N. All rounds within N places of the known part are sorted at once.
    """
    size = delivery.group_size
    devices = np.empty(max(length, delivery.devices), dtype=np.int32)
    devices[: delivery.devices] = np.arange(1, delivery.devices + 1)
    known, copied = delivery.devices, 0
    while known < length:
        rounds = min((known - copied) // size, -(-(length - known) // size))
        block = np.sort(devices[copied : copied + rounds * size].reshape(rounds, size), axis=1).ravel()
        part = block[: length - known]
        devices[known : known + len(part)] = part
        known, copied = known + len(part), copied + rounds * size
    return devices[:length]


def _synchronous_queue(delivery: Synchronous, length: int) -> Column:
    """The participants of round 0, of round 1, …"""
    rounds = -(-length // delivery.group_size)
    if delivery.participation == "round-robin":
        turns = np.arange(rounds * delivery.group_size, dtype=np.int64) % delivery.devices + 1
        return np.sort(turns.astype(np.int32).reshape(rounds, -1), axis=1).ravel()[:length]
    drawn = [delivery.participants(k) for k in range(rounds)]
    return np.array(drawn, dtype=np.int32).ravel()[:length]
