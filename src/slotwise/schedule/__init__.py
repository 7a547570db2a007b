"""The schedule as a value: policies, a pure Scheduler that plays them, and the Timeline that results."""

from slotwise.schedule.events import Agenda
from slotwise.schedule.free_delay import automatic_delay, completed_rounds
from slotwise.schedule.link import BlockLink, FleetLink, Link, Transmission
from slotwise.schedule.policies import (
    POLICIES,
    POLICY,
    Asynchronous,
    IntentionalDelay,
    Participation,
    PolicyChoice,
    Schedule,
    Synchronous,
    ready_policy,
)
from slotwise.schedule.policy import Delay, Delivery, Policy
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
from slotwise.schedule.selections import (
    SELECTIONS,
    RandomSelection,
    Selection,
    Waiting,
    first_ready,
    round_robin,
)
from slotwise.schedule.simulation import case_of, scheduler_for, simulate, timeline_of
from slotwise.schedule.simulators import Simulator, most_uplinks, refuse_too_many_uplinks, simulator_of
from slotwise.schedule.timeline import Record, Timeline, Totals

__all__ = [  # noqa: RUF022  (grouped by use)
    "simulate", "scheduler_for", "case_of", "timeline_of", "Timeline", "Totals", "Record",
    "Simulator", "simulator_of", "most_uplinks", "refuse_too_many_uplinks",
    "Policy", "POLICY", "PolicyChoice", "POLICIES", "ready_policy", "Schedule", "Synchronous", "Asynchronous",
    "IntentionalDelay",
    "Delivery", "Delay", "Participation", "automatic_delay", "completed_rounds",
    "Selection", "SELECTIONS", "Waiting", "first_ready", "round_robin", "RandomSelection",
    "Link", "BlockLink", "FleetLink", "Transmission",
    "Scheduler", "SchedulerState", "Agenda", "Grant", "Deliver",
    "Event", "Ready", "Sent", "Lost", "Delivered", "Left", "Joined",
]  # fmt: skip
