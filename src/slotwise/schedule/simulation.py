"""simulate(scenario, policy, ...) -> Timeline: the entry point to the schedule; the options of a policy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NoReturn

from slotwise.errors import ConflictError, InputError, UserError
from slotwise.fleet import Fleet, Retransmission
from slotwise.fleet.fleet_config import refuse_too_many_devices
from slotwise.options import UserFunction, allowed_names, choose, loaded
from slotwise.scenario import LARGEST, LARGEST_SEED, Scenario, whole
from slotwise.schedule.checked_link import checked_link
from slotwise.schedule.events import event_timeline, planned_delivery
from slotwise.schedule.fading_simulator import fading_timeline
from slotwise.schedule.link import BlockLink, Link
from slotwise.schedule.policies import POLICY
from slotwise.schedule.policies.intentional_delay import Delay
from slotwise.schedule.policies.synchronous import Participation
from slotwise.schedule.policy import Policy
from slotwise.schedule.scheduler import Scheduler
from slotwise.schedule.selections import best_channel
from slotwise.schedule.timeline import Timeline
from slotwise.user_code import describe_error

# Limits of a timeline: what can be simulated within a minute or so, and kept in a few gigabytes.
MOST_UPLINKS = 20_000_000  # of equal devices, which need no events
MOST_BLOCKS = 30_000_000  # of fading that uplinks of fixed rate are followed through
MOST_EVENTS = 3_000_000  # uplinks of unequal devices and of policies without a fast path, lost ones included


def ready_policy(policy: Policy | UserFunction, seed: int = 0) -> Policy:
    """Return a chosen policy with the seed of the run; a user's function is called with the seed.

    Raises:
        UserError: the user's function fails or does not return a Policy.
    """
    if isinstance(policy, Policy):
        return policy.ready(seed)
    make_policy, name = loaded(policy), POLICY.name_of(policy)
    try:
        made = make_policy(seed)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"schedule {name}: {describe_error(error)}") from error
    if not isinstance(made, Policy):
        raise UserError(f"schedule {name}: returned {type(made).__name__}, not a Policy")
    return made.ready()


def simulate(
    scenario: Scenario,
    policy: Policy | str = "async",
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
        event_by_event: drive the Scheduler even if the policy has a fast path. The result is the same.

    Raises:
        InputError: a parameter is out of range, has no effect, or no round fits.
    """
    chosen = _policy(policy, delay=delay, participation=participation, selection=selection, seed=seed)
    scenario.check_horizon(rounds)
    if fleet is not None:
        fleet.check_size(scenario)
        # A fleet of the scenario's own devices is none: results are equal, and the fast path applies.
        fleet = None if fleet.is_equal_to(scenario, lossy_link=link is not None) else fleet
    refuse_incomplete_link(link)
    refuse_unseen_channel(chosen, link)
    link = None if link is None else checked_link(link, scenario.devices)
    refuse_too_many_blocks(scenario, rounds, link)
    timeline = None
    # The fast paths of policies assume fixed slots; links that fade have one of their own.
    if not event_by_event and link is None:
        timeline = chosen.fast_path(scenario, fleet, rounds)
    elif not event_by_event:
        timeline = fading_timeline(scenario, chosen, fleet, rounds, link)
    if timeline is None:
        timeline = event_timeline(scenario, chosen, fleet, rounds, link)
    if not timeline.rounds:
        _refuse_without_round(scenario, chosen, fleet, link)
    return timeline


def _refuse_without_round(
    scenario: Scenario, policy: Policy, fleet: Fleet | None, link: Link | None
) -> NoReturn:
    """Raise an InputError that says what keeps the first round from ending."""
    if link is not None:
        raise InputError("deadline", scenario.deadline, "longer: no round ends by then over this link")
    if fleet is None:
        needed = scenario.compute_slots + scenario.communication_slots  # the first group size decides
        raise InputError("deadline", scenario.deadline, f"at least {needed}, the slots of the first round")
    allowed = None if scenario.deadline is None else _allowed_deadline(scenario, policy, fleet)
    if allowed is not None:
        raise InputError("deadline", scenario.deadline, allowed)
    if fleet.batteries is not None:
        allowed = "used with more charge or harvest: devices can never pay for a round"
        raise InputError("battery_joules", fleet.batteries.capacity[0], allowed)
    raise InputError("absences", f"{len(fleet.absences)} in all", "such that a device is present")


