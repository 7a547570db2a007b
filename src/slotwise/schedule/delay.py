"""The delay to choose: the largest intentional delay that costs nothing, found on the exact schedule."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace

from slotwise.scenario import Scenario
from slotwise.schedule.uniform import each_round_end


def automatic_delay(scenario: Scenario, free: int = 0) -> int:
    """The largest delay that costs no slot; where S does not divide N, no *round* within the deadline.

    A larger delay never ends a round earlier (each device then waits for a later model), so the delays that
    cost nothing come first and the last of them is found by bisection. Where S divides N the answer is
    Proposition 1's, which `slotwise.theory.free_delay` gives in closed form; here it is searched for.
    ``free`` is a delay already known to cost no slot: the search starts there.
    """
    free = _largest(free, scenario.largest_delay, lambda delay: _costs_a_slot(scenario, delay))
    if scenario.divides or scenario.deadline is None:
        return free
    rounds = completed_rounds(scenario)
    return _largest(free, scenario.largest_delay, lambda delay: _costs_a_round(scenario, delay, rounds))


def completed_rounds(scenario: Scenario) -> int:
    """Asynchronous rounds that end by the deadline.

    If the channel never waits after the first training, they are counted by division. Whether it ever waits
    shows in the first 2G rounds: by then every device has sent a second time.
    """
    first, each, deadline = scenario.compute_slots, scenario.communication_slots, scenario.deadline or 0
    beginning = enumerate(_beginning(scenario), start=1)
    if all(end == first + k * each for k, end in beginning):
        return max(0, (deadline - first) // each)
    return sum(1 for _ in each_round_end(scenario))


def _largest(free: int, largest: int, costs: Callable[[int], bool]) -> int:
    """The largest delay from ``free`` (known to cost nothing) to ``largest`` that costs nothing."""
    return free + bisect_left(range(free + 1, largest + 1), True, key=costs)


def _costs_a_slot(scenario: Scenario, delay: int) -> bool:
    """Whether a round ends later than without delay; if any does, one of the first 2G does."""
    both = zip(_beginning(scenario, delay), _beginning(scenario), strict=True)
    return any(delayed != plain for delayed, plain in both)


def _beginning(scenario: Scenario, delay: int = 0) -> Iterator[int]:
    return each_round_end(replace(scenario, deadline=None), delay, 2 * scenario.groups)


def _costs_a_round(scenario: Scenario, delay: int, rounds: int) -> bool:
    """Whether fewer than ``rounds`` rounds end by the deadline.

    Decided as soon as the rounds that are left, back to back, would not fit any more: a delay that costs
    slots costs some in every cycle, so that is soon even if the deadline is far.
    """
    deadline, each = scenario.deadline or 0, scenario.communication_slots
    ends = enumerate(each_round_end(replace(scenario, deadline=None), delay, rounds), start=1)
    return any(end + (rounds - k) * each > deadline for k, end in ends)
