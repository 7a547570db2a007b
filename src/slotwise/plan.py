"""plan(...): what every group size costs, how stale updates get, and which intentional delay is free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

from slotwise import theory
from slotwise.scenario import Scenario, whole
from slotwise.schedule import automatic_delay, completed_rounds


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


def plan(
    *,
    devices: int,
    compute_slots: int,
    link_slots: int = 1,
    deadline: int,
    group_sizes: Iterable[int] | None = None,
) -> list[Plan]:
    """One Plan per group size; all divisors of ``devices`` unless told otherwise.

    Raises:
        InputError: a parameter is out of range.
    """
    count = whole("devices", devices)
    sizes = divisors(count) if group_sizes is None else list(group_sizes)
    return [
        _plan(
            Scenario(
                devices=devices,
                group_size=size,
                compute_slots=compute_slots,
                link_slots=link_slots,
                deadline=deadline,
            )
        )
        for size in sizes
    ]


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
