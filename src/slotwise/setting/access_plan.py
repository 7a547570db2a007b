"""compare_access(...): what each access scheme makes of a setting, schedule by schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slotwise.base.errors import InputError
from slotwise.base.notebook import Displayable
from slotwise.options.checks import whole
from slotwise.radio import ACCESSES, LINK, RateAdaptive
from slotwise.scenario import Scenario
from slotwise.schedule import (
    Asynchronous,
    NoRoundError,
    Policy,
    Synchronous,
    Timeline,
    Totals,
    refuse_too_many_uplinks,
    simulator_of,
    timeline_of,
)
from slotwise.schedule.costs import Costs, Powers
from slotwise.setting.planning import policies_of
from slotwise.setting.setting import Setting
from slotwise.setting.slot_duration import powers_of_run


@dataclass(frozen=True)
class AccessPlan:
    """One access scheme with one schedule and one group size, within one deadline.

    Attributes:
        access: Short name of the scheme.
        schedule: sync, async, or idfl with the delay auto.
        scenario: Devices and channel.
        totals: Rounds, updates, losses and staleness.
        uplink_slots: Slots of an uplink that arrived, on average; 0 if none did.
        slot_seconds: Seconds of a slot.
        joules: Energy of all devices; None if their powers are not known.
    """

    access: str
    schedule: str
    scenario: Scenario
    totals: Totals
    uplink_slots: float
    slot_seconds: float
    joules: float | None = None

    @property
    def round_seconds(self) -> float | None:
        """Seconds of a round on average, from the first slot on; None without a round."""
        rounds = self.totals.rounds
        return self.totals.slots * self.slot_seconds / rounds if rounds else None

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by name; joules only if they are known."""
        figures: dict[str, Any] = {"group_size": self.scenario.group_size, "access": self.access}
        figures |= {"schedule": self.schedule, "round_seconds": self.round_seconds}
        figures |= {"uplink_slots": self.uplink_slots} | self.totals._asdict()
        return figures if self.joules is None else figures | {"joules": self.joules}


class AccessTable(list[AccessPlan], Displayable):
    """The plans of several access schemes: one row for each group size, scheme and schedule."""


def compare_access(
    setting: Setting,
    *,
    accesses: Mapping[str, Any] | None = None,
    group_sizes: Iterable[int] | None = None,
    powers: Powers | None = None,
) -> AccessTable:
    """Simulate a setting under several access schemes, with sync, async and idfl each.

    Args:
        setting: devices, channel and a rate-adaptive radio link with the bits of its messages. Its access
            takes the place of the default of its kind; selection and participation are those of its policy.
        accesses: schemes by the names that they get; by default all four.
        group_sizes: values of S; that of the setting by default.
        powers: watts of a device, for joules.

    Raises:
        InputError: the link is not rate-adaptive, a scheme does not go with the setting, or no round ends.
    """
    if not isinstance(setting.link, RateAdaptive):
        allowed = "rate-adaptive to compare access schemes"
        raise InputError("radio_link", LINK.name_of(setting.link) or "none", allowed)
    usual = {name: scheme() for name, scheme in ACCESSES.items()}
    usual |= {name: setting.access for name, scheme in ACCESSES.items() if type(setting.access) is scheme}
    schemes = usual if accesses is None else accesses
    if not schemes:
        raise InputError("accesses", "none", "at least one access scheme")
    sizes = [setting.channel.group_size] if group_sizes is None else list(group_sizes)
    if not sizes:
        raise InputError("group_sizes", "none", "at least one group size")
    known = powers and powers_of_run(powers, setting)
    table = AccessTable()
    for size in sizes:
        sized = setting.with_options(group_size=whole("group_size", size))
        for name, access in schemes.items():
            table += _rows(name, replace(sized, access=access), known)
    if not any(row.totals.rounds for row in table):
        raise NoRoundError("deadline", setting.deadline, "longer: no round ends by then over this link")
    return table


def _rows(name: str, setting: Setting, powers: Powers | None) -> list[AccessPlan]:
    """Return a row for each schedule."""
    fleet, scenario = setting.make_fleet(), setting.channel
    link = setting.make_link(fleet=fleet)
    assert isinstance(setting.link, RateAdaptive)
    rows = []
    for schedule, policy in _policies(setting).items():
        refuse_too_many_uplinks(scenario, None, fleet, simulator_of(scenario, policy, fleet, link))
        timeline = timeline_of(scenario, policy, fleet, link)
        joules = Costs.of(timeline, powers).joules if powers is not None and timeline.rounds else None
        seconds = setting.link.slot_ms / 1000
        slots, totals = mean_uplink_slots(timeline), timeline.totals()
        rows.append(AccessPlan(name, schedule, scenario, totals, slots, seconds, joules))
    return rows


def mean_uplink_slots(timeline: Timeline) -> float:
    """Return the slots of an uplink that arrived, on average; 0 if none did."""
    return float(np.mean(timeline.end - timeline.start)) if len(timeline) else 0.0


def _policies(setting: Setting) -> dict[str, Policy]:
    """Return the schedules, with the selection and the participation of a setting."""
    selection = getattr(setting.policy, "selection", Asynchronous.selection)
    participation = getattr(setting.policy, "participation", Synchronous.participation)
    return policies_of(selection, participation, setting.seed)
