"""simulate(scenario, policy, ...) -> Timeline: the entry point to the schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, cast

from slotwise.base.errors import ConflictError, InputError, refuse_unknown_name
from slotwise.base.user_code import check_type, user_errors
from slotwise.fleet import Fleet, Retransmission, Windows
from slotwise.options import allowed_names, choose
from slotwise.options.checks import LARGEST_SEED, whole
from slotwise.scenario import Scenario
from slotwise.schedule.batches import batches_timeline
from slotwise.schedule.checked_link import checked_link
from slotwise.schedule.decisions import DecisionKind
from slotwise.schedule.events import event_timeline, planned_delivery
from slotwise.schedule.fading_simulator import fading_timeline
from slotwise.schedule.just_in_time import just_in_time_timeline
from slotwise.schedule.learned import GROUP_RULE
from slotwise.schedule.link import BlockLink, FleetLink, Link, has_groups
from slotwise.schedule.one_at_a_time import one_at_a_time
from slotwise.schedule.policies import PARTICIPATION, POLICY, IntentionalDelay, Participation, ready_policy
from slotwise.schedule.policy import Batched, Delay, Policy, bound_delivery
from slotwise.schedule.presence_simulator import presence_timeline
from slotwise.schedule.scheduler import Scheduler
from slotwise.schedule.selections import SELECTION, best_channel
from slotwise.schedule.simulators import Simulator, refuse_too_many_blocks, simulator_of
from slotwise.schedule.timeline import Timeline


def simulate(
    scenario: Scenario,
    policy: Policy | str = "idfl",
    *,
    rounds: int | None = None,
    fleet: Fleet | None = None,
    link: Link | None = None,
    delay: Delay = "auto",
    participation: Participation = "round-robin",
    selection: str = "first-ready",
    seed: int = 0,
    event_by_event: bool = False,
) -> Timeline:
    """Play the schedule in virtual slots.

    Args:
        scenario: devices, channel and (optionally) the deadline.
        policy: a Policy, or a short name: "sync", "async" (Algorithm 1), "idfl" (Algorithm 2) or the name of
            your own function, "module:function", which is called with the seed and returns a Policy.
        rounds: stop after so many rounds, or at the deadline, whichever comes first.
        fleet: the devices, if they are not all equal and without faults.
        link: the slots and losses of uplinks and broadcasts, instead of those of scenario and fleet.
        delay: with a short name, an option of the policy, as participation and selection are. For an
            unequal fleet "auto" is just in time for each device, or one fixed delay where that is fresher.
        participation: who takes part in a round of "sync" with S < N.
        selection: who sends next.
        seed: with a short name, the seed of random participation and selection.
        event_by_event: drive the Scheduler even if a faster simulator applies. The result is the same.

    Raises:
        InputError: a parameter is out of range, has no effect, or no round fits.
    """
    chosen = chosen_policy(policy, delay=delay, participation=participation, selection=selection, seed=seed)
    devices, channel = case_of(scenario, fleet, link)
    timeline = timeline_of(scenario, chosen, devices, channel, rounds=rounds, event_by_event=event_by_event)
    if not timeline.rounds:
        refuse_without_round(scenario, chosen, devices, channel)
    return timeline


def case_of(scenario: Scenario, fleet: Fleet | None = None, link: Link | None = None) -> tuple[Fleet, Link]:
    """Return devices and link of a call that may omit them: the scenario's equal devices and fixed slots.

    Raises:
        InputError: one of them is something else, or the fleet has another number of devices.
        UserError: the link lacks what a link has.
    """
    check_type("scenario", scenario, Scenario)
    devices = Fleet.equal(scenario) if fleet is None else fleet
    check_type("fleet", devices, Fleet)
    refuse_windows_on_two_bands(scenario, devices)
    if has_groups(link):
        _refuse_groups(scenario, devices)
    fixed = link is None or (isinstance(link, FleetLink) and link.is_of(scenario, devices))
    devices = devices.of_scenario(scenario, lossy_link=not fixed)
    return devices, FleetLink.of(scenario, devices) if fixed else checked_link(link, scenario.devices)


def timeline_of(
    scenario: Scenario,
    policy: Policy,
    fleet: Fleet,
    link: Link,
    *,
    rounds: int | None = None,
    event_by_event: bool = False,
) -> Timeline:
    """Return the timeline of values (`case_of`); it is empty if no round ends by the deadline.

    Raises:
        UserError: the policy, the selection or the link is the user's own, and fails.
    """
    scenario.check_horizon(rounds)
    refuse_agents(policy)
    refuse_unseen_channel(policy, link)
    refuse_too_many_blocks(scenario, rounds, link)
    simulator = Simulator.EVENTS if event_by_event else simulator_of(scenario, policy, fleet, link)
    with user_errors(f"schedule {policy.name}", anywhere=False):
        return _simulated(simulator, scenario, policy, fleet, link, rounds)


def _simulated(
    simulator: Simulator, scenario: Scenario, policy: Policy, fleet: Fleet, link: Link, rounds: int | None
) -> Timeline:
    """Return the timeline that a simulator makes."""
    if simulator is Simulator.BATCHES:
        delivery = bound_delivery(policy, scenario, fleet, rounds)
        if hasattr(delivery, "batches"):  # otherwise it is that of a user's subclass
            return batches_timeline(scenario, policy.name, cast("Batched", delivery), fleet, rounds)
    if simulator is Simulator.JUST_IN_TIME:
        return just_in_time_timeline(scenario, cast("IntentionalDelay", policy), fleet, rounds)
    if simulator is Simulator.ONE_AT_A_TIME:
        return one_at_a_time(scenario, policy, fleet, rounds)
    if simulator is Simulator.PRESENCE:
        return presence_timeline(scenario, policy, fleet, rounds)
    timeline = None
    if simulator is Simulator.FADING:
        timeline = fading_timeline(scenario, policy, fleet, rounds, cast("BlockLink", link))
    return event_timeline(scenario, policy, fleet, rounds, link) if timeline is None else timeline


class NoRoundError(InputError):
    """No round of a schedule ends: what keeps the first one from it."""


def refuse_without_round(scenario: Scenario, policy: Policy, fleet: Fleet, link: Link) -> NoReturn:
    """Raise a NoRoundError that says what keeps the first round from ending."""
    if not isinstance(link, FleetLink):
        raise NoRoundError("deadline", scenario.deadline, "longer: no round ends by then over this link")
    if fleet.is_equal_to(scenario):  # duplex does not matter: the first uplinks wait for no broadcast
        needed = scenario.compute_slots + scenario.communication_slots  # the first group size decides
        raise NoRoundError("deadline", scenario.deadline, f"at least {needed}, the slots of the first round")
    allowed = None if scenario.deadline is None else _allowed_deadline(scenario, policy, fleet)
    if allowed is not None:
        raise NoRoundError("deadline", scenario.deadline, allowed)
    if fleet.batteries is not None:
        allowed = "used with more charge or harvest: devices can never pay for a round"
        raise NoRoundError("battery_joules", fleet.batteries.capacity[0], allowed)
    if isinstance(fleet.windows, Windows):
        number = f"{len(fleet.windows.windows)} in all"
        raise NoRoundError("windows", number, "such that a round can end in them")
    raise NoRoundError("absences", f"{len(fleet.absences)} in all", "such that a device is present")


def _allowed_deadline(scenario: Scenario, policy: Policy, fleet: Fleet) -> str | None:
    """Return the deadlines in which the first round of a fleet fits; None if it never ends."""
    # For a longer deadline more absences may be drawn.
    least = "at least about" if fleet.absences else "at least"
    if fleet.largest_loss > 0.9:  # the losses may take long to simulate
        fleet, least = replace(fleet, uplink_loss=0.0, device_uplink_loss=()), "more than"
    first = event_timeline(replace(scenario, deadline=None), policy, fleet, 1, FleetLink.of(scenario, fleet))
    if not first.rounds:
        return None
    without = " without losses" if least == "more than" else ""
    return f"{least} {first.last_slot}, the slots of the first round{without}"


def scheduler_for(
    scenario: Scenario,
    policy: Policy | str,
    *,
    fleet: Fleet | None = None,
    link: Link | None = None,
    retransmission: Retransmission = "next-turn",
    absent: Iterable[int] = (),
    **options: Any,
) -> Scheduler:
    """Return the Scheduler that `simulate` drives, for a driver on a real network.

    Parameters and options are those of `simulate`; losses are real, so ``retransmission`` is not the fleet's.
    ``absent`` are the devices that are not present at the start. Just-in-time delivery needs a deadline: the
    plan ends there. What the policy decides by what is learned is left to the driver: `Scheduler.undecided`.
    """
    chosen = chosen_policy(policy, **options)
    devices, channel = case_of(scenario, fleet, link)
    if devices.windows is not None:
        raise InputError("windows", "given", "omitted: on a network, a device is in reach or absent")
    refuse_unseen_channel(chosen, channel)
    asks, chosen = tuple(chosen.agents), chosen.without_agents()
    return Scheduler(
        scenario.group_size,
        planned_delivery(chosen, scenario, devices, channel, None),
        selection=chosen.selection,
        retransmission=retransmission,
        absent=absent,
        changes=scenario.group_size_changes,
        sub_channels=scenario.sub_channels,
        full_duplex=scenario.has_full_duplex,
        link=channel,
        asks=asks,
    )


def refuse_windows_on_two_bands(scenario: Scenario, fleet: Fleet) -> None:
    """Raise an InputError if devices have windows and broadcasts a band of their own."""
    if scenario.has_full_duplex and fleet.windows is not None:
        raise InputError("duplex", scenario.duplex, "tdd with windows or owned slots of devices")


def _refuse_groups(scenario: Scenario, fleet: Fleet) -> None:
    """Raise an InputError for what is not simulated over a link whose devices send in groups."""
    if scenario.sub_channels > 1:
        allowed = "1 over a link whose devices send in groups"
        raise InputError("sub_channels", scenario.sub_channels, allowed)
    if fleet.windows is not None:
        raise InputError("windows", "given", "omitted over a link whose devices send in groups")


LEARNS_NOTHING = "it decides by what is learned, and nothing is learned here"
NAMES: Mapping[DecisionKind, str] = {
    "sender": "selection",
    "participants": "participation",
    "group_size": "group_rule",
}
_CHOICES = {"selection": SELECTION, "participation": PARTICIPATION, "group_rule": GROUP_RULE}


def name_of_agent(policy: Policy, kind: DecisionKind) -> tuple[str, str | None]:
    """Return the option that chooses what decides by what is learned, and the name of that."""
    option = NAMES[kind]
    chosen = getattr(policy, option)
    with_options = isinstance(chosen, partial)
    return option, _CHOICES[option].name_of(chosen.func if with_options else chosen)


def refuse_agents(policy: Policy) -> None:
    """Raise an InputError if a policy decides by what is learned: nothing is learned here."""
    for kind in policy.agents:
        raise InputError(*name_of_agent(policy, kind), f"used with train, sweep or serve: {LEARNS_NOTHING}")


def refuse_unseen_channel(policy: Policy, link: Link) -> None:
    """Raise an InputError if devices are chosen by their channel and the link has none."""
    participation = getattr(policy, "participation", None)
    for name, chosen in (("selection", policy.selection), ("participation", participation)):
        if isinstance(link, FleetLink) and chosen is best_channel:
            raise InputError(
                name, "best-channel", "used with a radio link: without one all channels are equal"
            )


def chosen_policy(policy: Policy | str, *, seed: int = 0, **options: Any) -> Policy:
    """Return the policy of a call: an object as it is, or that of a short name and its options."""
    seed = whole("seed", seed, 0, LARGEST_SEED)
    usual = {"delay": "auto", "participation": "round-robin", "selection": "first-ready", "seed": 0}
    for name in options:
        refuse_unknown_name("option", name, usual)
    given = {name: value for name, value in {**options, "seed": seed}.items() if value != usual[name]}
    if isinstance(policy, str):
        given.pop("seed", None)
        return ready_policy(choose(POLICY, {"schedule": policy, **given}), seed)
    for name in given:
        raise ConflictError(name, "policy", "a policy object has its own options")
    if not isinstance(policy, Policy):
        found = policy.__name__ if isinstance(policy, type) else policy
        raise InputError("policy", found, f"a Policy object, {allowed_names(POLICY)}")
    return policy.ready()
