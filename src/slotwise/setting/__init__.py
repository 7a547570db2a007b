"""Setting: devices, channel, link and schedule, which is all that a plan and a timeline need."""

from slotwise.setting.setting import Setting
from slotwise.setting.shorthands import refuse_other_slot_ms

__all__ = ["Setting", "refuse_other_slot_ms"]
