"""plan(...): rounds, staleness, the free intentional delay and costs of every group size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isqrt
from typing import Any, NamedTuple, get_args

from slotwise import theory
from slotwise.base.errors import InputError
from slotwise.base.notebook import Displayable
from slotwise.fleet import Devices, Fleet
from slotwise.options.checks import whole
from slotwise.scenario import Duplex, Scenario
from slotwise.schedule import (
    Asynchronous,
    FleetLink,
    IntentionalDelay,
    Link,
    NoRoundError,
    Participation,
    Policy,
    Schedule,
    Simulator,
    Synchronous,
    Totals,
    automatic_delay,
    case_of,
    completed_rounds,
    most_uplinks,
    refuse_too_many_uplinks,
    simulator_of,
    timeline_of,
)
from slotwise.schedule.batches import round_ends
from slotwise.schedule.costs import Costs, Powers
from slotwise.schedule.free_delay import refuse_too_many_groups

SCHEDULES: tuple[str, ...] = get_args(Schedule)
QUICKLY_COUNTED = 2_000_000  # uplinks or devices of all rows together: a second or two

CostsBySchedule = Mapping[str, Costs | None]  # None for a schedule in which no round ends


@dataclass(frozen=True)
class Plan:
    """One group size within one deadline, for equal devices."""

    scenario: Scenario
    round_slots: Fraction  # of an asynchronous round on average, in the long run if S does not divide N
    rounds: int  # asynchronous rounds completed by the deadline
    delay: int  # the largest intentional delay that costs nothing
    costs: CostsBySchedule = field(default_factory=dict, repr=False, compare=False)

    @property
    def fits(self) -> bool:
        """True if at least one round ends by the deadline."""
        return self.rounds > 0

    def figures(self) -> dict[str, int | float]:
        """Return the figures by name; staleness is that of the oldest updates once every device has sent."""
        scenario, slots = self.scenario, self.round_slots
        oldest = scenario.groups - 1
        return {
            "group_size": scenario.group_size,
            "groups": scenario.groups,
            "round_slots": slots.numerator if slots.denominator == 1 else float(slots),
            "rounds": self.rounds,
            "models": self.rounds + 1,
            "staleness_async": oldest,
            "delay": self.delay,
            "staleness_idfl": oldest - self.delay,
            "sync_round_slots": theory.sync_round_slots(scenario),
            "sync_rounds": theory.sync_rounds(scenario, scenario.deadline or 0),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the figures and, if there are costs, the usage of each schedule."""
        return self.figures() | _usage_as_dict(self.costs)


