"""The schedule as a value: policies, a pure Scheduler that plays them, and the Timeline that results."""

from slotwise.schedule.events import Agenda
from slotwise.schedule.link import BlockLink, FleetLink, Link, Transmission
from slotwise.schedule.policies import (
    POLICIES,
    POLICY,
    Asynchronous,
    IntentionalDelay,
    PolicyChoice,
    Schedule,
    Synchronous,
)
from slotwise.schedule.policies.intentional_delay import Delay, automatic_delay, completed_rounds
from slotwise.schedule.policies.synchronous import Participation
from slotwise.schedule.policy import Delivery, Policy
from slotwise.schedule.scheduler import Scheduler, SchedulerState
from slotwise.schedule.scheduler_events import (
    Deliver,
    Delivered,
    Event,
    Grant,
    Joined,
    Left,
    Lost,
    Ready,
    Sent,
)
from slotwise.schedule.selection import Selection, Waiting
from slotwise.schedule.selections import SELECTIONS, RandomSelection, first_ready, round_robin
from slotwise.schedule.simulation import ready_policy, refuse_too_many_uplinks, scheduler_for, simulate
from slotwise.schedule.timeline import Record, Timeline

__all__ = [  # noqa: RUF022  (grouped by use)
    "simulate", "scheduler_for", "refuse_too_many_uplinks", "Timeline", "Record",
    "Policy", "POLICY", "PolicyChoice", "POLICIES", "ready_policy", "Schedule", "Synchronous", "Asynchronous",
    "IntentionalDelay",
    "Delivery", "Delay", "Participation", "automatic_delay", "completed_rounds",
    "Selection", "SELECTIONS", "Waiting", "first_ready", "round_robin", "RandomSelection",
    "Link", "BlockLink", "FleetLink", "Transmission",
    "Scheduler", "SchedulerState", "Agenda", "Grant", "Deliver",
    "Event", "Ready", "Sent", "Lost", "Delivered", "Left", "Joined",
]  # fmt: skip
