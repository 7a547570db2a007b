"""The schedule as a value: policies, a pure Scheduler that plays them, and the Timeline that results."""

from slotwise.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
