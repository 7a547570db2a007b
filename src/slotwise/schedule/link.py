"""Link: how long an uplink or a broadcast takes, and whether it is lost; what the schedule asks of the radio.

A link is a pure function: the same (device, slot, attempt) always has the same answer, in any order of
questions, so that a schedule stays a value. Everything random in it depends on a seed of its own. The
schedule asks it and knows nothing of distances, fading or rates, except that fading may be drawn in
compiled code (`FadingDraws`). `FleetLink` is the link of the paper, with fixed slots and losses
drawn by number.

Devices are numbered from 1; arrays over devices have device n in entry n−1. Slots are numbered from 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from slotwise.fleet import Fleet
from slotwise.scenario import Scenario

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]
FEW = 64  # devices; among fewer compiled loops are not worth their loading


class Transmission(NamedTuple):
    """One attempt to send an update: it occupies its part of the channel for ``slots``, at least 1."""

    slots: int
    lost: bool = False  # it took its slots, and no intact update arrived
    power: float = 1.0  # the part of its device's sending power, at most 1; 0 if nothing is sent after all


@runtime_checkable
class Link(Protocol):
    """The radio conditions of N devices, as functions of device and slot.

    A link must be deterministic and cheap to ask: `uplink` is asked once for each uplink,
    `broadcast` once for each round, `snr_db` once for each choice of a selection that looks at the channel.
    A link whose fading is constant in blocks of slots may also be a `BlockLink`, which is simulated faster.
    """

    @property
    def planned_slots(self) -> Sequence[int]:
        """Slots of an uplink of each device that plans assume, at least 1: a typical value or a quantile.

        Just-in-time delivery plans with them, and a device keeps the energy of so many slots for its uplink.
        """
        ...

    @property
    def planned_broadcast_slots(self) -> int:
        """Slots of a broadcast that plans assume."""
        ...

    def uplink(self, device: int, slot: int, attempt: int) -> Transmission:
        """Return what becomes of an uplink that starts in ``slot``.

        ``attempt`` is the number of uplinks that the device has started before in the whole run, lost ones
        included; a link whose losses follow from the SNR ignores it. It must be finite: an update that
        cannot be carried is lost after some slots.
        """
        ...

    def broadcast(self, receivers: Sequence[int], slot: int) -> int:
        """Return the slots of a broadcast that starts in ``slot``, at least 1; ``receivers`` may be empty."""
        ...

    def snr_db(self, slot: int) -> Floats:
        """Return the SNR of the uplink of every device in ``slot``, in dB: float64, shape [N].

        That is all a selection sees of the channel. A link without SNR returns equal numbers.
        """
        ...


@runtime_checkable
class BlockLink(Link, Protocol):
    """A link that is constant in blocks of ``coherence_slots``: block b is slots [b·c, (b+1)·c).

    The tables say the same as the methods of `Link`, to the bit, for many blocks at once. In a block a slot
    carries ``bits[b, n−1]`` bits of device n. An uplink that starts in slot s

    - with ``fixed_slots`` > 0 takes so many slots, and is lost if ``bits`` is 0 in any of them;
    - with ``fixed_slots`` = 0 takes the slots until the sum of their bits reaches ``update_bits``, and is
      lost if ``give_up_slots`` slots do not suffice (it then takes just these).
    """

    @property
    def coherence_slots(self) -> int:
        """Slots of a block, at least 1."""
        ...

    @property
    def fixed_slots(self) -> int:
        """Slots of every uplink; 0 if the rate adapts to the channel."""
        ...

    @property
    def update_bits(self) -> int:
        """Bits of one update, if the rate adapts."""
        ...

    @property
    def give_up_slots(self) -> int:
        """Slots after which an uplink is given up as lost, if the rate adapts."""
        ...

    def tables(self, first_block: int, blocks: int) -> tuple[Floats, Integers]:
        """Return (snr_db, bits) of ``blocks`` blocks from ``first_block`` on: float64 and int64, [blocks, N].

        ``snr_db[b]`` equals ``snr_db(slot)`` of every slot of the block.
        """
        ...


@runtime_checkable
class GroupLink(Link, Protocol):
    """A link that sees who sends together: devices send in groups, which begin in the same slot.

    When no uplink is under way, the selection chooses a group among the updates that wait: as many as
    ``most_senders`` and the round permit. With an attribute ``pairing``, a `slotwise.schedule.Pairing`, that
    chooses all but the first. The next group begins when all uplinks of this one have ended. `uplink` is
    never asked.
    """

    @property
    def most_senders(self) -> int:
        """Devices of a group at most, at least 1."""
        ...

    def uplinks(self, devices: Sequence[int], slot: int, attempts: Sequence[int]) -> Sequence[Transmission]:
        """Return what becomes of the uplinks of a group that begins in ``slot``, in the order of devices.

        ``devices`` are in the order in which the selection chose them; ``attempts`` as for `uplink`.
        """
        ...


class Allocated(NamedTuple):
    """What each device of a group gets: resource blocks, and the part of its power that it sends with."""

    blocks: Integers
    power: Floats


class SenderGroup(Protocol):
    """Devices that begin to send together; what else is known of them depends on the link."""

    @property
    def devices(self) -> Sequence[int]:
        """Their numbers, in the order in which they were chosen."""
        ...

    @property
    def blocks(self) -> int:
        """Resource blocks of the band."""
        ...


class AllocatingLink(GroupLink, Protocol):
    """A link with groups that may be told what the devices of a group get, instead of its own allocation."""

    @property
    def allocates(self) -> Mapping[str, str | None]:
        """What it can be told, "blocks" or "power", and the option that has decided it already, or None."""
        ...

    def group(self, devices: Sequence[int], slot: int) -> SenderGroup:
        """Return what an allocation sees of devices that begin to send in ``slot``."""
        ...

    def allocated(self, group: Any, blocks: Sequence[int] | None = None) -> Allocated:
        """Return what the devices of a group get: these blocks, or those of the link's own allocation."""
        ...

    def sent(self, devices: Sequence[int], slot: int, allocated: Allocated) -> Sequence[Transmission]:
        """Return what becomes of the uplinks of a group that begins in ``slot``, in the order of devices."""
        ...


