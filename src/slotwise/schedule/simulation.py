"""simulate(scenario, ...) -> Timeline: the one entry point to the schedule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, get_args

from slotwise.errors import InputError
from slotwise.fleet import Fleet
from slotwise.scenario import Scenario, whole
from slotwise.schedule.delay import automatic_delay
from slotwise.schedule.delivery import Delayed, Participation, Synchronous
from slotwise.schedule.events import drive
from slotwise.schedule.just_in_time import Planned, just_in_time
from slotwise.schedule.scheduler import Scheduler
from slotwise.schedule.timeline import Schedule, Timeline, broadcast_columns, uplink_columns, uplink_table
from slotwise.schedule.uniform import uniform_timeline

Delay = int | Literal["auto"]


def simulate(
    scenario: Scenario,
    schedule: Schedule = "async",
    *,
    delay: Delay = "auto",
    rounds: int | None = None,
    fleet: Fleet | None = None,
    participation: Participation = "round-robin",
    seed: int = 0,
    event_by_event: bool = False,
) -> Timeline:
    """Play the schedule in virtual slots.

    Args:
        scenario: devices, channel and (optionally) the deadline.
        schedule: "sync", "async" (Algorithm 1) or "idfl" (Algorithm 2).
        delay: the intentional delay in rounds; "auto" is 0 for sync and async. For idfl it is the largest
            free one, and just in time for each device of an unequal fleet.
        rounds: stop after so many rounds, or at the deadline, whichever comes first.
        fleet: what the devices are like, if they are not all alike and without fault.
        participation: for sync with S < N, who takes part in a round: "round-robin" or "random".
        seed: of the random participation.
        event_by_event: drive the Scheduler instead of taking the short cut for equal devices. The result is
            the same.

    Raises:
        InputError: a parameter is out of range, or no round fits.
    """
    _check_horizon(scenario, rounds)
    if fleet is not None:
        fleet.check_size(scenario)
        fleet = None if fleet.is_equal_to(scenario) else fleet
    if fleet is not None and schedule == "idfl" and delay == "auto":
        timeline = _just_in_time_timeline(scenario, fleet, rounds)
    else:
        delivery = delivery_policy(scenario, schedule, delay, participation, seed)
        if fleet is None and not event_by_event:
            timeline = uniform_timeline(scenario, schedule, delivery, rounds)
        else:
            timeline = _event_timeline(scenario, schedule, delivery, fleet, rounds)
    if not timeline.rounds:
        raise _no_round_fits(scenario, fleet)
    return timeline


def delivery_policy(
    scenario: Scenario,
    schedule: Schedule,
    delay: Delay = "auto",
    participation: Participation = "round-robin",
    seed: int = 0,
) -> Delayed | Synchronous:
    """The delivery policy of a named schedule, its options checked."""
    if schedule not in get_args(Schedule):
        raise InputError("schedule", schedule, "sync, async or idfl")
    if participation not in get_args(Participation):
        raise InputError("participation", participation, "round-robin or random")
    if schedule != "idfl" and (isinstance(delay, bool | float) or delay not in ("auto", 0)):
        raise InputError("delay", delay, f"auto or 0 for the schedule {schedule}")
    if schedule == "sync":
        return Synchronous(scenario.devices, scenario.group_size, participation, seed)
    if schedule == "async":
        return Delayed(scenario.devices, scenario.group_size)
    return Delayed(scenario.devices, scenario.group_size, _chosen_delay(scenario, delay))


def _chosen_delay(scenario: Scenario, delay: Delay) -> int:
    return automatic_delay(scenario) if delay == "auto" else scenario.checked_delay(delay)


def _check_horizon(scenario: Scenario, rounds: int | None) -> None:
    if rounds is None and scenario.deadline is None:
        raise InputError("rounds", None, "given, unless the scenario has a deadline")
    if rounds is not None:
        whole("rounds", rounds)


def _no_round_fits(scenario: Scenario, fleet: Fleet | None) -> InputError:
    if fleet is None:
        needed = scenario.compute_slots + scenario.communication_slots
        return InputError("deadline", scenario.deadline, f"at least {needed}, the slots of the first round")
    if scenario.deadline is None:
        return InputError(
            "absences", f"{len(fleet.absences)} in all", "such that somebody is there to take part"
        )
    return InputError("deadline", scenario.deadline, "long enough for the first round of the fleet to end")


def scheduler_for(
    scenario: Scenario,
    schedule: Schedule,
    *,
    delay: Delay = "auto",
    fleet: Fleet | None = None,
    participation: Participation = "round-robin",
    seed: int = 0,
    absent: Iterable[int] = (),
) -> Scheduler:
    """The Scheduler whose doings `simulate` shows, for a driver on a real network.

    ``absent`` are the devices that are not there when it starts. Just in time for unequal devices needs a
    deadline: the plan goes so far.
    """
    delivery: Delayed | Synchronous | Planned
    if fleet is None or fleet.is_equal_to(scenario) or schedule != "idfl" or delay != "auto":
        delivery = delivery_policy(scenario, schedule, delay, participation, seed)
    else:
        _check_horizon(scenario, None)
        delivery = _planned(scenario, fleet.without_faults(), None)
    retransmission = Fleet.retransmission if fleet is None else fleet.retransmission
    return Scheduler(scenario.group_size, delivery, retransmission=retransmission, absent=absent)


def _just_in_time_timeline(scenario: Scenario, fleet: Fleet, rounds: int | None) -> Timeline:
    """Exact for a faultless fleet; otherwise a plan for it without faults, followed as far as possible."""
    if fleet.faultless:
        shown, plain = _asynchronous(scenario, fleet, rounds)
        return replace(just_in_time(plain, fleet.compute_slots, shown), scenario=scenario)
    return _event_timeline(
        scenario, "idfl", _planned(scenario, fleet.without_faults(), rounds), fleet, rounds
    )


def _planned(scenario: Scenario, fleet: Fleet, rounds: int | None) -> Planned:
    _, plain = _asynchronous(scenario, fleet, rounds)
    return Planned.of(just_in_time(plain, fleet.compute_slots, plain.rounds))


def _asynchronous(scenario: Scenario, fleet: Fleet, rounds: int | None) -> tuple[int, Timeline]:
    """How many rounds there are without delay, and the timeline until all their receivers have sent."""
    delivery = Delayed(scenario.devices, scenario.group_size)
    shown = _event_timeline(scenario, "async", delivery, fleet, rounds).rounds
    beyond = shown + _rounds_until_all_have_sent(scenario, fleet)
    return shown, _event_timeline(replace(scenario, deadline=None), "async", delivery, fleet, beyond)


def _rounds_until_all_have_sent(scenario: Scenario, fleet: Fleet) -> int:
    """Rounds after which whoever has just received a model has sent, at the most.

    The slowest is ready before so many of the shortest possible rounds are over; less than N others are then
    before it in the queue, and G rounds serve them all.
    """
    shortest = scenario.group_size * min(fleet.link_slots) + scenario.link_slots
    return max(fleet.compute_slots) // shortest + scenario.groups + 2


def _event_timeline(
    scenario: Scenario,
    schedule: Schedule,
    delivery: Delayed | Synchronous | Planned,
    fleet: Fleet | None,
    rounds: int | None,
) -> Timeline:
    devices = fleet or Fleet.equal(scenario)
    record = drive(
        Scheduler(
            scenario.group_size,
            delivery,
            retransmission=devices.retransmission,
            absent=devices.absent_at_first,
        ),
        devices,
        scenario.link_slots,
        rounds=rounds,
        deadline=scenario.deadline,
    )
    return Timeline(
        scenario=scenario,
        schedule=schedule,
        delay=delivery.delay,
        **uplink_columns(record.uplinks),
        **broadcast_columns(record.broadcasts, record.receivers),
        lost=uplink_table(record.lost),
        fleet=fleet,
    )
