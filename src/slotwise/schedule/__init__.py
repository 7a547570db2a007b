"""The schedule as a value: policies, a pure Scheduler that plays them, and the Timeline that results."""

from slotwise.schedule.events import Agenda
from slotwise.schedule.policies import POLICIES, Asynchronous, IntentionalDelay, Schedule, Synchronous
from slotwise.schedule.policies.intentional_delay import (
    Delay,
    FixedDelay,
    Planned,
    automatic_delay,
    completed_rounds,
)
from slotwise.schedule.policies.synchronous import Participants, Participation
from slotwise.schedule.policy import Booking, Delivery, Policy
from slotwise.schedule.policy_config import PolicyConfig
from slotwise.schedule.scheduler import (
    Deliver,
    Delivered,
    Event,
    Grant,
    Joined,
    Left,
    Lost,
    Ready,
    Scheduler,
    SchedulerState,
    Sent,
)
from slotwise.schedule.selection import RandomSelection, Selection, Waiting, first_ready, round_robin
from slotwise.schedule.simulation import (
    most_uplinks,
    refuse_too_many_uplinks,
    scheduler_for,
    simulate,
)
from slotwise.schedule.timeline import Record, Timeline, Trainings

__all__ = [
    "POLICIES",
    "Agenda",
    "Asynchronous",
    "Booking",
    "Delay",
    "Deliver",
    "Delivered",
    "Delivery",
    "Event",
    "FixedDelay",
    "Grant",
    "IntentionalDelay",
    "Joined",
    "Left",
    "Lost",
    "Participants",
    "Participation",
    "Planned",
    "Policy",
    "PolicyConfig",
    "RandomSelection",
    "Ready",
    "Record",
    "Schedule",
    "Scheduler",
    "SchedulerState",
    "Selection",
    "Sent",
    "Synchronous",
    "Timeline",
    "Trainings",
    "Waiting",
    "automatic_delay",
    "completed_rounds",
    "first_ready",
    "most_uplinks",
    "refuse_too_many_uplinks",
    "round_robin",
    "scheduler_for",
    "simulate",
]
