"""Content of a Gantt chart, independent of how it is drawn: intervals of the channel and of every device.

A device repeats one cycle: receive a model, compute, wait for the channel, send the update (again after a
loss), wait for the next model. A Timeline holds receptions, uplinks, losses and absences; the time between
them is waiting. Together they become half-open intervals that cover [0, last_slot) of each device without
overlap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from itertools import chain, count, pairwise
from typing import NamedTuple

import numpy as np

from slotwise.base.errors import InputError
from slotwise.report.number_text import counted
from slotwise.schedule.timeline import NEVER, NONE, Column, Timeline, Trainings, departures

BEYOND = -1  # a round or a model after the last round of the timeline
UNSENT = -2  # the round of an update whose device left before sending it
SERVER = 0  # the sender of a broadcast; devices are numbered from 1


class Window(NamedTuple):
    """The slots [first, end) that a chart shows."""

    first: int
    end: int

    @property
    def slots(self) -> int:
        """Number of slots in the window."""
        return self.end - self.first

    def clip(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of [start, end) inside the window."""
        return max(start, self.first), min(end, self.end)

    def cut(self, slots: int) -> Window:
        """Return the first ``slots`` slots of the window."""
        return Window(self.first, min(self.end, self.first + slots))


def whole_window(timeline: Timeline) -> Window:
    """Return a window with all slots of the timeline."""
    return Window(0, timeline.last_slot)


def window_of(text: str, timeline: Timeline) -> Window:
    """Parse ``A:B`` as slots A to B−1, like a Python slice; an omitted side means the timeline's end."""
    last = timeline.last_slot
    if match := re.fullmatch(r"(\d{0,18}):(\d{0,18})", text):
        first, end = int(match[1] or 0), min(int(match[2] or last), last)
        if first < end:
            return Window(first, end)
    raise InputError("slots", text, f"A:B with A below B, within 0:{last}")


class Activity(IntEnum):
    """Activities of a half-duplex device; LOST is sending an update that does not arrive."""

    CHARGING = -2
    AWAY = -1
    WAITING_FOR_MODEL = 0
    WAITING_FOR_CHANNEL = 1
    COMPUTING = 2
    RECEIVING = 3
    SENDING = 4
    LOST = 5


class Interval(NamedTuple):
    """An activity of a device, or a transfer on the channel, in the slots [start, end).

    ``version`` is the model computed on, sent for, received or waited for; BEYOND if it never comes.
    ``round`` is that of the uplink (of the broadcast, for a reception); BEYOND or UNSENT if there is none.
    """

    device: int
    kind: Activity
    start: int
    end: int
    version: int
    round: int


def activities(timeline: Timeline, window: Window | None = None) -> list[Interval]:
    """Return the intervals of every device with a slot in the window, at full length, by device and slot."""
    every = activity_table(timeline, window).T.tolist()
    return [Interval(device, Activity(kind), *rest) for device, kind, *rest in every]


def activity_table(timeline: Timeline, window: Window | None = None) -> Column:
    """Return the intervals of `activities` as a table with a row for each field of `Interval`."""
    known = np.concatenate([*_known(timeline)], axis=1)
    # Cut at the end of the timeline. What is left without length, such as the reception of w_0, goes.
    known[3] = np.minimum(known[3], timeline.last_slot)
    known = _sorted(known[:, known[2] < known[3]])
    every = _sorted(np.concatenate([known, _gaps(timeline, known)], axis=1))
    if window is not None:
        every = every[:, (every[2] < window.end) & (every[3] > window.first)]
    return every


def activity_kinds(timeline: Timeline) -> list[Activity]:
    """Return the activities a legend explains: losses and absences only if the timeline has some."""
    away = any(a.leaves < timeline.last_slot for a in timeline.fleet.absences)
    rare = {Activity.LOST: len(timeline.lost) > 0, Activity.AWAY: away}
    rare[Activity.CHARGING] = len(timeline.waits) > 0
    return [kind for kind in Activity if rare.get(kind, True)]


def _known(timeline: Timeline) -> Iterator[Column]:
    """Yield all intervals that are not waiting, as tables of six rows; some have no length."""
    device, version, arrival, received, start, ready, departure, row = Trainings.of(timeline)
    received = np.minimum(received, departure)
    yield _table(device, Activity.RECEIVING, arrival, received, version, version - 1)
    sent_in = np.where(departure < timeline.last_slot, UNSENT, BEYOND)
    sent_in[row != NONE] = timeline.round[row[row != NONE]]
    yield _table(device, Activity.COMPUTING, start, np.minimum(ready, departure), version, sent_in)
    sent = (timeline.start, timeline.end, timeline.version, timeline.round)
    yield _table(timeline.device, Activity.SENDING, *sent)
    k, device, version, start, end = timeline.lost.T
    # A device that leaves while it sends is away from then on; the channel stays taken until ``end``.
    end = np.minimum(end, departures(timeline.fleet, device, start))
    yield _table(device, Activity.LOST, start, end, version, k)
    device, version, start, end = timeline.waits.T
    end = np.minimum(end, departures(timeline.fleet, device, start))
    yield _table(device, Activity.CHARGING, start, end, version, BEYOND)
    absences = timeline.fleet.absences
    slots = [(n, leaves, NEVER if returns is None else returns) for n, leaves, returns in absences]
    device, leaves, returns = np.array(slots, dtype=np.int64).reshape(-1, 3).T
    yield _table(device, Activity.AWAY, leaves, returns, BEYOND, BEYOND)


