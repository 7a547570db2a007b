"""RadioLink: how long uplinks and broadcasts take over a fading channel, and which are lost.

It is a `slotwise.schedule.link.BlockLink`: a pure function of seed, device and slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from typing import ClassVar

import numpy as np

from slotwise.base.random_streams import Floats, SchedulePurpose, device_states, mixed_all
from slotwise.radio.channel import Conditions, Integers, ModelConditions, decibels
from slotwise.radio.rates import Rate, Shannon, Stepped
from slotwise.schedule.link import FEW, FadingDraws, Transmission

MOST_BROADCAST_SLOTS = 100_000  # a broadcast ends after so many slots, whatever has arrived
NO_DEADLINE = 2**62
MOST_BITS = 2.0**62  # of a slot
_TILE = 65_536  # values that are computed together
_TILES_KEPT = 8
_SHORT = 256  # blocks of an uplink
Follow = Callable[[Integers, int, int, int, int], int]
PLANNED_SAMPLES = 64  # of each device, or of a broadcast
PLANNED_BLOCKS = 256  # of one sample; beyond, the mean rate so far is assumed


@dataclass(kw_only=True, eq=False)
class RadioLink:
    """The link of devices whose SNR is constant in blocks of slots.

    Attributes:
        conditions: SNR of every device in every block.
        rate: bits per second and hertz at an SNR.
        fixed_slots: slots of every uplink; 0 if the rate adapts to the channel.
        threshold: linear SNR below which an uplink of fixed rate is lost.
        update_bits: bits of one update.
        broadcast_slots: slots of a broadcast of fixed rate.
        uplink_scale: bits of one slot of an uplink at 1 bit/s/Hz: hertz times seconds.
        uplink_gain: linear SNR of an uplink of adaptive rate, divided by that of the conditions.
        deadline: slot after which nothing matters any more: uplinks are not followed beyond.
        model_bits: bits of a broadcast, as all that follows of adaptive rate only.
        broadcast_scale: bits of one slot of a broadcast at 1 bit/s/Hz.
        broadcast_gain: linear SNR of a broadcast, divided by that of an uplink.
        give_up_slots: slots after which an uplink is lost.
        group_size: receivers of a broadcast that plans assume.
        quantile: the quantile of random durations that plans assume.
    """

    returns_valid_slots: ClassVar[bool] = True

    conditions: Conditions
    rate: Rate
    fixed_slots: int
    threshold: float
    update_bits: int
    broadcast_slots: int
    uplink_scale: float
    uplink_gain: float = 1.0
    deadline: int = NO_DEADLINE
    model_bits: int = 0
    broadcast_scale: float = 0.0
    broadcast_gain: float = 1.0
    give_up_slots: int = 0
    group_size: int = 0
    quantile: float = 0.0

    def __post_init__(self) -> None:
        self.devices, self.coherence_slots = self.conditions.devices, self.conditions.coherence_slots
        self._tiles: dict[int, tuple[Floats, Integers]] = {}
        self._tile_blocks = max(1, _TILE // self.devices)
        self._place = np.zeros(1, dtype=np.int64)

    def tables(self, first_block: int, blocks: int) -> tuple[Floats, Integers]:
        """Return the SNR in dB and the bits of a slot of an uplink, [blocks, N] each."""
        snr = self.conditions.snr(first_block, blocks)
        return decibels(snr), self.uplink_bits(snr)

    @cached_property
    def draws(self) -> FadingDraws | None:
        """The numbers that uplinks are drawn from in compiled code; None if the fading is not drawn there."""
        if self.fixed_slots:
            thresholds = np.array([self.threshold])
            return self._draws(thresholds, self.uplink_bits(thresholds), 1.0, self.uplink_scale)
        return self._adaptive_draws(self.uplink_scale, self.uplink_gain)

    def _adaptive_draws(self, scale: float, gain: float) -> FadingDraws | None:
        """Return the numbers for a rate that adapts to the SNR times a gain."""
        rate = self.rate
        if isinstance(rate, Stepped):
            # A scheme holds from its threshold on, so these are the bits of the schemes.
            bits = whole_bits(rate.efficiency(rate.thresholds) * scale)
            return self._draws(rate.thresholds / gain, bits, 1.0, scale)
        if isinstance(rate, Shannon):
            return self._draws(np.empty(0), np.empty(0, dtype=np.int64), rate.gap / gain, scale)
        return None

    def _draws(self, thresholds: Floats, bits: Integers, gap: float, scale: float) -> FadingDraws | None:
        model = self.conditions
        if not isinstance(model, ModelConditions) or model.fading.drawn_as is None:
            return None
        numbers = (thresholds, bits, gap, scale)
        return FadingDraws(model.states(), model.mean_snr, *numbers, *model.fading.drawn_as)

    @cached_property
    def _follow_uplink(self) -> Follow | None:
        return self._compiled(self.draws)

    @cached_property
    def _follow_broadcast(self) -> Follow | None:
        return self._compiled(self._adaptive_draws(self.broadcast_scale, self.broadcast_gain))

    def _compiled(self, draws: FadingDraws | None) -> Follow | None:
        """Return `drawing_kernel.follow` of draws; None if tables are as fast, or nothing can be drawn."""
        if draws is None or self.devices < FEW or find_spec("numba") is None:
            return None
        from slotwise.schedule.drawing_kernel import follow  # noqa: PLC0415  (compiled code loads slowly)

        return partial(follow, draws)

    def planned_draws(self) -> FadingDraws | None:
        """Return the numbers that plans draw uplinks from; None where nothing is compiled."""
        if (
            self._follow_uplink is None
            or self.draws is None
            or not isinstance(self.conditions, ModelConditions)
        ):
            return None
        return self.draws._replace(states=self.conditions.states(planning=True))

    def uplink(self, device: int, slot: int, attempt: int) -> Transmission:  # noqa: ARG002
        """Return the slots of an uplink that starts in ``slot``, and whether it is lost.

        One that ends after the deadline ends too late in any case: how late is not found out.
        """
        fixed, each, start, missing = self.fixed_slots, self.coherence_slots, slot, self.update_bits
        if fixed and slot + fixed > self.deadline:
            return Transmission(fixed)
        end = slot + fixed if fixed else min(slot + self.give_up_slots, max(slot, self.deadline) + 1)
        if self._follow_uplink is not None:
            self._place[0] = device - 1
            slots = self._follow_uplink(self._place, slot, end, each, 0 if fixed else missing)
            if slots:
                return Transmission(abs(slots), lost=slots < 0)
        if fixed:
            return Transmission(fixed, lost=self._fails(device, slot, end))
        # Block after block, as `drawing_kernel.follow` does: both must give the same slots.
        while slot < end:
            block = slot // each
            span = min((block + 1) * each, end) - slot
            bits = int(self._block(block)[1][device - 1])
            if bits * span >= missing:
                return Transmission(slot - start - (-missing // bits))
            missing -= bits * span
            slot += span
        return Transmission(end - start, lost=True)

    def broadcast(self, receivers: Sequence[int], slot: int) -> int:
        """Return the slots of a broadcast: fixed, or at the rate of its worst receiver slot by slot."""
        if self.fixed_slots:
            return self.broadcast_slots
        if not len(receivers):
            return 1
        places, missing = np.array(receivers, dtype=np.int64) - 1, self.model_bits
        start, end, each = slot, slot + MOST_BROADCAST_SLOTS, self.coherence_slots
        if self._follow_broadcast is not None:
            slots = self._follow_broadcast(places, slot, end, each, missing)
            if slots:
                return abs(slots)
        # Most broadcasts end in their first block. For longer ones, blocks are drawn in growing numbers.
        first, rates = slot // each, self._worst(places, slot // each, 1)
        while slot < end:
            block = slot // each
            span = min((block + 1) * each, end) - slot
            if block - first >= len(rates):
                first, rates = block, self._worst(places, block, min(64, 4 * len(rates)))
            bits = rates[block - first]
            if bits * span >= missing:
                return slot - start - (-missing // bits)
            missing -= bits * span
            slot += span
        return MOST_BROADCAST_SLOTS

    def snr_db(self, slot: int) -> Floats:
        """Return the SNR of the uplink of every device in ``slot``, in dB."""
        return self._block(slot // self.conditions.coherence_slots)[0]

    def device_snr_db(self, device: int, slot: int) -> float:
        """Return the SNR of the uplink of one device in ``slot``, in dB."""
        place = np.array([device - 1])
        return float(decibels(self.conditions.snr(slot // self.coherence_slots, 1, places=place))[0, 0])

    @cached_property
    def planned_slots(self) -> Sequence[int]:
        """The quantile of each device's uplink slots, drawn from the distribution of its channel."""
        if self.fixed_slots:
            return (self.fixed_slots,) * self.devices
        return tuple(quantile_of(uplink_durations(self), self.quantile).tolist())

    @cached_property
    def planned_broadcast_slots(self) -> int:
        """The quantile of the slots of broadcasts to ``group_size`` devices chosen at random."""
        if self.fixed_slots:
            return self.broadcast_slots
        return int(quantile_of(broadcast_durations(self), self.quantile)[0])

    def uplink_bits(self, snr: Floats) -> Integers:
        """Return the bits that a slot of an uplink carries at linear SNRs.

        At a fixed rate a slot carries its share of the update, or nothing below the threshold.
        """
        if self.fixed_slots:
            share = -(-self.update_bits // self.fixed_slots)
            return np.where(snr >= self.threshold, share, 0).astype(np.int64)
        # Whole bits make sums over slots exact, so that every way to add them up ends in the same slot.
        return whole_bits(self.rate.efficiency(snr * self.uplink_gain) * self.uplink_scale)

    def broadcast_bits(self, snr: Floats) -> Integers:
        """Return the bits that a slot of a broadcast carries to devices with these SNRs of the uplink."""
        efficiency = self.rate.efficiency(snr * self.broadcast_gain)
        return whole_bits(efficiency * self.broadcast_scale)

    def _fails(self, device: int, slot: int, end: int) -> bool:
        """Return whether an uplink of fixed rate from ``slot`` to ``end`` is lost."""
        block, after = slot // self.coherence_slots, -(-end // self.coherence_slots)
        # Most uplinks are short, and other devices need the same blocks. Of a long one, the rest is drawn for
        # this device alone and in growing numbers, as the first block without bits ends it.
        short = min(after, block + _SHORT)
        if not all(self._block(number)[1][device - 1] for number in range(block, short)):
            return True
        block, count, place = short, _SHORT, np.array([device - 1])
        while block < after:
            count = min(4 * count, _TILE, after - block)
            if not self.uplink_bits(self.conditions.snr(block, count, places=place)).all():
                return True
            block += count
        return False

    def _worst(self, places: Integers, first_block: int, blocks: int) -> list[int]:
        """Return the bits that a slot of a broadcast carries to its worst receiver, block by block."""
        # The rate grows with the SNR, so the receiver with the lowest SNR has the lowest rate.
        snr = self.conditions.snr(first_block, blocks, places=places).min(axis=1)
        return [int(bits) for bits in self.broadcast_bits(snr)]

    def _block(self, block: int) -> tuple[Floats, Integers]:
        """Return SNR in dB and bits of an uplink of all devices in a block."""
        number, place = divmod(block, self._tile_blocks)
        tile = self._tiles.get(number)
        if tile is None:
            if len(self._tiles) >= _TILES_KEPT:
                # The oldest: a simulation asks for slots in ascending order.
                del self._tiles[next(iter(self._tiles))]
            snr = self.conditions.snr(number * self._tile_blocks, self._tile_blocks)
            tile = decibels(snr), self.uplink_bits(snr)
            self._tiles[number] = tile
        return tile[0][place], tile[1][place]


def whole_bits(bits: Floats) -> Integers:
    """Round down; more bits than any message has are as good as `MOST_BITS`, which fit an integer."""
    return np.floor(np.minimum(bits, MOST_BITS)).astype(np.int64)


# Durations that are drawn to plan with. They have the distribution of those that will happen and are not
# those: a plan that knew them in advance would know more than a server can.


def quantile_of(durations: Integers, quantile: float) -> Integers:
    """Return a quantile of each row of durations, in whole slots."""
    return np.quantile(durations, quantile, axis=1, method="inverted_cdf").astype(np.int64)


def _planned_snr(link: RadioLink, block: int, places: Integers | None = None) -> list[Floats]:
    """Return the SNRs of devices in a block of every sample; each starts PLANNED_BLOCKS after another."""
    starts = range(0, PLANNED_SAMPLES * PLANNED_BLOCKS, PLANNED_BLOCKS)
    return [link.conditions.snr(start + block, 1, places=places, planning=True)[0] for start in starts]


def uplink_durations(link: RadioLink) -> Integers:
    """Return slots of uplinks, [N, samples]; one that would be given up counts as long as that takes."""
    each, limit, draws = link.coherence_slots, link.give_up_slots, link.planned_draws()
    found: Integers = np.zeros((link.devices, PLANNED_SAMPLES), dtype=np.int64)
    if draws is not None:
        from slotwise.schedule.drawing_kernel import durations  # noqa: PLC0415  (compiled code loads slowly)

        found = durations(draws, PLANNED_SAMPLES, PLANNED_BLOCKS * each, each, link.update_bits)
    # What the draws do not tell: uplinks that take more blocks, or whose slots are decided by rounding.
    rest = np.flatnonzero((found <= 0).any(axis=1))

    def bits(block: int) -> Integers:
        return link.uplink_bits(np.stack(_planned_snr(link, block, rest), axis=1))

    if len(rest):
        found[rest] = _durations(bits, (len(rest), PLANNED_SAMPLES), link.update_bits, each, limit)
    return np.minimum(found, limit)


def broadcast_durations(link: RadioLink) -> Integers:
    """Return slots of broadcasts to ``group_size`` devices chosen at random, [1, samples]."""
    states = device_states(0, SchedulePurpose.PLANNED_FADING, link.devices)
    # The first of an order by random numbers: a group drawn without replacement.
    groups = [np.argsort(mixed_all(states, s))[: link.group_size] for s in range(PLANNED_SAMPLES)]

    def bits(block: int) -> Integers:
        rows = _planned_snr(link, block)
        worst = [row[group].min() for row, group in zip(rows, groups, strict=True)]
        return link.broadcast_bits(np.array([worst]))

    each = link.coherence_slots
    return _durations(bits, (1, PLANNED_SAMPLES), link.model_bits, each, PLANNED_BLOCKS * each)


def _durations(
    bits: Callable[[int], Integers], shape: tuple[int, int], total: int, each: int, limit: int
) -> Integers:
    """Return the slots until ``total`` bits are through, at ``bits(block)`` a slot, at most ``limit``."""
    missing, found = np.full(shape, total, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for block in range(PLANNED_BLOCKS):
        # A rate above ``total`` ends in one slot just as well, and its products might overflow.
        rate = np.minimum(bits(block), total)
        ends = (missing > 0) & (rate * each >= missing)
        found[ends] = block * each + -(-missing[ends] // rate[ends])
        missing = np.where(ends, 0, np.where(missing > 0, missing - rate * each, 0))
        if not missing.any() or (block + 1) * each >= limit:
            break
    # Uplinks that are not through yet go on at their mean rate so far, up to the limit.
    sent = total - missing
    slots = float((block + 1) * each * total) / np.maximum(sent, 1)
    late = missing > 0
    found[late] = np.minimum(np.ceil(slots[late]), limit).astype(np.int64)
    return np.minimum(found, limit)
