"""Links over which a group of devices sends together: `OfdmaLink` and `NomaLink`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from slotwise.base.random_streams import Floats
from slotwise.radio.allocations import ALLOCATIONS, Allocation, Group, allocated, equal_blocks
from slotwise.radio.channel import decibels
from slotwise.radio.radio_link import RadioLink, whole_bits
from slotwise.schedule.link import Allocated, Transmission
from slotwise.schedule.pairings import Pairing

_TILE = 16_384  # SNRs that are drawn together: they fit into a fast cache
_MOST_DRAWN = 4_096  # devices of which all SNRs of a block are drawn


class GroupRadioLink(ABC):
    """A radio link whose devices send in groups (`slotwise.schedule.link.GroupLink`).

    Attributes:
        radio: The link of a device alone: its SNRs, the bits of an update, and the broadcasts.
        most_senders: Devices of a group at most.
    """

    def __init__(self, radio: RadioLink, most_senders: int) -> None:
        self.radio, self.devices = radio, radio.devices
        self.most_senders = min(most_senders, self.devices)
        self.broadcast: Callable[[Sequence[int], int], int] = radio.broadcast
        self.device_snr_db: Callable[[int, int], float] = radio.device_snr_db
        self._tile, self._first_block = np.empty((0, self.devices)), 0

    @property
    def planned_broadcast_slots(self) -> int:
        """Slots of a broadcast that plans assume."""
        return self.radio.planned_broadcast_slots

    @property
    @abstractmethod
    def planned_slots(self) -> Sequence[int]:
        """Slots of an uplink of each device in a full group that plans assume."""

    @abstractmethod
    def uplinks(self, devices: Sequence[int], slot: int, attempts: Sequence[int]) -> list[Transmission]:
        """Return what becomes of the uplinks of a group that begins in ``slot``."""

    def uplink(self, device: int, slot: int, attempt: int) -> Transmission:
        """Return what becomes of an uplink of a device that is a group by itself."""
        return self.uplinks([device], slot, [attempt])[0]

    def end(self, slot: int) -> int:
        """Return the slot at which an uplink that began in ``slot`` is given up, or too late."""
        radio = self.radio
        return min(slot + radio.give_up_slots, max(slot, radio.deadline) + 1)

    def group_with(self, devices: Sequence[int], slot: int, blocks: int, *, full_power: bool) -> Group:
        """Return devices that begin to send in ``slot`` on a band of so many resource blocks."""
        radio = self.radio
        snr = self.snr([device - 1 for device in devices], slot // radio.coherence_slots)
        return Group(
            tuple(devices), snr, radio.update_bits, blocks, radio.rate, full_power, radio.uplink_scale
        )

    def snr(self, places: Sequence[int], block: int) -> Floats:
        """Return the linear SNRs of the devices at ``places`` (device n is at n−1) in a block."""
        if self.devices > _MOST_DRAWN:
            drawn: Floats = self.radio.conditions.snr(block, 1, places=np.array(places))[0]
            return drawn
        snr: Floats = self._row(block)[places]
        return snr

    def snr_db(self, slot: int) -> Floats:
        """Return the SNR of the uplink of every device on the whole band in ``slot``, in dB."""
        return decibels(self._row(slot // self.radio.coherence_slots))

    def _row(self, block: int) -> Floats:
        """Return the linear SNRs of all devices in a block."""
        if not self._first_block <= block < self._first_block + len(self._tile):
            self._first_block = block
            self._tile = self.radio.conditions.snr(block, max(1, _TILE // self.devices))
        row: Floats = self._tile[block - self._first_block]
        return row


class AllocatingRadioLink(GroupRadioLink):
    """One that may be told what the devices of a group get (`slotwise.schedule.link.AllocatingLink`)."""

    @property
    @abstractmethod
    def allocates(self) -> Mapping[str, str | None]:
        """What may be decided, and the option that has decided it already, or None."""

    @abstractmethod
    def group(self, devices: Sequence[int], slot: int) -> Group:
        """Return what an allocation sees of a group that begins in ``slot``."""

    @abstractmethod
    def allocated(self, group: Group, blocks: Sequence[int] | None = None) -> Allocated:
        """Return blocks and powers of a group: these blocks, or those of the allocation."""

    @abstractmethod
    def sent(self, devices: Sequence[int], slot: int, allocated: Allocated) -> list[Transmission]:
        """Return what becomes of each uplink of a group that begins in ``slot``."""

    def uplinks(self, devices: Sequence[int], slot: int, attempts: Sequence[int]) -> list[Transmission]:  # noqa: ARG002
        """Return what becomes of each uplink, with what the allocation gives to its device."""
        return self.sent(devices, slot, self.allocated(self.group(devices, slot)))


class OfdmaLink(AllocatingRadioLink):
    """Each device of a group has resource blocks of its own until all have sent.

    A device with b of B blocks and the part p of its power has the SNR p·B/b times that of the whole band,
    and b/B of its bandwidth.
    """

    returns_valid_slots: ClassVar[bool] = True

    def __init__(
        self, radio: RadioLink, most_senders: int, allocation: Allocation, blocks: int, *, full_power: bool
    ) -> None:
        super().__init__(radio, most_senders)
        self.allocation, self.blocks, self.full_power = allocation, blocks, full_power

    @cached_property
    def planned_slots(self) -> Sequence[int]:
        """Slots with an equal share of the band."""
        share = self.blocks // self.most_senders / self.blocks
        gain = 1 / share if self.full_power else 1.0
        scale = self.radio.uplink_scale * share
        return replace(self.radio, uplink_scale=scale, uplink_gain=gain).planned_slots

    @property
    def allocates(self) -> Mapping[str, str | None]:
        """Blocks and power may be decided, unless an allocation or the power density has decided them."""
        own = self.allocation not in ALLOCATIONS.values()  # such a function may return powers
        power = "allocation" if own else None if self.full_power else "ofdma_power"
        return {"blocks": None if self.allocation is equal_blocks else "allocation", "power": power}

    def group(self, devices: Sequence[int], slot: int) -> Group:
        """Return what the allocation sees of a group that begins in ``slot``."""
        return self.group_with(devices, slot, self.blocks, full_power=self.full_power)

    def allocated(self, group: Group, blocks: Sequence[int] | None = None) -> Allocated:
        """Return blocks and powers of a group: these blocks, or those of the allocation."""
        return allocated(self.allocation, group) if blocks is None else group.with_blocks(blocks)

    def sent(self, devices: Sequence[int], slot: int, allocated: Allocated) -> list[Transmission]:
        """Return what becomes of each uplink, at the rate of its device's blocks."""
        radio, places = self.radio, [device - 1 for device in devices]
        blocks, power = allocated
        share = blocks / self.blocks
        gain, scale = power / share, share * radio.uplink_scale
        start, end, each = slot, self.end(slot), radio.coherence_slots
        missing, slots = [radio.update_bits] * len(places), [0] * len(places)
        left = list(range(len(places)))
        while left and slot < end:
            block = slot // each
            span = min((block + 1) * each, end) - slot
            carried = whole_bits(radio.rate.efficiency(self.snr(places, block) * gain) * scale).tolist()
            for i in left:
                bits = carried[i]
                if bits * span >= missing[i]:
                    slots[i] = slot - start - (-missing[i] // bits)
                missing[i] -= bits * span
            left = [i for i in left if not slots[i]]
            slot += span
        return [
            Transmission(taken or end - start, not taken, part)
            for taken, part in zip(slots, power.tolist(), strict=True)
        ]


class NomaLink(AllocatingRadioLink):
    """All devices of a group send on the whole band, and the server cancels what it has decoded.

    It decodes in the order of received power, the highest first, and equal powers by device. Who is decoded
    later and still sends is interference: the SINR is SNR / (1 + the sum of their SNRs). Devices send with
    their whole power, unless it is decided.
    """

    returns_valid_slots: ClassVar[bool] = True

    def __init__(self, radio: RadioLink, most_senders: int, pairing: Pairing) -> None:
        super().__init__(radio, most_senders)
        self.pairing = pairing

    @cached_property
    def planned_slots(self) -> Sequence[int]:
        """Slots of a device that has its share of the time for itself."""
        return tuple(self.most_senders * slots for slots in self.radio.planned_slots)

    @property
    def allocates(self) -> Mapping[str, str | None]:
        """The power may be decided; the band is not divided."""
        return {"power": None}

    def group(self, devices: Sequence[int], slot: int) -> Group:
        """Return a group whose devices all have the one block of the band."""
        return self.group_with(devices, slot, 1, full_power=True)

    def allocated(self, group: Group, blocks: Sequence[int] | None = None) -> Allocated:  # noqa: ARG002
        """Return the whole band and the whole power for each device."""
        return group.with_blocks([1] * len(group.devices))

    def uplinks(self, devices: Sequence[int], slot: int, attempts: Sequence[int]) -> list[Transmission]:  # noqa: ARG002
        """Return what becomes of each uplink at its whole power; no allocation has to see the group."""
        return self._sent(devices, slot, [1.0] * len(devices))

    def sent(self, devices: Sequence[int], slot: int, allocated: Allocated) -> list[Transmission]:
        """Return what becomes of each uplink with a part of its power."""
        return self._sent(devices, slot, allocated.power.tolist())

    def _sent(self, devices: Sequence[int], slot: int, parts: Sequence[float]) -> list[Transmission]:
        """Return what becomes of each uplink, at the rate that the interference leaves."""
        now, end, each = slot, self.end(slot), self.radio.coherence_slots
        power = dict(zip(devices, parts, strict=True))
        missing, through = dict.fromkeys(sorted(devices), self.radio.update_bits), dict[int, int]()
        while missing and now < end:
            block = now // each
            stop = min((block + 1) * each, end)
            alone = self.snr([device - 1 for device in missing], block).tolist()
            snr = [power[device] * one for device, one in zip(missing, alone, strict=True)]
            # Sorting is stable, so equal powers stay in the order of devices.
            decoded = sorted(zip(missing, snr, strict=True), key=lambda pair: -pair[1])
            while decoded and now < stop:  # until one of them is through, or the block ends
                carried = self._carried([power for _, power in decoded])
                span = stop - now
                for (device, _), bits in zip(decoded, carried, strict=True):
                    if bits * span >= missing[device]:
                        span = -(-missing[device] // bits)
                now += span
                for (device, _), bits in zip(decoded, carried, strict=True):
                    missing[device] -= bits * span
                    if missing[device] <= 0:
                        del missing[device]
                        through[device] = now - slot
                decoded = [pair for pair in decoded if pair[0] in missing]
        return [
            Transmission(through.get(device, end - slot), device in missing, power[device])
            for device in devices
        ]

    def _carried(self, powers: Sequence[float]) -> list[int]:
        """Return the bits of a slot of each device, in the order of decoding."""
        sinr, interference = [0.0] * len(powers), 0.0
        for place in reversed(range(len(powers))):
            sinr[place] = powers[place] / (1 + interference)
            interference += powers[place]
        radio = self.radio
        carried: list[int] = whole_bits(radio.rate.efficiency(np.array(sinr)) * radio.uplink_scale).tolist()
        return carried
