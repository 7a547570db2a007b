"""Tasks from any torch module."""

from slotwise.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
