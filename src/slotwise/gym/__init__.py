"""Schedules and trainings as environments of Gymnasium, for agents that learn to schedule.

- `uplink`: ``slotwise/Uplink-v0``, who sends next, without training.
- `training`: ``slotwise/Training-v0``, participants or group sizes, with training along.
- `agents`: the built-in selections as agents, and their comparison with others on the same seeds.

Importing it registers the environments. Needs the extra ``slotwise[gym]``.
"""

from slotwise.base.extras import is_installed
from slotwise.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

if is_installed("gymnasium"):
    from gymnasium import register

    register("slotwise/Uplink-v0", entry_point="slotwise.gym.uplink:UplinkEnv")
    register("slotwise/Training-v0", entry_point="slotwise.gym.training:TrainingEnv")
