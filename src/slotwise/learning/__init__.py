"""Training along a timeline: the engine, tasks, and the built-in network."""

from slotwise.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
