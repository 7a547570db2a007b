"""plan(...): what every group size costs, how stale updates get, and which intentional delay is free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isqrt
from typing import Any, get_args

from slotwise import theory
from slotwise.costs import Costs, Powers
from slotwise.errors import InputError
from slotwise.fleet import Fleet
from slotwise.notebook import Displayable
from slotwise.scenario import Scenario, whole
from slotwise.schedule import Schedule, automatic_delay, completed_rounds, simulate

SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)


@dataclass(frozen=True)
class Plan:
    """One group size within one deadline.

    Attributes:
        scenario: the parameters, with this group size.
        round_slots: average slots of an asynchronous round, in the long run where S does not divide N.
        rounds: asynchronous rounds completed by the deadline.
        delay: the intentional delay to choose.
    """

    scenario: Scenario
    round_slots: Fraction
    rounds: int
    delay: int

    @property
    def fits(self) -> bool:
        """Whether at least one round ends by the deadline."""
        return self.rounds > 0

    def as_dict(self) -> dict[str, Any]:
        """The figures by name; staleness is that of the oldest updates once every device has sent."""
        scenario = self.scenario
        oldest = scenario.groups - 1
        return {
            "group_size": scenario.group_size,
            "groups": scenario.groups,
            "round_slots": _number(self.round_slots),
            "rounds": self.rounds,
            "models": self.rounds + 1,
            "staleness_async": oldest,
            "delay": self.delay,
            "staleness_idfl": oldest - self.delay,
            "sync_round_slots": theory.sync_round_slots(scenario),
            "sync_rounds": theory.sync_rounds(scenario, scenario.deadline or 0),
        }


class PlanTable(list[Plan], Displayable):
    """Plans of several group sizes: a list that can be shown as a table and as a plot."""


def plan(
    *,
    devices: int,
    compute_slots: int,
    link_slots: int = 1,
    deadline: int,
    group_sizes: Iterable[int] | None = None,
) -> PlanTable:
    """One Plan per group size; all divisors of ``devices`` unless told otherwise.

    Raises:
        InputError: a parameter is out of range.
    """
    scenarios = scenarios_of(
        devices=devices,
        compute_slots=compute_slots,
        link_slots=link_slots,
        deadline=deadline,
        group_sizes=group_sizes,
    )
    return plan_scenarios(scenarios)


def plan_scenarios(scenarios: Iterable[Scenario]) -> PlanTable:
    """One Plan per scenario."""
    return PlanTable(_plan(scenario) for scenario in scenarios)


def scenarios_of(*, devices: int, group_sizes: Iterable[int] | None = None, **channel: int) -> list[Scenario]:
    """The same channel with each group size; all divisors of ``devices`` unless told otherwise."""
    count = whole("devices", devices)
    sizes = divisors(count) if group_sizes is None else list(group_sizes)
    return [Scenario(devices=count, group_size=size, **channel) for size in sizes]


@dataclass(frozen=True)
class Simulated:
    """What one schedule comes to; staleness is over the whole run.

    Attributes:
        rounds: completed by the deadline.
        updates: applied.
        lost: uplinks in vain.
        mean_staleness: of the updates applied, in rounds.
        max_staleness: of the oldest.
        spending: slots of the devices, and joules if powers are known; None where no round ends.
    """

    rounds: int = 0
    updates: int = 0
    lost: int = 0
    mean_staleness: float = 0.0
    max_staleness: int = 0
    spending: Costs | None = field(default=None, repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The figures by name, without the spending."""
        return {name: value for name, value in vars(self).items() if name != "spending"}


@dataclass(frozen=True)
class SimulatedPlan:
    """One group size within one deadline, schedule by schedule, from the exact schedule.

    For an unequal fleet intentional delay is just in time.
    """

    scenario: Scenario
    schedules: Mapping[Schedule, Simulated]

    @property
    def fits(self) -> bool:
        """Whether a round of any schedule ends by the deadline."""
        return any(simulated.rounds for simulated in self.schedules.values())

    def as_dict(self) -> dict[str, Any]:
        """The figures by name."""
        figures: dict[str, Any] = {name: simulated.as_dict() for name, simulated in self.schedules.items()}
        return {"group_size": self.scenario.group_size, "groups": self.scenario.groups, **figures}

    def usage_as_dict(self) -> dict[str, Any]:
        """Slots and joules, schedule by schedule; None for one in which no round ends."""
        spendings = {name: simulated.spending for name, simulated in self.schedules.items()}
        return {name: None if found is None else found.as_dict() for name, found in spendings.items()}


def simulate_plans(
    scenarios: Iterable[Scenario],
    fleet: Fleet | None = None,
    *,
    seed: int = 0,
    schedules: Sequence[Schedule] = SCHEDULES,
    powers: Powers | None = None,
) -> list[SimulatedPlan]:
    """One SimulatedPlan per scenario: what no closed form knows, unequal devices and the slots of each."""
    return [
        SimulatedPlan(scenario, {name: _simulated(scenario, name, fleet, seed, powers) for name in schedules})
        for scenario in scenarios
    ]


def _simulated(
    scenario: Scenario, schedule: Schedule, fleet: Fleet | None, seed: int, powers: Powers | None
) -> Simulated:
    try:
        timeline = simulate(scenario, schedule, fleet=fleet, seed=seed)
    except InputError as error:
        if error.parameter != "deadline":
            raise
        return Simulated()
    return Simulated(
        rounds=timeline.rounds,
        updates=len(timeline),
        lost=len(timeline.lost),
        mean_staleness=timeline.mean_staleness(),
        max_staleness=timeline.max_staleness(),
        spending=Costs.of(timeline, powers),
    )


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def _plan(scenario: Scenario) -> Plan:
    """Closed forms where they hold, the exact schedule where they do not."""
    deadline = scenario.deadline or 0
    delay = theory.free_delay(scenario)
    if scenario.divides:
        rounds = theory.rounds_within(scenario, deadline)
    else:
        rounds, delay = completed_rounds(scenario), automatic_delay(scenario, free=delay)
    return Plan(scenario, theory.round_slots(scenario), rounds, delay)


def _number(fraction: Fraction) -> int | float:
    return fraction.numerator if fraction.denominator == 1 else float(fraction)
