"""The schedule as a value: a pure Scheduler, virtual slots to drive it, and the Timeline they make."""

from slotwise.schedule.agenda import Agenda
from slotwise.schedule.delay import automatic_delay, completed_rounds
from slotwise.schedule.delivery import Delayed, Delivery, Participation, Synchronous
from slotwise.schedule.events import Record
from slotwise.schedule.just_in_time import Planned, just_in_time
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
from slotwise.schedule.simulation import Delay, delivery_policy, scheduler_for, simulate
from slotwise.schedule.timeline import Schedule, Timeline
from slotwise.schedule.trainings import Trainings, trainings
from slotwise.schedule.uniform import round_ends

__all__ = [
    "Agenda",
    "Delay",
    "Delayed",
    "Deliver",
    "Delivered",
    "Delivery",
    "Event",
    "Grant",
    "Joined",
    "Left",
    "Lost",
    "Participation",
    "Planned",
    "Ready",
    "Record",
    "Schedule",
    "Scheduler",
    "SchedulerState",
    "Sent",
    "Synchronous",
    "Timeline",
    "Trainings",
    "automatic_delay",
    "completed_rounds",
    "delivery_policy",
    "just_in_time",
    "round_ends",
    "scheduler_for",
    "simulate",
    "trainings",
]
