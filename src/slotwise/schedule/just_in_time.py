"""Just-in-time delivery: every device receives the last model that still lets it send when it would anyway.

For equal devices all wait the same number of rounds (`FixedDelay`). For unequal devices, or another selection
than first-ready, delivery is just in time, unless a fixed delay is fresher at no cost (`FixedDelaySearch`):

**The rule.** Take the asynchronous schedule of the fleet (delay 0). Leave its channel as it is: the same
uplinks in the same slots. Only let every device receive the last broadcast that still lets it finish
computing before the round in which it sends begins; if there is none, the one it receives anyway.

**Why it costs nothing.** No uplink moves, so no round ends later than without delay. Each update is made from
the same model or a later one, so no update gets older.

**Why it is Proposition 1 for equal devices.** There, a round begins every r(S+1) slots, so the last broadcast
in time is the one of ceil(tau_comp / (r(S+1))) = d* rounds ago, for all S devices of the round.

It needs to know the schedule in advance, so it is exact where durations are known. Under jitter, losses and
absences a plan is made for the fleet without them and followed in rounds instead of slots (`Planned`): a
heuristic. There, and over links, fixed delays are not tried: they leave no slack.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slotwise.base.errors import InputError
from slotwise.fleet import Fleet, Reach
from slotwise.scenario import Scenario
from slotwise.schedule.events import event_timeline
from slotwise.schedule.free_delay import MOST_ROUNDS, FixedDelaySearch, shortest_round, unplayed
from slotwise.schedule.link import FleetLink
from slotwise.schedule.one_at_a_time import one_at_a_time
from slotwise.schedule.policy import Booking, Delivery, FixedDelay
from slotwise.schedule.simulators import sends_one_at_a_time
from slotwise.schedule.timeline import NEVER, NONE, Column, Timeline, Trainings

if TYPE_CHECKING:
    from slotwise.schedule.policies import IntentionalDelay

MOST_COMPARED = 3_000_000  # uplinks by the deadline, up to which fixed delays are tried


class Comparison(NamedTuple):
    """Just-in-time delivery beside fixed delays, for devices without faults."""

    delay: int | None  # the fixed delay, if one is fresher at no cost
    shown: int  # rounds without delay
    plain: Timeline  # without delay, until all receivers of those rounds have sent


def just_in_time_timeline(
    scenario: Scenario, policy: IntentionalDelay, fleet: Fleet, rounds: int | None
) -> Timeline:
    """Return the timeline of devices without faults: the plan is what happens, so nothing is played."""
    delay, shown, plain = _compare(policy, scenario, fleet, rounds)
    if delay is None:
        planned = just_in_time(plain, fleet.compute_slots, shown)
        return replace(planned, scenario=scenario, schedule=policy.name, fleet=fleet)
    fixed = replace(policy, delay=delay)
    if sends_one_at_a_time(scenario, fixed, fleet):
        return one_at_a_time(scenario, fixed, fleet, rounds)
    return event_timeline(scenario, fixed, fleet, rounds, FleetLink.of(scenario, fleet))


def just_in_time_delivery(
    policy: IntentionalDelay, scenario: Scenario, fleet: Fleet, rounds: int | None
) -> Delivery:
    """Return the delivery that follows a plan for the fleet without its faults, or a fixed delay."""
    delay, shown, plain = _compare(policy, scenario, fleet, rounds)
    if delay is not None:
        return FixedDelay(scenario.devices, scenario.group_size, delay)
    # With all rounds of the plan, so that the last senders of those shown have a next model in it.
    slots = fleet.without_faults().compute_slots
    return Planned.of(just_in_time(plain, slots, plain.rounds), shown)


def _compare(policy: IntentionalDelay, scenario: Scenario, fleet: Fleet, rounds: int | None) -> Comparison:
    """Compare just-in-time delivery with fixed delays, where these are tried."""
    devices = fleet.without_faults()
    if not _tries_fixed_delays(policy, scenario, fleet):
        return Comparison(None, *_without_delay(policy, scenario, devices, rounds))
    # A deadline decides alone: the first rounds of a run must not depend on how many of them are shown.
    horizon = rounds if scenario.deadline is None else None
    shown, plain = _without_delay(policy, scenario, devices, horizon)
    planned = just_in_time(plain, devices.compute_slots, shown)
    search = FixedDelaySearch(scenario, fleet, horizon, planned, lambda delay: replace(policy, delay=delay))
    return Comparison(search.best(), min(shown, rounds or shown), plain)


def _tries_fixed_delays(policy: IntentionalDelay, scenario: Scenario, fleet: Fleet) -> bool:
    """Return whether fixed delays are tried: all durations are known, and they are not too many."""
    if not policy.one_delay or not fleet.faultless or fleet.is_equal_to(scenario):
        return False
    uplinks = (scenario.deadline or 0) // shortest_round(scenario, fleet) * max(scenario.group_sizes)
    return uplinks <= MOST_COMPARED


def _without_delay(
    policy: IntentionalDelay, scenario: Scenario, fleet: Fleet, rounds: int | None
) -> tuple[int, Timeline]:
    """Return the number of rounds without delay, and a timeline until all their receivers have sent.

    The slowest device is ready before so many of the shortest possible rounds are over; fewer than N
    others are then before it in the queue, and G rounds serve them all.
    """
    scenario.check_horizon(rounds)
    plain, endless = replace(policy, delay=0), replace(scenario, deadline=None)
    fewest, shortest = min(scenario.group_sizes), shortest_round(scenario, fleet)
    more = max(fleet.compute_slots) // shortest + -(-scenario.devices // fewest) + 2
    if more * fewest > MOST_ROUNDS:
        allowed = f"fewer: just-in-time delivery would plan {more:,} rounds, until that device has sent"
        raise InputError("compute_slots", max(fleet.compute_slots), allowed)
    shown, simulation = 0, unplayed(endless, plain, fleet)
    # One simulation does both: it counts the rounds that fit, and then plays ``more`` without a deadline.
    for done, end in enumerate(simulation.rounds(), start=1):
        if done <= (rounds or done) and end <= (scenario.deadline or end):
            shown = done
        elif done == shown + more:
            break
    return shown, Timeline.of(endless, policy.name, 0, simulation.record, fleet)


def just_in_time(plain: Timeline, compute_slots: Sequence[int], rounds: int) -> Timeline:
    """Return the first ``rounds`` rounds of an asynchronous timeline, with models received just in time.

    ``plain`` should go on until whoever received one of the first ``rounds`` models has sent: only an uplink
    tells when a model is needed. A device that never sends receives the model it would receive anyway.
    """
    # Round k begins when round k−1 ends, or with its broadcast if uplinks need not wait for that. A sender in
    # it must have its model tau_comp slots before. The broadcasts that have ended by then are w_1 to
    # w_in_time; 0 means that there is only w_0.
    slots = np.asarray(compute_slots, dtype=np.int64)
    before = plain.broadcast_start if plain.scenario.has_full_duplex else plain.broadcast_end
    begins = np.concatenate([np.zeros(1, dtype=np.int64), before[:-1]])
    needed = begins[plain.round] - slots[plain.device - 1]
    in_time: Column = np.searchsorted(plain.broadcast_end, needed, side="right")
    if plain.fleet.windows is not None and not plain.fleet.windows.always_receives:
        in_time = _last_in_window(plain, in_time, plain.fleet.windows)
    # A device that gets ready only during the round keeps its model: a later one would delay it.
    version = np.maximum(plain.version, in_time.astype(np.int32))
    # Whoever sends an update made from a model receives it, ascending; others what they receive anyway.
    received = Trainings.of(plain)
    unsent = received.uplink == NONE
    device = np.concatenate([plain.device, received.device[unsent].astype(np.int32)])
    model = np.concatenate([version, received.version[unsent].astype(np.int32)])
    # Models after w_rounds are needed by uplinks that are not part of the result.
    device, model = device[model <= rounds], model[model <= rounds]
    order = np.lexsort((device, model))
    return replace(
        replace(plain, version=version).first(rounds),
        delay=None,
        repeats=np.empty((0, 4), dtype=np.int64),
        receiver=device[order],
        receiver_offsets=np.searchsorted(model[order], np.arange(rounds + 2)),
    )


def _last_in_window(plain: Timeline, versions: Column, windows: Reach) -> Column:
    """Return, for each uplink, the last model up to a version whose broadcast its sender can receive.

    If there is none after the model that it was trained on, it is that model.
    """
    found = []
    starts, ends = plain.broadcast_start.tolist(), plain.broadcast_end.tolist()
    rows = zip(plain.device.tolist(), plain.version.tolist(), versions.tolist(), strict=True)
    for device, trained, last in rows:
        later = range(last, trained, -1)
        covered = (v for v in later if windows.receives(device, starts[v - 1], ends[v - 1]))
        found.append(next(covered, trained))
    return np.array(found, dtype=np.int64)


@dataclass(frozen=True)
class Planned(Delivery):
    """A delivery that follows a plan as far as faults permit.

    A sender waits as many rounds for its next model as it does in the plan at that time. For every S devices
    that are absent the queue for the channel is a round shorter, and so is the wait. Devices that are ready
    send in the planned order; if the plan is not met, in the order in which they got ready.
    """

    devices: int
    group_size: int
    received: Mapping[int, Sequence[int]]  # the models each device receives in the plan
    sent: Mapping[int, Sequence[int]]  # the rounds in which it sends
    turns: Mapping[tuple[int, int], int]  # the slot of the uplink, for (device, version)

    @classmethod
    def of(cls, plan: Timeline, rounds: int = -1) -> Planned:
        """Follow a timeline of the same devices.

        The selection may have left devices out for good. If they received one of the first ``rounds`` models
        and never send in the plan, they come last, not in the order in which they got ready.
        """
        received: defaultdict[int, list[int]] = defaultdict(list)
        for version in range(plan.models):
            for device in plan.receivers(version).tolist():
                received[device].append(version)
        sent: defaultdict[int, list[int]] = defaultdict(list)
        early = [(n, version) for n in received for version in received[n] if version <= rounds]
        turns = dict.fromkeys(early, int(NEVER))  # those that send get their slot below
        columns = (plan.round, plan.device, plan.version, plan.start)
        for k, device, version, start in zip(*(column.tolist() for column in columns), strict=True):
            sent[device].append(k)
            turns[device, version] = start
        return cls(plan.scenario.devices, plan.scenario.group_size, dict(received), dict(sent), turns)

    def initial(self, absent: Set[int]) -> Iterable[Booking]:
        """Book each device for its first model in the plan."""
        saved = self._rounds_saved(absent)
        for device in range(1, self.devices + 1):
            yield max(0, self.received.get(device, (0,))[0] - saved), [device]

    def after(self, round_number: int, senders: Sequence[int], absent: Set[int]) -> Iterable[Booking]:
        """Book each sender for a model as many rounds later as in the plan."""
        saved = self._rounds_saved(absent)
        for device in senders:
            # The wait is that between the planned uplink due by now and the next model, as far as known.
            sent, received = self.sent.get(device, ()), self.received.get(device, ())
            place = min(bisect_right(sent, round_number), len(received) - 1) - 1
            # The senders of round k get w_{k+1} without a wait.
            wait = received[place + 1] - sent[place] - 1 if place >= 0 else 0
            yield round_number + 1 + max(0, wait - saved), [device]

    def resized(self, group_size: int) -> Planned:
        """Return the same plan; absences shorten the wait by rounds of this size."""
        return replace(self, group_size=group_size)

    def _rounds_saved(self, absent: Set[int]) -> int:
        # The difference of ceil(N/S) for all devices and for those that are present.
        present = self.devices - len(absent)
        return -(-self.devices // self.group_size) - -(-present // self.group_size)
