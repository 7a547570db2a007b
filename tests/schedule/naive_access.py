"""Access schemes slot by slot, written from docs/access.md: what becomes of the uplinks of a group."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, log2

import numpy as np

from slotwise.radio import RadioLink
from slotwise.radio.rates import Rate, Shannon
from slotwise.schedule import Transmission


def efficiency(rate: Rate, snr: float) -> float:
    if isinstance(rate, Shannon) and type(rate) is Shannon:
        return log2(1 + snr / rate.gap)
    return float(rate.efficiency(np.array([snr]))[0])


def equal_blocks(carried: Sequence[Sequence[float]], _: Sequence[float], blocks: int) -> list[int]:
    """As many each as divide without a rest, and one more for the first devices."""
    devices = len(carried)
    return [blocks // devices + (place < blocks % devices) for place in range(devices)]


def inverse_blocks(_: Sequence[Sequence[float]], rates: Sequence[float], blocks: int) -> list[int]:
    """One each; the others in proportion to 1/rate, by the largest remainder."""
    if not max(rates):
        return equal_blocks([[]] * len(rates), rates, blocks)
    weights = [1 / max(rate, max(rates) * 1e-6) for rate in rates]
    ideal = [(blocks - len(rates)) * weight / sum(weights) for weight in weights]
    found = [floor(share) for share in ideal]
    places = sorted(range(len(rates)), key=lambda place: (found[place] - ideal[place], place))
    for place in places[: blocks - len(rates) - sum(found)]:
        found[place] += 1
    return [1 + share for share in found]


def min_max_blocks(carried: Sequence[Sequence[float]], _: Sequence[float], blocks: int) -> list[int]:
    """One each; every further block to the slowest, the first of several. Equal if all carry nothing."""
    alive = [place for place, row in enumerate(carried) if max(row) > 0]
    if not alive:
        return equal_blocks(carried, [], blocks)
    found = [1] * len(carried)
    while sum(found) < blocks:
        found[min(alive, key=lambda place: (max(carried[place][: found[place]]), place))] += 1
    return [row.index(max(row[:most])) + 1 for row, most in zip(carried, found, strict=True)]


Blocks = Callable[[Sequence[Sequence[float]], Sequence[float], int], list[int]]


@dataclass
class NaiveGroups:
    """A radio link whose devices send in groups; a scheme says what each device carries in a slot."""

    radio: RadioLink
    planned_slots: Sequence[int]
    most_senders: int

    def __post_init__(self) -> None:
        self.planned_broadcast_slots = self.radio.planned_broadcast_slots
        self.broadcast, self.snr_db = self.radio.broadcast, self.radio.snr_db

    def snr(self, device: int, slot: int) -> float:
        return float(self.radio.conditions.snr(slot // self.radio.coherence_slots, 1)[0, device - 1])

    def uplink(self, device: int, slot: int, attempt: int) -> Transmission:
        return self.uplinks([device], slot, [attempt])[0]

    def begin(self, devices: Sequence[int], slot: int) -> None:
        """What is decided when a group begins."""

    def carried(self, device: int, sending: Sequence[int], slot: int) -> int:
        raise NotImplementedError

    def uplinks(self, devices: Sequence[int], slot: int, attempts: Sequence[int]) -> list[Transmission]:
        self.begin(devices, slot)
        missing = dict.fromkeys(devices, self.radio.update_bits)
        ends = dict.fromkeys(devices, 0)
        for now in range(slot, slot + self.radio.give_up_slots):
            sending = [n for n in devices if missing[n] > 0]
            for n in sending:
                ends[n] = now + 1
            for n, bits in [(n, self.carried(n, sending, now)) for n in sending]:
                missing[n] -= bits
        return [Transmission(ends[n] - slot, missing[n] > 0, self.power(n)) for n in devices]

    def power(self, device: int) -> float:
        return 1.0


@dataclass
class NaiveOfdma(NaiveGroups):
    blocks: int
    divide: Blocks
    full_power: bool = True

    def begin(self, devices: Sequence[int], slot: int) -> None:
        carried = [[self.bits(n, b, slot) for b in range(1, self.blocks + 1)] for n in devices]
        rates = [efficiency(self.radio.rate, self.snr(n, slot)) for n in devices]
        self.mine = dict(zip(devices, self.divide(carried, rates, self.blocks), strict=True))

    def bits(self, device: int, blocks: int, slot: int) -> float:
        """A device with b of B blocks has b/B of the band, and its whole power on them or b/B of it."""
        share = blocks / self.blocks
        snr = self.snr(device, slot) / share if self.full_power else self.snr(device, slot)
        return efficiency(self.radio.rate, snr) * share * self.radio.uplink_scale

    def power(self, device: int) -> float:
        return 1.0 if self.full_power else self.mine[device] / self.blocks

    def carried(self, device: int, sending: Sequence[int], slot: int) -> int:
        return floor(self.bits(device, self.mine[device], slot))


@dataclass
class NaiveNoma(NaiveGroups):
    part: Callable[[int, int], float] = lambda device, slot: 1.0  # of its power, as decided in a slot

    def begin(self, devices: Sequence[int], slot: int) -> None:
        self.parts = {n: self.part(n, slot) for n in devices}

    def power(self, device: int) -> float:
        return self.parts[device]

    def carried(self, device: int, sending: Sequence[int], slot: int) -> int:
        """Those decoded later are interference: lower power, or the same and a higher number."""
        mine = self.snr(device, slot) * self.parts[device]
        powers = [(self.snr(n, slot) * self.parts[n], n) for n in sending]
        later = [power for power, n in powers if power < mine or (power == mine and n > device)]
        return floor(efficiency(self.radio.rate, mine / (1 + sum(later))) * self.radio.uplink_scale)
