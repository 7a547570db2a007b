"""Just-in-time delivery: the intentional delay for unequal devices.

**The rule.** Take the asynchronous schedule of the fleet (delay 0). Leave its channel as it is: the same
uplinks in the same slots. Only let every device receive the last broadcast that still lets it finish
computing before the round in which it sends begins; if there is none, the one it receives anyway.

**Why it costs nothing.** No uplink moves, so no round ends later than without delay. Each update is made from
the same model or a later one, so no update gets older.

**Why it is Proposition 1 for equal devices.** There, a round begins every r(S+1) slots, so the last broadcast
in time is the one of ceil(tau_comp / (r(S+1))) = d* rounds ago, for all S devices of the round.

It needs to know the schedule in advance, so it is exact where durations are known. Under jitter, losses and
absences a plan is made for the fleet without them and followed in rounds instead of slots (`Planned`): a
heuristic.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from slotwise.schedule.delivery import Booking
from slotwise.schedule.timeline import Column, Timeline


def just_in_time(plain: Timeline, compute_slots: Sequence[int], rounds: int) -> Timeline:
    """The first ``rounds`` rounds of an asynchronous timeline, with models received just in time.

    ``plain`` must go on long enough that whoever received one of the first ``rounds`` models has sent: only
    an uplink says when its model is needed.
    """
    slots = np.asarray(compute_slots, dtype=np.int64)
    begins = np.concatenate([np.zeros(1, dtype=np.int64), plain.broadcast_end[:-1]])
    in_time = np.searchsorted(
        plain.broadcast_end, begins[plain.round] - slots[plain.device - 1], side="right"
    )
    version = np.maximum(plain.version, in_time.astype(np.int32))
    receiver, offsets = _receivers(plain.device, version, rounds)
    sent = slice(0, int(plain.round_offsets[rounds]))
    return replace(
        plain,
        schedule="idfl",
        delay=None,
        version=version[sent],
        **{name: getattr(plain, name)[sent] for name in ("round", "device", "start", "end")},
        broadcast_start=plain.broadcast_start[:rounds],
        broadcast_end=plain.broadcast_end[:rounds],
        receiver=receiver,
        receiver_offsets=offsets,
    )


def _receivers(device: Column, version: Column, rounds: int) -> tuple[Column, Column]:
    """Who receives each of w_0, …, w_rounds: whoever sends an update made from it, in ascending order."""
    wanted = version <= rounds
    device, version = device[wanted], version[wanted]
    order = np.lexsort((device, version))
    return device[order], np.searchsorted(version[order], np.arange(rounds + 2))


@dataclass(frozen=True)
class Planned:
    """A delivery policy that follows a plan as far as faults let it.

    Whoever sends waits as many rounds for its next model as the plan has it wait at that time. For every S
    devices that are away the queue for the channel is a round shorter, and so is the wait. Those who are
    ready send in the planned order, and where the plan is not met, in the order in which they got ready.

    Attributes:
        devices: N.
        group_size: S.
        received: the models each device receives in the plan.
        sent: the rounds in which it sends.
        turns: the slot of the uplink, for (device, version).
    """

    devices: int
    group_size: int
    received: Mapping[int, Sequence[int]]
    sent: Mapping[int, Sequence[int]]
    turns: Mapping[tuple[int, int], int]

    @classmethod
    def of(cls, plan: Timeline) -> Planned:
        """Follow a timeline of the same devices."""
        received: defaultdict[int, list[int]] = defaultdict(list)
        for version in range(plan.models):
            for device in plan.receivers(version).tolist():
                received[device].append(version)
        sent: defaultdict[int, list[int]] = defaultdict(list)
        turns = {}
        columns = (plan.round, plan.device, plan.version, plan.start)
        for k, device, version, start in zip(*(column.tolist() for column in columns), strict=True):
            sent[device].append(k)
            turns[device, version] = start
        return cls(plan.scenario.devices, plan.scenario.group_size, dict(received), dict(sent), turns)

    @property
    def delay(self) -> None:
        """Every device has its own."""

    @property
    def waits_for_all(self) -> bool:
        """Whoever is ready may send."""
        return False

    def initial(self, absent: Set[int] = frozenset()) -> Iterable[Booking]:
        """Each device's first model in the plan."""
        for device in range(1, self.devices + 1):
            first = self.received.get(device, (0,))[0]
            yield max(0, first - self._rounds_saved(absent)), [device]

    def after(
        self, round_number: int, senders: Sequence[int], absent: Set[int] = frozenset()
    ) -> Iterable[Booking]:
        """Each sender's next model: as many rounds later as in the plan."""
        saved = self._rounds_saved(absent)
        for device in senders:
            yield round_number + 1 + max(0, self._wait(device, round_number) - saved), [device]

    def joining(self, round_number: int) -> int:
        """The model of the current round, as soon as it is complete."""
        return round_number + 1

    def _wait(self, device: int, round_number: int) -> int:
        """Rounds from the planned uplink that is due by now to the next model; at the end, the last known."""
        sent, received = self.sent.get(device, ()), self.received.get(device, ())
        place = min(bisect_right(sent, round_number), len(received) - 1) - 1
        return received[place + 1] - sent[place] - 1 if place >= 0 else 0

    def _rounds_saved(self, absent: Set[int]) -> int:
        present = self.devices - len(absent)
        return -(-self.devices // self.group_size) - -(-present // self.group_size)
