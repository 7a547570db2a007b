"""simulate(scenario, policy, ...) -> Timeline: the entry point to the schedule; the options of a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from slotwise.errors import ConflictError, InputError, UserError
from slotwise.fleet import Fleet
from slotwise.scenario import LARGEST, Scenario, check_fields
from slotwise.schedule.events import event_timeline
from slotwise.schedule.policies import POLICIES
from slotwise.schedule.policies.intentional_delay import Delay
from slotwise.schedule.policies.synchronous import Participation
from slotwise.schedule.policy import (
    Policy,
    RandomSelection,
    Selection,
    bound_delivery,
    first_ready,
    round_robin,
)
from slotwise.schedule.scheduler import Scheduler
from slotwise.schedule.timeline import Timeline
from slotwise.user_code import describe_error, is_function_name, load_function

MOST_UPLINKS = 20_000_000
SELECTIONS: Mapping[str, Selection] = {
    "first-ready": first_ready,
    "round-robin": round_robin,
    "random": RandomSelection(),
}


@dataclass(frozen=True, kw_only=True)
class PolicyConfig:
    """The schedule and its options.

    Attributes:
        schedule: The schedule: sync, async, idfl, or your own policy as module:function.
        delay: Intentional delay of idfl in rounds; auto is the largest that costs nothing.
        participation: Devices that take part in a round of sync with S < N: round-robin or random.
        selection: Who sends next: first-ready, round-robin, random, or your own module:function.
    """

    schedule: str = "idfl"
    delay: Delay = "auto"
    participation: Participation = "round-robin"
    selection: str = "first-ready"

    def __post_init__(self) -> None:
        check_fields(self)
        for name, known in (("schedule", POLICIES), ("selection", SELECTIONS)):
            value = getattr(self, name)
            if value not in known and not is_function_name(value):
                raise InputError(name, value, f"{', '.join(known)} or module:function")

    @property
    def depends_on_seed(self) -> bool:
        """True if another seed gives another schedule of the same devices."""
        return self.policy().depends_on_seed

    def policy(self, seed: int = 0) -> Policy:
        """Return the policy; a user's function is called with the seed.

        Raises:
            InputError: an option has no effect on the chosen schedule.
            UserError: the user's function fails or does not return a Policy.
        """
        chosen = POLICIES.get(self.schedule)
        names = {field.name for field in fields(chosen)} if chosen else set()
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            usual = (field.default, 0) if field.name == "delay" else (field.default,)
            if field.name not in names and value not in usual:
                allowed = " or ".join(map(str, usual))
                raise InputError(field.name, value, f"{allowed} for the schedule {self.schedule}")
        if chosen is None:
            make_policy = load_function("schedule", self.schedule, 1)
            try:
                policy = make_policy(seed)
            except UserError:
                raise
            except (Exception, SystemExit) as error:
                raise UserError(f"schedule {self.schedule}: {describe_error(error)}") from error
            if not isinstance(policy, Policy):
                raise UserError(f"schedule {self.schedule}: returned {type(policy).__name__}, not a Policy")
            return policy
        known: dict[str, Selection] = {**SELECTIONS, "random": RandomSelection(seed)}
        selection = known.get(self.selection) or load_function("selection", self.selection, 3)
        options = {"delay": self.delay, "participation": self.participation, "seed": seed}
        given: dict[str, Any] = {name: value for name, value in options.items() if name in names}
        return chosen(selection=selection, **given)


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
        delay: with a short name, an option of `PolicyConfig`, as participation and selection are. For an
            unequal fleet "auto" is just in time for each device.
        participation: who takes part in a round of "sync" with S < N.
        selection: who sends next.
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
    if timeline.rounds:
        return timeline
    if fleet is None:
        needed = scenario.compute_slots + scenario.communication_slots
        raise InputError("deadline", scenario.deadline, f"at least {needed}, the slots of the first round")
    if scenario.deadline is None:
        raise InputError("absences", f"{len(fleet.absences)} in all", "such that a device is present")
    raise InputError("deadline", scenario.deadline, "long enough for the first round of the fleet to end")


def scheduler_for(
    scenario: Scenario,
    policy: Policy | str,
    *,
    fleet: Fleet | None = None,
    absent: Iterable[int] = (),
    **options: Any,
) -> Scheduler:
    """Return the Scheduler that `simulate` drives, for a driver on a real network.

    Parameters and options are those of `simulate`; ``absent`` are the devices that are not present at the
    start. Just-in-time delivery needs a deadline: the plan ends there.
    """
    chosen = _policy(policy, **options)
    devices = None if fleet is None or fleet.is_equal_to(scenario) else fleet
    return Scheduler(
        scenario.group_size,
        bound_delivery(chosen, scenario, devices, None),
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
        allowed = f"shorter: more than {MOST_UPLINKS:,} uplinks are too many for a timeline"
        raise InputError(name, value, allowed)


def _policy(policy: Policy | str, *, seed: int = 0, **options: Any) -> Policy:
    if isinstance(policy, str):
        return PolicyConfig(schedule=policy, **options).policy(seed)
    for name, value in {**options, "seed": seed}.items():
        if value != getattr(PolicyConfig, name, 0):
            raise ConflictError(name, "policy", "a policy object has its own options")
    return policy
