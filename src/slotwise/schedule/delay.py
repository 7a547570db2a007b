"""The delay to choose: the largest intentional delay that costs nothing, found on the exact schedule."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from slotwise.scenario import Scenario
from slotwise.schedule.uniform import round_ends


def automatic_delay(scenario: Scenario) -> int:
    """The largest delay that costs no slot; where S does not divide N, no *round* within the deadline.

    A larger delay never ends a round earlier (each device then waits for a later model), so the delays that
    cost nothing come first and the last of them is found by bisection. Where S divides N the answer is
    Proposition 1's, which `slotwise.theory.free_delay` gives in closed form; here it is searched for.
    """
    costs = _costs_a_slot if scenario.divides or scenario.deadline is None else _costs_a_round
    delays = range(1, scenario.largest_delay + 1)
    return bisect_left(delays, True, key=lambda delay: costs(scenario, delay))


def _costs_a_slot(scenario: Scenario, delay: int) -> bool:
    """Whether a round ends later than without delay; if any does, one of the first 2G does.

    By then every device has sent a delayed update, and from there on rounds repeat.
    """
    endless = replace(scenario, deadline=None)
    horizon = 2 * scenario.groups
    return round_ends(endless, delay, horizon) != round_ends(endless, 0, horizon)


def _costs_a_round(scenario: Scenario, delay: int) -> bool:
    """Whether fewer rounds than without delay end by the deadline."""
    return len(round_ends(scenario, delay)) < len(round_ends(scenario))