@dataclass(frozen=True)
class FleetPlan:
    """One group size within one deadline, simulated: unequal devices, or links over the radio.

    Intentional delay is the automatic one: just in time, or a fixed delay where that is fresher.
    """

    scenario: Scenario
    schedules: Mapping[str, Totals]  # of the whole run
    costs: CostsBySchedule = field(default_factory=dict, repr=False, compare=False)
    devices: str = "unequal devices"  # as a title names them

    @property
    def fits(self) -> bool:
        """True if a round of any schedule ends by the deadline."""
        return any(totals.rounds for totals in self.schedules.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by name, schedule by schedule."""
        figures = {name: totals._asdict() for name, totals in self.schedules.items()}
        for totals in figures.values():
            del totals["slots"]  # the deadline bounds all of them
        sizes = {"group_size": self.scenario.group_size, "groups": self.scenario.groups}
        return {**sizes, **figures, **_usage_as_dict(self.costs)}


class PlanTable(list[Plan | FleetPlan], Displayable):
    """The plans of several group sizes: `Plan`s for equal devices, `FleetPlan`s for unequal ones."""


def plan(
    *,
    devices: int,
    compute_slots: int,
    link_slots: int = 1,
    sub_channels: int = 1,
    duplex: Duplex = "tdd",
    deadline: int,
    group_sizes: Iterable[int] | None = None,
    fleet: Fleet | Devices | None = None,
    link: Callable[[Scenario], Link] | None = None,
    selection: Any = "first-ready",
    participation: Participation = "round-robin",
    seed: int = 0,
    usage: bool | None = False,
    powers: Powers | None = None,
) -> PlanTable:
    """Return one plan per group size; equal devices need no simulation unless costs are asked for.

    Args:
        devices: N, the number of devices.
        compute_slots: slots of one local training.
        link_slots: slots of one uplink and of one broadcast.
        sub_channels: devices that may send at once.
        duplex: tdd, or fdd if broadcasts have a band of their own: every schedule is then simulated.
        deadline: T, the slots available for training.
        group_sizes: values of S; all divisors of N by default.
        fleet: the devices, if they are unequal: every schedule is then simulated.
        link: returns the link of a scenario, as `RunConfig.make_link`; unless it is fixed, it is simulated.
        selection: who sends next, a short name, a function or the name of your own; if it is not first-ready,
            every schedule is simulated, as with participation other than round-robin and random.
        participation: who takes part in a round of sync.
        seed: seed of Devices and of a random selection and participation.
        usage: True computes the costs of every schedule, None those of idfl alone and only if that takes at
            most a few seconds, False none.
        powers: watts of a device, for costs in joules; they imply usage.

    Raises:
        InputError: a parameter is out of range, no round ends by the deadline, or too much is to be played.
    """
    count = whole("devices", devices)
    if not (sizes := divisors(count) if group_sizes is None else list(group_sizes)):
        raise InputError("group_sizes", "none", "at least one group size")
    slots: dict[str, Any] = {"compute_slots": compute_slots, "link_slots": link_slots, "deadline": deadline}
    slots |= {"sub_channels": sub_channels, "duplex": duplex}
    scenarios = [Scenario(devices=count, group_size=s, **slots) for s in sizes]
    policies = policies_of(selection, participation, seed)
    given = fleet.fleet(scenarios[0], seed) if isinstance(fleet, Devices) else fleet
    cases = [_Case(one, *case_of(one, given, link and link(one)), policies) for one in scenarios]
    closed = all(case.simulator is Simulator.BATCHES for case in cases)
    counted = SCHEDULES if usage or powers is not None else ("idfl",) if usage is None else ()
    size = sum(max(most_uplinks(case.scenario, None, case.fleet), count) for case in cases)
    if closed and usage is None and size > QUICKLY_COUNTED:
        counted = ()
    for case in cases:
        case.refuse_if_too_large(simulated=bool(counted) or not closed)
    table = PlanTable(_plan(case, counted, powers, closed=closed) for case in cases)
    if not any(row.fits for row in table):
        raise _no_round(scenarios, deadline, closed=closed)
    return table


def _no_round(scenarios: Iterable[Scenario], deadline: int, *, closed: bool) -> NoRoundError:
    """Return the error of plans without a round: how long the deadline must be, if that is known."""
    allowed = "long enough for a first round to end"
    if closed:
        shortest = min(map(theory.sync_round_slots, scenarios))
        allowed = f"at least {shortest}, the slots of the shortest first round"
    return NoRoundError("deadline", deadline, allowed)


def policies_of(selection: Any, participation: Participation, seed: int) -> dict[str, Policy]:
    """Return the policies that are compared."""
    return {
        "sync": Synchronous(selection=selection, participation=participation).ready(seed),
        "async": Asynchronous(selection=selection).ready(seed),
        "idfl": IntentionalDelay(selection=selection).ready(seed),
    }


class _Case(NamedTuple):
    """One group size, and the policies that are compared."""

    scenario: Scenario
    fleet: Fleet
    link: Link
    policies: Mapping[str, Policy]

    @property
    def simulator(self) -> Simulator:
        """A queue of batches if that is the simulator of all policies: closed forms hold then."""
        values = self.fleet, self.link
        found = {simulator_of(self.scenario, policy, *values) for policy in self.policies.values()}
        return found.pop() if len(found) == 1 else Simulator.EVENTS

    def refuse_if_too_large(self, *, simulated: bool) -> None:
        """Raise an InputError if there is too much to simulate, or to search for the free delay."""
        if simulated:
            refuse_too_many_uplinks(self.scenario, None, self.fleet, self.simulator)
        elif not self.scenario.divides:  # no closed form
            refuse_too_many_groups(self.scenario)


def divisors(number: int) -> list[int]:
    """Return all divisors of a number, ascending."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def _plan(case: _Case, counted: Sequence[str], powers: Powers | None, *, closed: bool) -> Plan | FleetPlan:
    """Use closed forms for equal devices if S divides N, and the exact schedule otherwise."""
    scenario, fleet, link, policies = case
    totals, costs = {}, dict[str, Costs | None]()
    for name in counted if closed else SCHEDULES:
        timeline = timeline_of(scenario, policies[name], fleet, link)
        totals[name] = timeline.totals()
        if name in counted:
            costs[name] = Costs.of(timeline, powers) if timeline.rounds else None
    if not closed:
        kind = "devices" if fleet.is_equal_to(scenario) else "unequal devices"
        kind = kind if isinstance(link, FleetLink) else "devices over radio"
        return FleetPlan(scenario, totals, costs, kind)
    if scenario.divides:
        rounds, delay = theory.rounds_within(scenario, scenario.deadline or 0), theory.free_delay(scenario)
        return Plan(scenario, theory.round_slots(scenario), rounds, delay, costs)
    if scenario.sub_channels > 1:  # no closed form: the average is that of the rounds within the deadline
        rounds, delay = completed_rounds(scenario), automatic_delay(scenario)
        # The first training is start-up, as in tau_asyn of the closed forms.
        last = max(round_ends(scenario), default=0)
        return Plan(scenario, Fraction(last - scenario.compute_slots, max(1, rounds)), rounds, delay, costs)
    rounds, delay = completed_rounds(scenario), automatic_delay(scenario, free=theory.free_delay(scenario))
    return Plan(scenario, theory.round_slots(scenario), rounds, delay, costs)


def _usage_as_dict(costs: CostsBySchedule) -> dict[str, Any]:
    figures = {name: None if found is None else found.as_dict() for name, found in costs.items()}
    return {"usage": figures} if figures else {}
