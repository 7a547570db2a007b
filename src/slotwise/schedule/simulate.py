"""simulate(scenario, ...) -> Timeline: the one entry point to the schedule."""

from __future__ import annotations

from typing import Literal, get_args

from slotwise.errors import InputError
from slotwise.scenario import Scenario, whole
from slotwise.schedule.delay import automatic_delay
from slotwise.schedule.delivery import Delayed, Participation, Synchronous
from slotwise.schedule.events import drive
from slotwise.schedule.scheduler import Scheduler
from slotwise.schedule.timeline import Schedule, Timeline, broadcast_columns, uplink_columns
from slotwise.schedule.uniform import uniform_timeline

Delay = int | Literal["auto"]


def simulate(
    scenario: Scenario,
    schedule: Schedule = "async",
    *,
    delay: Delay = "auto",
    rounds: int | None = None,
    participation: Participation = "round-robin",
    seed: int = 0,
    event_by_event: bool = False,
) -> Timeline:
    """Play the schedule in virtual slots.

    Args:
        scenario: devices, channel and (optionally) the deadline.
        schedule: "sync", "async" (Algorithm 1) or "idfl" (Algorithm 2).
        delay: the intentional delay in rounds; "auto" is the largest free one for idfl, 0 otherwise.
        rounds: stop after so many rounds, or at the deadline, whichever comes first.
        participation: for sync with S < N, who takes part in a round: "round-robin" or "random".
        seed: of the random participation.
        event_by_event: drive the Scheduler instead of taking the short cut for equal devices. The result is
            the same.

    Raises:
        InputError: a parameter is out of range, or no round fits.
    """
    _check_horizon(scenario, rounds)
    delivery = delivery_policy(scenario, schedule, delay, participation, seed)
    if event_by_event:
        timeline = _event_timeline(scenario, schedule, delivery, rounds)
    else:
        timeline = uniform_timeline(scenario, schedule, delivery, rounds)
    if not timeline.rounds:
        first = scenario.compute_slots + scenario.communication_slots
        raise InputError("deadline", scenario.deadline, f"at least {first}, the slots of the first round")
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


def _event_timeline(
    scenario: Scenario, schedule: Schedule, delivery: Delayed | Synchronous, rounds: int | None
) -> Timeline:
    record = drive(
        Scheduler(scenario.group_size, delivery),
        lambda _: scenario.compute_slots,
        scenario.link_slots,
        rounds=rounds,
        deadline=scenario.deadline,
    )
    return Timeline(
        scenario=scenario,
        schedule=schedule,
        delay=delivery.delay if isinstance(delivery, Delayed) else 0,
        **uplink_columns(record.uplinks),
        **broadcast_columns(record.broadcasts, record.receivers),
    )
