"""What a sweep has to know of a point's schedule, worked out once for all points that have the same one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from slotwise.fleet import Fleet
from slotwise.runs import RunConfig
from slotwise.scenario import Scenario
from slotwise.schedule import Delay, Participation, Schedule, simulate

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
    by_chance = parameters.policy.schedule == "sync" and parameters.policy.participation == "random"
    return _facts(
        parameters.channel,
        parameters.policy.schedule,
        parameters.policy.delay,
        parameters.make_fleet(),
        parameters.policy.participation,
        parameters.seed if by_chance else 0,
    )


@lru_cache(REMEMBERED)
def _facts(
    scenario: Scenario,
    schedule: Schedule,
    delay: Delay,
    fleet: Fleet | None,
    participation: Participation,
    seed: int,
) -> Facts:
    timeline = simulate(scenario, schedule, delay=delay, fleet=fleet, participation=participation, seed=seed)
    return Facts(timeline.rounds, timeline.last_slot, len(timeline), timeline.mean_staleness())