def _gaps(timeline: Timeline, known: Column) -> Column:
    """Return the waiting between known intervals: for the channel with an update, else for a model."""
    everyone, last = np.arange(1, timeline.scenario.devices + 1), timeline.last_slot
    # Two empty intervals per device, at slot 0 and at the end, make every gap lie between two neighbours.
    first = _table(everyone, Activity.AWAY, 0, 0, BEYOND, BEYOND)
    final = _table(everyone, Activity.WAITING_FOR_MODEL, last, last, BEYOND, BEYOND)
    every = _sorted(np.concatenate([first, known, final], axis=1))
    before, after = every[:, :-1], every[:, 1:]
    gap = (before[0] == after[0]) & (before[3] < after[2])
    device, kind, _, start, version, _ = before[:, gap]
    _, following, end, _, next_version, sent_in = after[:, gap]
    # After one of these a device holds an update. Charging before a training leaves no gap, so a gap after
    # charging belongs to a lost uplink.
    ready = (kind == Activity.COMPUTING) | (kind == Activity.LOST) | (kind == Activity.CHARGING)
    if timeline.fleet.retransmission == "erasure":
        # An erased update is not sent again; its device waits for a model.
        ready &= kind != Activity.LOST
    awaited = np.where(following == Activity.RECEIVING, next_version, BEYOND)
    sends = (following == Activity.SENDING) | (following == Activity.LOST)
    leaves = np.where(following == Activity.AWAY, UNSENT, BEYOND)
    return _table(
        device,
        np.where(ready, Activity.WAITING_FOR_CHANNEL, Activity.WAITING_FOR_MODEL),
        start,
        end,
        np.where(ready, version, awaited),
        np.where(ready, np.where(sends, sent_in, leaves), BEYOND),
    )


def _table(device: Column, *others: Column | int) -> Column:
    return np.stack([np.broadcast_to(part, device.shape) for part in (device, *others)]).astype(np.int64)


def _sorted(table: Column) -> Column:
    """Sort by device and slot; intervals without length keep their place among equals."""
    return table[:, np.lexsort((table[2], table[0]))]


def transfers(timeline: Timeline, window: Window) -> list[Interval]:
    """Return what the channel carries in the window: uplinks, then lost uplinks, then broadcasts.

    An uplink is SENDING or LOST. A broadcast is RECEIVING from device SERVER, with the model it delivers.
    """
    rows = (timeline.start < window.end) & (timeline.end > window.first)
    columns = (timeline.device, timeline.start, timeline.end, timeline.version, timeline.round)
    sent = np.stack([column[rows] for column in columns], axis=1).tolist()
    failed = (timeline.lost[:, 3] < window.end) & (timeline.lost[:, 4] > window.first)
    lost = timeline.lost[failed].tolist()
    ends = _overlapping(timeline.broadcast_start, timeline.broadcast_end, window)
    slots = np.stack([timeline.broadcast_start[ends], timeline.broadcast_end[ends]], axis=1).tolist()
    return [
        *(Interval(device, Activity.SENDING, *rest) for device, *rest in sent),
        *(Interval(device, Activity.LOST, start, end, v, k) for k, device, v, start, end in lost),
        *(
            Interval(SERVER, Activity.RECEIVING, start, end, k + 1, k)
            for k, (start, end) in enumerate(slots, ends.start)
        ),
    ]


def lanes(carried: Sequence[Interval]) -> list[int]:
    """Return the sub-channel on which each transfer is drawn, from 0 on: the first that is free."""
    free: list[int] = []
    chosen = [0] * len(carried)
    for place in sorted(range(len(carried)), key=lambda place: carried[place].start):
        start, end = carried[place].start, carried[place].end
        lane = next((lane for lane, until in enumerate(free) if until <= start), len(free))
        # A slice at the end of the list appends a lane.
        free[lane : lane + 1] = [end]
        chosen[place] = lane
    return chosen


def transfer_label(transfer: Interval) -> str:
    """Return what the channel's row shows: the sender's number, or the model that is broadcast."""
    return f"w{transfer.version}" if transfer.device == SERVER else str(transfer.device)


def shortest_uplink(timeline: Timeline) -> int:
    """Return the slots of the fastest device's uplink, or of the shortest that there is."""
    return int((timeline.end - timeline.start).min(initial=min(timeline.fleet.link_slots)))


def shortest_broadcast(timeline: Timeline) -> int:
    """Return the slots of the shortest broadcast."""
    slots = timeline.broadcast_end - timeline.broadcast_start
    return int(slots.min(initial=timeline.scenario.link_slots))


