"""What a sweep has to know of a point's schedule, worked out once for all points that have the same one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from slotwise.fleet import Fleet
from slotwise.runs import RunConfig
from slotwise.scenario import Scenario
from slotwise.schedule import PolicyConfig, simulate

REMEMBERED = 4096  # schedules; each is a few numbers


@dataclass(frozen=True)
class Facts:
    """A timeline in four numbers.

    Attributes:
        rounds: that end by the deadline.
        last_slot: when the last of them does.
        updates: applied in all of them.
        mean_staleness: of the updates, in rounds.
    """

    rounds: int
    last_slot: int
    updates: int
    mean_staleness: float


def facts(parameters: RunConfig) -> Facts:
    """Of the schedule that the parameters describe.

    Raises:
        InputError: there is no such schedule, or no round fits.
    """
    policy = parameters.policy
    seed = parameters.seed if policy.depends_on_seed else 0
    return _facts(parameters.channel, policy, parameters.make_fleet(), seed)


@lru_cache(REMEMBERED)
def _facts(scenario: Scenario, policy: PolicyConfig, fleet: Fleet | None, seed: int) -> Facts:
    timeline = simulate(scenario, policy.policy(seed), fleet=fleet)
    return Facts(timeline.rounds, timeline.last_slot, len(timeline), timeline.mean_staleness())
