"""Just-in-time delivery: the intentional delay for unequal devices.

**The rule.** Take the asynchronous schedule of the fleet (delay 0). Leave its channel as it is: the same
uplinks in the same slots. Only let every device receive the last broadcast that still lets it finish
computing before the round in which it sends begins; if there is none, the one it receives anyway.

**Why it costs nothing.** No uplink moves, so no round ends later than without delay. Each update is made from
the same model or a later one, so no update gets older.

**Why it is Proposition 1 for equal devices.** There, a round begins every r(S+1) slots, so the last broadcast
in time is the one of ceil(tau_comp / (r(S+1))) = d* rounds ago, for all S devices of the round.

It needs to know the schedule in advance, so it is exact where durations are known. Under jitter, losses and
absences the plan is made for the fleet without them and followed as far as possible (`Planned`): a heuristic.
"""

from __future__ import annotations

from bisect import bisect_left
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
    """A delivery policy that follows a plan while it can.

    A device receives the models of the plan; if it comes too late for one, the next in the plan. Those who
    are ready send in the planned order. The channel never waits for a device because the plan says so.
    """

    receptions: Mapping[int, Sequence[int]]
    turns: Mapping[tuple[int, int], int]

    @classmethod
    def of(cls, plan: Timeline) -> Planned:
        """Follow the versions and the slots of a timeline."""
        receptions: defaultdict[int, list[int]] = defaultdict(list)
        for version in range(plan.models):
            for device in plan.receivers(version).tolist():
                receptions[device].append(version)
        rows = zip(plan.device.tolist(), plan.version.tolist(), plan.start.tolist(), strict=True)
        return cls(dict(receptions), {(device, version): start for device, version, start in rows})

    @property
    def delay(self) -> None:
        """Every device has its own."""

    @property
    def waits_for_all(self) -> bool:
        """Whoever is ready may send."""
        return False

    def initial(self, absent: Set[int] = frozenset()) -> Iterable[Booking]:  # noqa: ARG002
        """Each device's first model in the plan."""
        for device, versions in self.receptions.items():
            yield versions[0], [device]

    def after(
        self,
        round_number: int,
        senders: Sequence[int],
        absent: Set[int] = frozenset(),  # noqa: ARG002
    ) -> Iterable[Booking]:
        """Each sender's next model in the plan, or the new one where the plan has ended."""
        for device in senders:
            versions = self.receptions.get(device, ())
            place = bisect_left(versions, round_number + 1)
            yield versions[place] if place < len(versions) else round_number + 1, [device]

    def joining(self, round_number: int) -> int:
        """The model of the current round, as soon as it is complete."""
        return round_number + 1
