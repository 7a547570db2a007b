"""From distance, bandwidth and fading to slots and losses; recorded traces instead of a model."""

from slotwise.radio.cell import Cell, make_cell
from slotwise.radio.link_building import make_link
from slotwise.radio.radio_config import RadioConfig
from slotwise.radio.radio_link import RadioLink
from slotwise.radio.traces import Trace, read_trace, write_trace

__all__ = ["Cell", "RadioConfig", "RadioLink", "Trace", "make_cell", "make_link", "read_trace", "write_trace"]
