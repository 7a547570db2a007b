"""Multiple access: how devices share the band of their uplinks. Each scheme is a value.

To add one, write a class with a method ``link`` and name it in `ACCESSES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import radians
from typing import Annotated, Any, ClassVar, Literal, Self

from slotwise.base.errors import InputError
from slotwise.base.user_code import accepts
from slotwise.options import Choice, Named, Range, loaded
from slotwise.options.checks import Value
from slotwise.radio.allocations import ALLOCATION, equal_blocks
from slotwise.radio.channel import TraceConditions
from slotwise.radio.group_links import NomaLink, OfdmaLink
from slotwise.radio.over_the_air import OverTheAirLink
from slotwise.radio.radio_link import RadioLink
from slotwise.schedule.decisions import DecisionKind
from slotwise.schedule.learning_state import Agent
from slotwise.schedule.link import Link
from slotwise.schedule.pairings import PAIRING, as_selected
from slotwise.schedule.simulation import LEARNS_NOTHING


class Access:
    """An access scheme; what its classes have in common."""

    in_groups: ClassVar[bool] = False
    is_analog: ClassVar[bool] = False

    @property
    def agents(self) -> Mapping[DecisionKind, Agent]:
        """What decides by what is learned, if anything does: such a schedule is made while it is trained."""
        return {}

    def without_agents(self) -> Self:
        """Return the scheme that decides nothing by what is learned."""
        return self


@dataclass(frozen=True)
class Tdma(Access):
    """One device sends at a time, or one on each sub-channel."""

    def link(self, radio: RadioLink) -> Link:
        """Return the link itself."""
        return radio


@dataclass(frozen=True, kw_only=True)
class Ofdma(Access, Value):
    """A group of devices sends at once, each on resource blocks of its own.

    Attributes:
        devices: Devices of a group of ofdma at most.
        resource_blocks: Resource blocks into which ofdma divides the band.
        allocation: Resource blocks of each device of a group: equal, inverse-rate (in proportion to it),
            min-max (the slowest takes the shortest time), or your own module:function; one of two arguments
            decides by what is learned.
        power: Power of a device of ofdma: full (its whole power on its blocks), or shared (the part of it
            that its blocks are of the band, so that all send with the same power density).
    """

    in_groups: ClassVar[bool] = True
    devices: Annotated[int, Range(least=1, most=1000), Named("ofdma_devices")] = 10
    resource_blocks: Annotated[int, Range(least=1, most=10_000)] = 100
    allocation: Annotated[Any, ALLOCATION] = equal_blocks
    power: Annotated[Literal["full", "shared"], Named("ofdma_power")] = "full"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resource_blocks < self.devices:
            allowed = f"at least {self.devices}, one for each device of a group (ofdma_devices)"
            raise InputError("resource_blocks", self.resource_blocks, allowed)

    @property
    def agents(self) -> Mapping[DecisionKind, Agent]:
        """The allocation, if it takes a decision and what is known of the learning."""
        allocation = loaded(self.allocation)
        decides = accepts(allocation, 2) and not accepts(allocation, 1)
        return {"blocks": allocation} if decides else {}

    def without_agents(self) -> Self:
        """Return the scheme with equal blocks if they are decided by what is learned."""
        return replace(self, allocation=equal_blocks) if self.agents else self

    def link(self, radio: RadioLink) -> Link:
        """Return the link of groups."""
        full, allocation = self.power == "full", loaded(self.allocation)
        if self.agents:
            name = ALLOCATION.name_of(self.allocation)
            raise InputError("allocation", name, f"used with train or sweep: {LEARNS_NOTHING}")
        if full:
            refuse_trace_of_bits(radio, "ofdma", "ofdma with ofdma_power shared, or tdma,")
        return OfdmaLink(radio, self.devices, allocation, self.resource_blocks, full_power=full)


@dataclass(frozen=True, kw_only=True)
class Noma(Access, Value):
    """A group of devices sends at once on the whole band, with successive interference cancellation.

    Attributes:
        devices: Devices of a group of noma at most.
        pairing: Who sends together with the device that the selection has chosen: as-selected (its
            next choice), most-distinct (the SNR that differs most), or your own module:function.
    """

    in_groups: ClassVar[bool] = True
    devices: Annotated[int, Range(least=1, most=1000), Named("noma_devices")] = 2
    pairing: Annotated[Any, PAIRING] = as_selected

    def link(self, radio: RadioLink) -> Link:
        """Return the link of groups, in which a device sends at its whole power."""
        refuse_trace_of_bits(radio, "noma", "tdma")
        return NomaLink(radio, self.devices, loaded(self.pairing))


@dataclass(frozen=True, kw_only=True)
class OverTheAir(Access, Value):
    """A group of devices sends analog at once, and the server receives the sum of their updates.

    Attributes:
        devices: Devices that send at once over the air at most.
        snr_db: SNR in dB with which every device is received over the air; one that cannot reach it with
            its power is left out.
        phase_error_deg: Standard deviation of the error of each device's phase over the air, in degrees.
    """

    in_groups: ClassVar[bool] = True
    is_analog: ClassVar[bool] = True
    devices: Annotated[int, Range(least=1, most=1000), Named("air_devices")] = 100
    snr_db: Annotated[float, Range(least=-100.0, most=100.0), Named("air_snr_db")] = 10.0
    phase_error_deg: Annotated[float, Range(least=0.0, most=180.0), Named("air_phase_error_deg")] = 0.0

    def link(self, radio: RadioLink) -> Link:
        """Return the link on which devices invert their channels."""
        refuse_trace_of_bits(radio, "over-the-air", "tdma")
        return OverTheAirLink(
            radio, self.devices, float(10 ** (self.snr_db / 10)), radians(self.phase_error_deg)
        )


def refuse_trace_of_bits(radio: RadioLink, name: str, allowed: str) -> None:
    """Raise an InputError if the gains of devices are needed and a recorded trace has none."""
    conditions = radio.conditions
    if isinstance(conditions, TraceConditions) and conditions.trace.quantity == "bits":
        raise InputError("access", name, f"{allowed} with a trace of bits, which has no gains")


ACCESSES: Mapping[str, Any] = {"tdma": Tdma, "ofdma": Ofdma, "noma": Noma, "over-the-air": OverTheAir}
ACCESS = Choice("access", ACCESSES)
AccessChoice = Annotated[Tdma | Ofdma | Noma | OverTheAir, ACCESS]
