"""slotwise: federated learning over time-slotted channels. Plan it, simulate it, train it.

>>> import slotwise as sw
>>> scenario = sw.Scenario(devices=6, group_size=2, compute_slots=2)
>>> sw.simulate(scenario, "idfl", rounds=3).staleness.tolist()
[0, 0, 1, 1, 1, 1]
"""

from slotwise.errors import InputError, UserError
from slotwise.learning import History, Task, train
from slotwise.planning import Plan, plan
from slotwise.scenario import Scenario, compute_slots
from slotwise.schedule import Scheduler, Timeline, simulate

__all__ = [
    "History",
    "InputError",
    "Plan",
    "Scenario",
    "Scheduler",
    "Task",
    "Timeline",
    "UserError",
    "compute_slots",
    "plan",
    "simulate",
    "train",
]
