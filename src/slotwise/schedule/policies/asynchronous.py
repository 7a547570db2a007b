"""Asynchronous FL (Algorithm 1), and the delivery that it shares with intentional delay (Algorithm 2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

from slotwise.fleet import Fleet
from slotwise.scenario import Scenario
from slotwise.schedule.equal_devices import fixed_delay_timeline
from slotwise.schedule.one_at_a_time import one_at_a_time
from slotwise.schedule.policy import Booking, Delivery, Policy
from slotwise.schedule.selections.first_ready_selection import first_ready
from slotwise.schedule.timeline import Timeline


@dataclass(frozen=True, kw_only=True)
class Asynchronous(Policy):
    """Asynchronous FL: the senders of a round receive the next model."""

    name: ClassVar[str] = "async"

    def delivery(self, scenario: Scenario, fleet: Fleet | None, rounds: int | None) -> FixedDelay:  # noqa: ARG002
        """Return the delivery of Algorithm 1."""
        return FixedDelay(scenario.devices, scenario.group_size)

    def fast_path(self, scenario: Scenario, fleet: Fleet | None, rounds: int | None) -> Timeline | None:
        """Return the timeline of devices that send in the order in which they get ready."""
        if fleet is not None:
            return one_at_a_time(scenario, self, fleet, rounds)
        if self.selection is not first_ready or scenario.group_size_changes:
            return None
        return fixed_delay_timeline(scenario, self.name, 0, rounds)


@dataclass(frozen=True)
class FixedDelay(Delivery):
    """Algorithms 1 and 2: the senders of round k receive w_{k+delay+1}; delay 0 is asynchronous FL.

    Devices 1..(G−delay)S start from w_0 and the next groups of S receive w_1, …, w_delay. If S does not
    divide N, the last group is the short one.
    """

    devices: int
    group_size: int
    delay: int = 0

    def initial(self, absent: Set[int]) -> Iterable[Booking]:  # noqa: ARG002
        """Return Algorithm 2's initial sets: S_{−alpha−1}, then one group for each of w_1, …, w_alpha."""
        groups = -(-self.devices // self.group_size)
        last = min((groups - self.delay) * self.group_size, self.devices)
        yield 0, range(1, last + 1)
        for version in range(1, self.delay + 1):
            first, last = last + 1, min(last + self.group_size, self.devices)
            yield version, range(first, last + 1)

    def after(self, round_number: int, senders: Sequence[int], absent: Set[int]) -> Iterable[Booking]:  # noqa: ARG002
        """Follow line 13 of Algorithm 2: the server sends w_{k+1} to S_{k−alpha}."""
        # This holds for any group size: only the initial sets depend on it, so `resized` changes nothing.
        yield round_number + self.delay + 1, senders
