"""Aggregation rules, by the name that users look for: all of `slotwise.aggregation`."""

from slotwise.aggregation import *  # noqa: F403
