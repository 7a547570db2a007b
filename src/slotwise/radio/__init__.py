"""From distance, bandwidth and fading to slots and losses; recorded traces instead of a model.

A link of a run is a value made of parts, each with its formula: `RateAdaptive(channel=ChannelModel(...))`.
"""

from slotwise.radio.channel import Cell, ChannelModel, RecordedTrace
from slotwise.radio.fading import FADINGS, Fading, Nakagami, NoFading, Rayleigh, Rician
from slotwise.radio.links import (
    LINK,
    LINKS,
    FixedRate,
    FixedSlots,
    LinkChoice,
    RadioOptions,
    RateAdaptive,
)
from slotwise.radio.path_loss import (
    PATH_LOSSES,
    FreeSpace,
    LogDistance,
    PathLoss,
    UrbanMacro,
    UrbanMacroNoSight,
    UrbanMacroSight,
    UrbanMicro,
    UrbanMicroNoSight,
    UrbanMicroSight,
)
from slotwise.radio.placement import (
    PLACEMENTS,
    CellPlacement,
    ListedPlacement,
    PlacementFile,
    RingPlacement,
)
from slotwise.radio.radio_link import RadioLink
from slotwise.radio.rates import RATES, Cqi, GivenSnr, NeededSnr, Rate, SchemesFile, SchemeTable, Shannon
from slotwise.radio.traces import Trace, read_trace, write_trace
from slotwise.schedule.link import BlockLink, Link, Transmission

__all__ = [
    "FADINGS", "LINK", "LINKS", "PATH_LOSSES", "PLACEMENTS", "RATES", "BlockLink", "Cell", "CellPlacement",
    "ChannelModel", "Cqi", "Fading", "FixedRate", "FixedSlots", "FreeSpace", "GivenSnr", "Link", "LinkChoice",
    "ListedPlacement", "LogDistance", "Nakagami", "NeededSnr", "NoFading", "PathLoss",
    "PlacementFile", "RadioLink", "RadioOptions", "Rate", "RateAdaptive", "Rayleigh", "RecordedTrace",
    "Rician", "RingPlacement", "SchemeTable", "SchemesFile", "Shannon", "Trace", "Transmission", "UrbanMacro",
    "UrbanMacroNoSight", "UrbanMacroSight", "UrbanMicro", "UrbanMicroNoSight", "UrbanMicroSight",
    "read_trace", "write_trace",
]  # fmt: skip
