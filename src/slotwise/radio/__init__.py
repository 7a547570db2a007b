"""From distance, bandwidth and fading to slots and losses; recorded traces instead of a model.

A link of a run is a value made of parts, each with its formula: `RateAdaptive(channel=ChannelModel(...))`.
"""

from slotwise.base.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
