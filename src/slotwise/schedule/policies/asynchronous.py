"""Asynchronous FL (Algorithm 1): the senders of a round receive the next model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slotwise.fleet import Fleet
from slotwise.scenario import Scenario
from slotwise.schedule.policies.intentional_delay import FixedDelay, fixed_delay_timeline
from slotwise.schedule.policy import Policy
from slotwise.schedule.selection import first_ready
from slotwise.schedule.timeline import Timeline


@dataclass(frozen=True, kw_only=True)
class Asynchronous(Policy):
    """Asynchronous FL: intentional delay of 0 rounds."""

    name: ClassVar[str] = "async"

    def delivery(self, scenario: Scenario, fleet: Fleet | None, rounds: int | None) -> FixedDelay:  # noqa: ARG002
        """Return the delivery of Algorithm 1."""
        return FixedDelay(scenario.devices, scenario.group_size)

    def fast_path(self, scenario: Scenario, fleet: Fleet | None, rounds: int | None) -> Timeline | None:
        """Return the timeline of equal devices that send in the order in which they get ready."""
        if fleet is not None or self.selection is not first_ready:
            return None
        return fixed_delay_timeline(scenario, self.name, 0, rounds)