def has_groups(link: Link | None) -> TypeGuard[GroupLink]:
    """Return whether devices send in groups over a link."""
    return hasattr(type(link), "uplinks")


def devices_of(link: Link) -> int:
    """Return the number of devices of a link."""
    return getattr(link, "devices", 0) or len(link.planned_slots)


def has_blocks(link: Link) -> TypeGuard[BlockLink]:
    """Return whether a link has tables; `isinstance` would compute its planned slots, which takes long."""
    return hasattr(type(link), "tables")


def snr_db_of(link: Link, device: int, slot: int) -> float:
    """Return the SNR of the uplink of one device in a slot, in dB; 0 over fixed slots."""
    if isinstance(link, FleetLink):
        return 0.0
    # A link of slotwise's own draws no more than this one number.
    alone = getattr(link, "device_snr_db", None)
    return float(link.snr_db(slot)[device - 1] if alone is None else alone(device, slot))


class FadingDraws(NamedTuple):
    """Numbers from which the SNRs and bits of a `BlockLink` are drawn where they are needed.

    A link under Rayleigh, Rician or Nakagami fading, or none, has them as attribute ``draws`` and is
    simulated faster.

    The SNR of device n in block b is a gain times its mean. The gain is drawn from the state of SplitMix64
    that follows ``states[n−1]`` with b as the next part of the key, as `slotwise.radio.Rayleigh` does; with
    a line of sight as `slotwise.radio.Rician`, and with a shape as `slotwise.radio.Nakagami`. A slot carries
    ``bits[i]`` of the largest ``thresholds[i]`` that the SNR reaches, or 0; without thresholds
    log2(1 + SNR / gap) times ``scale``, rounded down.
    """

    states: NDArray[np.uint64]
    mean: NDArray[np.float64]  # linear
    thresholds: NDArray[np.float64]  # linear and ascending
    bits: NDArray[np.int64]
    gap: float
    scale: float
    sight: float = 0.0  # power of the line of sight over that of all other paths; infinite: gains are 1
    shape: float = 0.0  # m of Nakagami fading; 0 for other fading


@dataclass(frozen=True)
class FleetLink:
    """Fixed slots for each device and losses drawn for each attempt: what scenario and fleet say."""

    fleet: Fleet
    planned_broadcast_slots: int

    @classmethod
    def of(cls, scenario: Scenario, fleet: Fleet) -> FleetLink:
        """Return the link of a scenario with these devices."""
        return cls(fleet, scenario.link_slots)

    def is_of(self, scenario: Scenario, fleet: Fleet) -> bool:
        """Return whether it is the link of a scenario with these devices."""
        return self.planned_broadcast_slots == scenario.link_slots and self.fleet.is_same(fleet)

    @property
    def planned_slots(self) -> Sequence[int]:
        """The fleet's link slots."""
        return self.fleet.link_slots

    def uplink(self, device: int, slot: int, attempt: int) -> Transmission:  # noqa: ARG002
        """Return the device's link slots; the attempt decides whether it is lost."""
        fleet = self.fleet
        return Transmission(fleet.link_slots[device - 1], fleet.loses(device, attempt))

    def broadcast(self, receivers: Sequence[int], slot: int) -> int:  # noqa: ARG002
        """Return the scenario's link slots."""
        return self.planned_broadcast_slots

    def snr_db(self, slot: int) -> Floats:  # noqa: ARG002
        """Return zeros: all channels are equally good."""
        return np.zeros(self.fleet.devices)