def round_starts(timeline: Timeline, window: Window) -> dict[int, int]:
    """Return the first slot of each round with a slot in the window: the end of the round before."""
    starts = np.concatenate([np.zeros(1, dtype=np.int64), timeline.broadcast_end[:-1]])
    rows = _overlapping(starts, timeline.broadcast_end, window)
    return {k: int(starts[k]) for k in range(rows.start, rows.stop)}


def _overlapping(start: Column, end: Column, window: Window) -> slice:
    # Rounds follow each other, so starts and ends ascend.
    first = np.searchsorted(end, window.first, side="right")
    return slice(int(first), int(np.searchsorted(start, window.end)))


def ticks(numbers: Sequence[int], place: Callable[[int], float], width: Callable[[int], float]) -> list[int]:
    """Return all of the ascending numbers, or the multiples of the smallest of 5, 10, 20, 50, … with room.

    ``place`` is the position of a number, ``width`` the room it needs, including the gap to the next one.
    """
    # It ends at the latest when a step leaves one number or none.
    for step in chain((1,), (digit * 10**power for power in count() for digit in (5, 10, 20))):
        chosen = [number for number in numbers if number % step == 0]
        if all(place(after) - place(before) >= width(before) for before, after in pairwise(chosen)):
            break
    return chosen


def describe(timeline: Timeline, update_bits: int | None = None) -> tuple[str, str]:
    """Return two lines of text: the scenario, and the result; with the bits of an update also the rates."""
    scenario, fleet = timeline.scenario, timeline.fleet
    if update_bits is not None:
        return _describe_rates(timeline, update_bits), _describe_result(timeline)
    uplinks = counted(scenario.group_size, "uplink")
    if scenario.group_size_changes:
        uplinks = f"{scenario.group_size_text} uplinks"
    if scenario.sub_channels > 1:
        uplinks += f" on {scenario.sub_channels:,} sub-channels"
    asked = f"{counted(scenario.devices, 'device')}, {uplinks} a round, "
    if timeline.equal_devices:
        compute = counted(scenario.compute_slots, "slot")
        asked += f"{compute} to compute, {_describe_link(timeline)}"
    else:
        compute, link = (spread(np.array(slots)) for slots in (fleet.compute_slots, fleet.link_slots))
        notes = [f"{spread(np.array(slots))} from slot {slot:,} on" for slot, slots in fleet.compute_changes]
        notes += [f"jitter {fleet.jitter:.0%}"] if fleet.jitter else []
        noted = f" ({', '.join(notes)})" if notes else ""
        asked += f"{compute} slots to compute{noted}, {link} per uplink, "
        asked += f"{scenario.link_slots:,} per broadcast"
    return asked, _describe_result(timeline)


def _describe_link(timeline: Timeline) -> str:
    """Return the slots of uplinks and broadcasts: those of the scenario, or those that a radio link took."""
    slots = timeline.scenario.link_slots
    uplinks, broadcasts = timeline.end - timeline.start, timeline.broadcast_end - timeline.broadcast_start
    if (uplinks == slots).all() and (broadcasts == slots).all():
        return f"{slots:,} per uplink or broadcast"
    return f"{spread(uplinks)} per uplink, {spread(broadcasts)} per broadcast"


def _describe_rates(timeline: Timeline, update_bits: int) -> str:
    """Return the scenario with the slots that uplinks and broadcasts took, and the rates of the uplinks."""
    scenario, compute = timeline.scenario, spread(np.array(timeline.fleet.compute_slots))
    uplinks, broadcasts = timeline.end - timeline.start, timeline.broadcast_end - timeline.broadcast_start
    return (
        f"{counted(scenario.devices, 'device')}, {counted(scenario.group_size, 'uplink')} a round, {compute} "
        f"slots to compute, {spread(uplinks)} per uplink of {update_bits:,} bits "
        f"({spread(update_bits // uplinks)} bits a slot), {spread(broadcasts)} per broadcast"
    )


def spread(numbers: Column) -> str:
    """Return the smallest and the largest number as text: ``3``, ``2–12``."""
    least, most = int(numbers.min()), int(numbers.max())
    return f"{least:,}" if least == most else f"{least:,}–{most:,}"


def _describe_result(timeline: Timeline) -> str:
    lost, delay = len(timeline.lost), ""
    if timeline.schedule == "idfl":
        delay = ", just in time" if timeline.delay is None else f", delay {timeline.delay:,}"
    found = (
        f"{timeline.schedule}{delay}: {counted(timeline.rounds, 'round')} in "
        f"{counted(timeline.last_slot, 'slot')}; "
        f"staleness {timeline.max_staleness():,} at most, {timeline.mean_staleness():,.2f} on average"
    )
    fate = "erased" if timeline.fleet.retransmission == "erasure" else "lost"
    return found + (f"; {counted(lost, 'uplink')} {fate}" if lost else "")


def span(first: int, end: int, noun: str = "slot") -> str:
    """Return the half-open [first, end) as text: ``slot 4``, ``slots 5–6``."""
    return f"{noun} {first}" if end - first == 1 else f"{noun}s {first}–{end - 1}"
