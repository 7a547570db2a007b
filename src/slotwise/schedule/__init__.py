"""The schedule as a value: policies, a pure Scheduler that plays them, and the Timeline that results."""

from slotwise.schedule.events import Agenda
from slotwise.schedule.policies import POLICIES, Asynchronous, IntentionalDelay, Schedule, Synchronous
from slotwise.schedule.policies.intentional_delay import Delay, automatic_delay, completed_rounds
from slotwise.schedule.policies.synchronous import Participation
from slotwise.schedule.policy import Delivery, Policy
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
from slotwise.schedule.simulation import refuse_too_many_uplinks, scheduler_for, simulate
from slotwise.schedule.timeline import Record, Timeline

__all__ = [
    "POLICIES",
    "Agenda",
    "Asynchronous",
    "Delay",
    "Deliver",
    "Delivered",
    "Delivery",
    "Event",
    "Grant",
    "IntentionalDelay",
    "Joined",
    "Left",
    "Lost",
    "Participation",
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
    "Waiting",
    "automatic_delay",
    "completed_rounds",
    "first_ready",
    "refuse_too_many_uplinks",
    "round_robin",
    "scheduler_for",
    "simulate",
]
