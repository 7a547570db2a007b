"""Search for a fixed delay that suits unequal devices better than just-in-time delivery does.

Just-in-time delivery keeps the uplinks of the asynchronous schedule. A fixed delay moves them, so it can be
fresher although no round is lost, above all if a training is short beside a round: with a fixed delay devices
may finish while others of their round send.

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
from functools import cache
from itertools import islice
from math import inf

import numpy as np

from slotwise.fleet import Fleet
from slotwise.scenario import Scenario
from slotwise.schedule.events import event_timeline
from slotwise.schedule.one_at_a_time import Simulation, applies
from slotwise.schedule.policies.asynchronous import FixedDelay
from slotwise.schedule.policy import Policy
from slotwise.schedule.selections.first_ready_selection import first_ready
from slotwise.schedule.timeline import Timeline

MOST_TRIED = 20_000  # uplinks of all delays together that are simulated; beyond it delays are bisected


def shortest_round(scenario: Scenario, fleet: Fleet) -> int:
    """Return the fewest slots in which a full round can end, its broadcast included."""
    in_turn = -(-min(scenario.group_sizes) // scenario.sub_channels)
    return in_turn * min(fleet.link_slots) + scenario.link_slots


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
        if not applies(limited, self.policy(delay), self.fleet):
            return event_timeline(limited, self.policy(delay), self.fleet, self.rounds)
        wanted, shortest = self.planned.rounds, shortest_round(limited, self.fleet)
        simulation = Simulation(limited, FixedDelay(limited.devices, limited.group_size, delay), self.fleet)
        ends = islice(simulation.rounds(limited.deadline), self.rounds)
        for k, end in enumerate(ends, start=1):
            if end + (wanted - k) * shortest > self._last_slot:
                break
        return Timeline.of(limited, self.planned.schedule, delay, simulation.record, self.fleet)