def _allowed_deadline(scenario: Scenario, policy: Policy, fleet: Fleet) -> str | None:
    """Return the deadlines in which the first round of a fleet fits; None if it never ends."""
    # For a longer deadline more absences may be drawn.
    least = "at least about" if fleet.absences else "at least"
    if fleet.largest_loss > 0.9:  # the losses may take long to simulate
        fleet, least = replace(fleet, uplink_loss=0.0, device_uplink_loss=()), "more than"
    first = event_timeline(replace(scenario, deadline=None), policy, fleet, 1)
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
    plan ends there.
    """
    chosen = _policy(policy, **options)
    refuse_unseen_channel(chosen, link)
    link = None if link is None else checked_link(link, scenario.devices)
    devices = None if fleet is None or fleet.is_equal_to(scenario) else fleet
    return Scheduler(
        scenario.group_size,
        planned_delivery(chosen, scenario, devices, link, None),
        selection=chosen.selection,
        retransmission=retransmission,
        absent=absent,
        changes=scenario.group_size_changes,
        sub_channels=scenario.sub_channels,
        link=link,
    )


def most_uplinks(scenario: Scenario, rounds: int | None = None, fleet: Fleet | None = None) -> int:
    """Return an upper bound of a timeline's uplinks; of given rounds with losses, the expected number."""
    by_rounds = LARGEST if rounds is None else max(scenario.group_sizes) * rounds
    if fleet is not None and fleet.retransmission != "erasure":
        # An update takes 1/(1−p) attempts on average; an erased one is not sent again.
        by_rounds = int(min(LARGEST, by_rounds / (1 - fleet.largest_loss)))
    if scenario.deadline is None:
        return by_rounds
    if fleet is not None:  # rounds may have fewer updates than the group size
        return min(by_rounds, scenario.sub_channels * (scenario.deadline // min(fleet.link_slots)))
    if not scenario.group_size_changes:
        by_deadline = scenario.group_size * (scenario.deadline // scenario.communication_slots)
        return min(by_rounds, by_deadline)
    # No round fits more uplinks into a slot than those of the best size, which is not always the largest: on
    # four sub-channels a group of 4 takes 2 slots and one of 5 takes 3.
    alone = [scenario.with_group_size(size) for size in set(scenario.group_sizes)]
    return min(by_rounds, max(scenario.deadline * s.group_size // s.communication_slots for s in alone))


def refuse_too_many_uplinks(
    scenario: Scenario, rounds: int | None = None, fleet: Fleet | None = None, *, events: bool = False
) -> None:
    """Raise an InputError if a timeline would take too long to simulate, or too much memory.

    ``events`` tells that equal devices, too, are simulated event by event.
    """
    refuse_too_many_devices(scenario)
    found, most = most_uplinks(scenario, rounds, fleet), MOST_EVENTS if fleet or events else MOST_UPLINKS
    loss = 0.0 if fleet is None else fleet.largest_loss
    if fleet is not None and scenario.deadline is not None and found * (1 - loss) < 1:
        allowed = "less: in the slots there are, no update is expected to arrive"
        raise InputError("uplink_loss", loss, allowed)
    if found <= most:
        return
    if fleet is not None and found * (1 - loss) <= most and loss > 0.5:
        allowed = f"less: a timeline has at most {most:,} uplinks, lost ones included"
        raise InputError("uplink_loss", loss, allowed)
    name, value = ("deadline", scenario.deadline) if rounds is None else ("rounds", rounds)
    raise InputError(name, value, f"smaller: this may be {found:,} uplinks, and {most:,} are the most")


def refuse_too_many_blocks(scenario: Scenario, rounds: int | None, link: Link | None) -> None:
    """Raise an InputError if uplinks of fixed rate would be followed through too many blocks of fading."""
    if not isinstance(link, BlockLink) or not link.fixed_slots:
        return
    each = -(-link.fixed_slots // link.coherence_slots)
    blocks = LARGEST**2 if rounds is None else max(scenario.group_sizes) * rounds * each
    if scenario.deadline is not None:  # none is followed beyond it
        blocks = min(blocks, scenario.sub_channels * -(-scenario.deadline // link.coherence_slots))
    if blocks > MOST_BLOCKS:
        name, value = ("deadline", scenario.deadline) if rounds is None else ("rounds", rounds)
        allowed = f"smaller: uplinks may take {blocks:,} blocks of fading, and {MOST_BLOCKS:,} are the most"
        raise InputError(name, value, allowed)


def refuse_incomplete_link(link: Link | None) -> None:
    """Raise a UserError if an object given as a link lacks what a link has."""
    wanted = ("uplink", "broadcast", "snr_db", "planned_slots", "planned_broadcast_slots")
    for name in wanted if link is not None else ():
        # The class first: to ask the object would compute its planned slots, which takes long.
        if not hasattr(type(link), name) and not hasattr(link, name):
            raise UserError(f"link: a {type(link).__name__} has no {name}")


def refuse_unseen_channel(policy: Policy, link: Link | None) -> None:
    """Raise an InputError if devices are chosen by their channel and the link has none."""
    participation = getattr(policy, "participation", None)
    for name, chosen in (("selection", policy.selection), ("participation", participation)):
        if link is None and chosen is best_channel:
            raise InputError(
                name, "best-channel", "used with a radio link: without one all channels are equal"
            )


def _policy(policy: Policy | str, *, seed: int = 0, **options: Any) -> Policy:
    seed = whole("seed", seed, 0, LARGEST_SEED)
    usual = {"delay": "auto", "participation": "round-robin", "selection": "first-ready", "seed": 0}
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
