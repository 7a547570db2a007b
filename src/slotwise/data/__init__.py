"""Data sets, and their partition among devices.

Names are imported when they are first used: devices with data of their own load none of it.
"""

from slotwise.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
