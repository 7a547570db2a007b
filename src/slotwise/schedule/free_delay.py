"""The largest fixed intentional delay that costs nothing: of equal devices, and of unequal ones.

**Equal devices.** Round ends are monotone in the delay, so the largest that costs nothing is bisected on the
exact schedule (`automatic_delay`).

**Unequal devices.** Just-in-time delivery keeps the uplinks of the asynchronous schedule. A fixed delay moves
them, so it can be fresher although no round is lost, above all if a training is short beside a round: with a
fixed delay devices may finish while others of their round send (`FixedDelaySearch`).

**Which delays are tried.** Two bounds leave few of them. From above: with a delay of d rounds a device needs
its training, its uplink and d of the shortest possible rounds between two updates; with a large d there are
not enough updates by the deadline. From below: each round that devices wait on purpose is a round less of
staleness, which is N/S − 1 − d on average over a long schedule; with a small d updates are too old. The
delays between the bounds are all simulated, or, if that would take long, the largest that costs nothing is
found by bisection. (A larger delay may be free where a smaller one is not, but hardly ever is.)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from math import inf

import numpy as np

from slotwise.base.errors import InputError
from slotwise.fleet import Fleet
from slotwise.scenario import Scenario
from slotwise.schedule.batches import round_ends
from slotwise.schedule.events import Drive, driven
from slotwise.schedule.link import FleetLink
from slotwise.schedule.one_at_a_time import OneAtATime
from slotwise.schedule.policy import Policy, bound_delivery
from slotwise.schedule.selections import first_ready
from slotwise.schedule.simulators import sends_one_at_a_time
from slotwise.schedule.timeline import Timeline

MOST_GROUPS = 100_000
MOST_ROUNDS = 20_000_000
MOST_TRIED = 20_000  # uplinks of all delays together that are simulated; beyond it delays are bisected


def automatic_delay(scenario: Scenario, free: int = 0) -> int:
    """Return the largest delay that costs no slot; if S does not divide N, no *round* within the deadline.

    A larger delay never ends a round earlier (each device then waits for a later model), so the delays that
    cost nothing come first and the last of them is found by bisection. If S divides N, the answer is
    Proposition 1's, which `slotwise.theory.free_delay` gives in closed form; here it is searched for.
    ``free`` is a delay already known to cost no slot: the search starts there.
    """
    scenario.refuse_changes()
    refuse_too_many_groups(scenario)
    largest = scenario.largest_delay
    # The number of delays before the first that costs something, since False sorts before True.
    free += bisect_left(range(free + 1, largest + 1), True, key=partial(_costs_a_slot, scenario))
    if scenario.divides or scenario.deadline is None:
        return free
    costs_a_round = partial(_costs_a_round, scenario, completed_rounds(scenario))
    return free + bisect_left(range(free + 1, largest + 1), True, key=costs_a_round)


def refuse_too_many_groups(scenario: Scenario) -> None:
    """Raise an InputError if a search for the free delay would take minutes: it plays the first 2G rounds."""
    if scenario.groups > MOST_GROUPS:
        smallest = -(-scenario.devices // MOST_GROUPS)
        allowed = f"at least {smallest:,} to find the free delay: {MOST_GROUPS:,} groups are the most"
        raise InputError("group_size", scenario.group_size, allowed)


def completed_rounds(scenario: Scenario) -> int:
    """Return the number of asynchronous rounds that end by the deadline.

    If the channel never waits after the first training, they are counted by division. If it ever waits, that
    shows in the first 2G rounds: by then every device has sent a second time.
    """
    scenario.refuse_changes()
    first, each, deadline = scenario.compute_slots, scenario.communication_slots, scenario.deadline or 0
    beginning = round_ends(replace(scenario, deadline=None), 0, 2 * scenario.groups)
    if all(end == first + k * each for k, end in enumerate(beginning, start=1)):
        return max(0, (deadline - first) // each)
    if deadline // each > MOST_ROUNDS:
        allowed = (
            f"shorter, or group_size a divisor of {scenario.devices}: {MOST_ROUNDS:,} rounds are the most"
        )
        raise InputError("deadline", deadline, allowed)
    return sum(1 for _ in round_ends(scenario))


def _costs_a_slot(scenario: Scenario, delay: int) -> bool:
    """Return whether a round ends later than without delay; if any does, one of the first 2G does."""
    unlimited = replace(scenario, deadline=None)
    beginnings = (round_ends(unlimited, rounds, 2 * scenario.groups) for rounds in (delay, 0))
    return any(delayed != plain for delayed, plain in zip(*beginnings, strict=True))


def _costs_a_round(scenario: Scenario, rounds: int, delay: int) -> bool:
    """Return whether fewer than ``rounds`` rounds end by the deadline.

    Decided as soon as the rounds that are left, back to back, would not fit any more: a delay that costs
    slots costs some in every cycle, so that is soon even if the deadline is far.
    """
    deadline, each = scenario.deadline or 0, scenario.communication_slots
    ends = enumerate(round_ends(replace(scenario, deadline=None), delay, rounds), start=1)
    return any(end + (rounds - k) * each > deadline for k, end in ends)


def unplayed(scenario: Scenario, policy: Policy, fleet: Fleet) -> OneAtATime | Drive:
    """Return a simulation with a fixed delay over fixed slots, before its first round."""
    if sends_one_at_a_time(scenario, policy, fleet):
        return OneAtATime(scenario, bound_delivery(policy, scenario, fleet, None), fleet)
    return driven(scenario, policy, fleet, None, FleetLink.of(scenario, fleet))


def shortest_round(scenario: Scenario, fleet: Fleet) -> int:
    """Return the fewest slots in which a full round can end, its broadcast included."""
    uplinks = -(-min(scenario.group_sizes) // scenario.sub_channels) * min(fleet.link_slots)
    if scenario.has_full_duplex:  # the uplinks of a round may be sent during the broadcast before
        return max(uplinks, scenario.link_slots)
    return uplinks + scenario.link_slots


@dataclass(frozen=True)
class FixedDelaySearch:
    """The fixed delays of a faultless fleet, against a timeline of just-in-time delivery.

    A delay is *free* if as many rounds with as many updates end by the deadline; without a deadline, if the
    last of the given rounds ends no later.
    """

    scenario: Scenario
    fleet: Fleet
    rounds: int | None  # None if there is a deadline
    planned: Timeline
    policy: Callable[[int], Policy]  # the policy with a fixed delay

    def best(self) -> int | None:
        """Return the free delay with the lowest mean staleness; None if it is not below the plan's.

        Of equally fresh delays it is the largest.
        """
        delays, staleness = self._worth_trying(), cache(self._staleness)
        if len(delays) * len(self.planned) > MOST_TRIED:
            # False sorts before True: the number of delays before the first that is not free.
            free = bisect_left(delays, True, key=lambda delay: staleness(delay) == inf)
            delays = delays[max(0, free - 1) : free]
        best, lowest = None, self.planned.mean_staleness()
        for delay in reversed(delays):
            if self._least_staleness(delay) >= lowest:
                break  # so is that of every smaller delay
            if staleness(delay) < lowest:
                best, lowest = delay, staleness(delay)
        return best

    def _worth_trying(self) -> range:
        """Return the delays between the two bounds."""
        delays = range(1, self.scenario.largest_delay + 1)
        age, updates = self.planned.mean_staleness(), len(self.planned)
        start = bisect_left(delays, True, key=lambda delay: self._least_staleness(delay) < age)
        end = bisect_left(delays, True, key=lambda delay: self._most_updates(delay) < updates)
        return delays[start:end]

    @property
    def _last_slot(self) -> int:
        """The slot by which the rounds must end."""
        return self.scenario.deadline or self.planned.last_slot

    def _most_updates(self, delay: int) -> int:
        """Return an upper bound of the updates that a delay permits."""
        fleet, broadcast = self.fleet, self.scenario.link_slots
        alone = np.asarray(fleet.compute_slots, dtype=np.int64) + np.asarray(fleet.link_slots, dtype=np.int64)
        cycle = alone + broadcast + delay * shortest_round(self.scenario, fleet)
        left = self._last_slot - broadcast - alone  # after the first update
        return int(np.where(left < 0, 0, 1 + left // cycle).sum())

    def _least_staleness(self, delay: int) -> float:
        """Return a lower bound of the mean staleness with a delay; 0 if none is known.

        The updates of a device from models v_1, v_2, … arrive in rounds k_1, k_2, …, where v_{i+1} is
        k_i + d + 1. So its m updates together are k_m − v_1 − (m−1)(d+1) rounds old. At the end, dS devices
        wait on purpose: S each have sent last 1, 2, …, d rounds ago. Another device has waited d rounds,
        computed, and then queued behind at most N − dS others since it sent last.
        """
        scenario, rounds = self.scenario, self.planned.rounds
        devices, size = scenario.devices, scenario.group_size
        # Another selection may starve devices, which makes the others fresher.
        if self.policy(delay).selection is not first_ready or scenario.group_size_changes:
            return 0.0
        computing = np.asarray(self.fleet.compute_slots, dtype=np.int64)
        in_rounds = computing // shortest_round(scenario, self.fleet)
        idle = np.sort(in_rounds)[::-1] + scenario.groups + 3
        if rounds <= idle[0] + scenario.groups:  # a device may not have sent at all
            return 0.0
        waits = size * delay * (delay + 1) // 2  # as long for the first models as after the last updates
        unfinished = 2 * waits + int(idle[: devices - delay * size].sum()) - devices * (delay + 1)
        return (devices - max(0, unfinished) / rounds) / size - (delay + 1)

    def _staleness(self, delay: int) -> float:
        """Return the mean staleness with a delay; infinity if it is not free."""
        timeline = self._play(replace(self.scenario, deadline=self._last_slot), delay)
        enough = timeline.rounds >= self.planned.rounds and len(timeline) >= len(self.planned)
        return timeline.mean_staleness() if enough else inf

    def _play(self, limited: Scenario, delay: int) -> Timeline:
        """Return the timeline with a delay, or its beginning if the rounds that are left would not fit."""
        wanted, shortest = self.planned.rounds, shortest_round(limited, self.fleet)
        simulation = unplayed(limited, self.policy(delay), self.fleet)
        ends = islice(simulation.rounds(limited.deadline), self.rounds)
        for k, end in enumerate(ends, start=1):
            if end + (wanted - k) * shortest > self._last_slot:
                break
        return Timeline.of(limited, self.planned.schedule, delay, simulation.record, self.fleet)
