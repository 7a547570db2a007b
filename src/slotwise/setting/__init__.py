"""Setting: devices, channel, link and schedule, which is all that a plan and a timeline need."""

from slotwise.setting.setting import Setting

__all__ = ["Setting"]
