"""The schedule as a value: a pure Scheduler, virtual slots to drive it, and the Timeline they make."""

from slotwise.schedule.delay import automatic_delay, completed_rounds
from slotwise.schedule.delivery import Delayed, Delivery, Participation, Synchronous
from slotwise.schedule.just_in_time import Planned, just_in_time
from slotwise.schedule.scheduler import Deliver, Delivered, Grant, Joined, Left, Lost, Ready, Scheduler, Sent
from slotwise.schedule.simulate import Delay, delivery_policy, simulate
from slotwise.schedule.timeline import Schedule, Timeline
from slotwise.schedule.trainings import Trainings, trainings
from slotwise.schedule.uniform import round_ends
from slotwise.schedule.usage import TotalUsage, Usage, usage

__all__ = [
    "Delay",
    "Delayed",
    "Deliver",
    "Delivered",
    "Delivery",
    "Grant",
    "Joined",
    "Left",
    "Lost",
    "Participation",
    "Planned",
    "Ready",
    "Schedule",
    "Scheduler",
    "Sent",
    "Synchronous",
    "Timeline",
    "TotalUsage",
    "Trainings",
    "Usage",
    "automatic_delay",
    "completed_rounds",
    "delivery_policy",
    "just_in_time",
    "round_ends",
    "simulate",
    "trainings",
    "usage",
]
