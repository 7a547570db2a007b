"""simulate(scenario, policy, ...) -> Timeline: the entry point to the schedule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slotwise.errors import ConflictError, InputError
from slotwise.fleet import Fleet
from slotwise.scenario import LARGEST, Scenario
from slotwise.schedule.events import event_timeline
from slotwise.schedule.policies.intentional_delay import Delay
from slotwise.schedule.policies.synchronous import Participation
from slotwise.schedule.policy import Policy
from slotwise.schedule.policy_config import PolicyConfig
from slotwise.schedule.scheduler import Scheduler
from slotwise.schedule.timeline import Timeline

MOST_UPLINKS = 20_000_000


def simulate(
    scenario: Scenario,
    policy: Policy | str = "async",
    *,
    rounds: int | None = None,
    fleet: Fleet | None = None,
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
        delay: with the short name "idfl", the intentional delay in rounds; "auto" is the largest that costs
            nothing, and just in time for each device of an unequal fleet.
        participation: with the short name "sync" and S < N, who takes part in a round: "round-robin" or
            "random".
        selection: with a short name, who sends next: "first-ready", "round-robin", "random" or the name of
            your own function, "module:function".
        seed: with a short name, the seed of random participation and selection.
        event_by_event: drive the Scheduler even if the policy has a fast path. The result is the same.

    Raises:
        InputError: a parameter is out of range, has no effect, or no round fits.
    """
    chosen = _policy(policy, delay=delay, participation=participation, selection=selection, seed=seed)
    scenario.check_horizon(rounds)
    if fleet is not None:
        fleet.check_size(scenario)
        fleet = None if fleet.is_equal_to(scenario) else fleet
    timeline = None if event_by_event else chosen.fast_path(scenario, fleet, rounds)
    if timeline is None:
        timeline = event_timeline(scenario, chosen, fleet, rounds)
    if not timeline.rounds:
        raise _no_round_fits(scenario, fleet)
    return timeline


def scheduler_for(
    scenario: Scenario,
    policy: Policy | str,
    *,
    fleet: Fleet | None = None,
    absent: Iterable[int] = (),
    **options: Any,
) -> Scheduler:
    """Return the Scheduler that `simulate` drives, for a driver on a real network.

    Args:
        scenario: devices and channel. Just-in-time delivery needs a deadline: the plan ends there.
        policy: as for `simulate`.
        fleet: the devices, if they are not all equal.
        absent: the devices that are not present at the start.
        options: delay, participation, selection and seed, as for `simulate`.
    """
    chosen = _policy(policy, **options)
    devices = None if fleet is None or fleet.is_equal_to(scenario) else fleet
    return Scheduler(
        scenario.group_size,
        chosen.delivery(scenario, devices, None),
        selection=chosen.selection,
        retransmission=Fleet.retransmission if fleet is None else fleet.retransmission,
        absent=absent,
    )


def most_uplinks(scenario: Scenario, rounds: int | None = None, fleet: Fleet | None = None) -> int:
    """Return an upper bound of a timeline's uplinks, not counting lost ones."""
    by_rounds = LARGEST if rounds is None else scenario.group_size * rounds
    if scenario.deadline is None:
        return by_rounds
    if fleet is not None:  # rounds may have fewer updates than the group size
        return min(by_rounds, scenario.deadline // min(fleet.link_slots))
    return min(by_rounds, scenario.group_size * (scenario.deadline // scenario.communication_slots))


def refuse_too_many_uplinks(
    scenario: Scenario, rounds: int | None = None, fleet: Fleet | None = None
) -> None:
    """Raise an InputError if a timeline could be too long to be kept in memory."""
    if most_uplinks(scenario, rounds, fleet) > MOST_UPLINKS:
        name, value = ("deadline", scenario.deadline) if rounds is None else ("rounds", rounds)
        raise InputError(
            name, value, f"shorter: more than {MOST_UPLINKS:,} uplinks are too many for a timeline"
        )


def _policy(policy: Policy | str, *, seed: int = 0, **options: Any) -> Policy:
    if isinstance(policy, str):
        return PolicyConfig(schedule=policy, **options).policy(seed)
    for name, value in {**options, "seed": seed}.items():
        if value != getattr(PolicyConfig, name, 0):
            raise ConflictError(name, "policy", "a policy object has its own options")
    return policy


def _no_round_fits(scenario: Scenario, fleet: Fleet | None) -> InputError:
    if fleet is None:
        needed = scenario.compute_slots + scenario.communication_slots
        return InputError("deadline", scenario.deadline, f"at least {needed}, the slots of the first round")
    if scenario.deadline is None:
        return InputError("absences", f"{len(fleet.absences)} in all", "such that a device is present")
    return InputError("deadline", scenario.deadline, "long enough for the first round of the fleet to end")
