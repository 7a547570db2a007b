"""Allocations: how many resource blocks each device of an OFDMA group gets.

An allocation is one function, and its line in `ALLOCATIONS`. It sees a `Group` and returns the blocks of each
device, or a pair of blocks and powers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from slotwise.base.errors import UserError, shown
from slotwise.base.random_streams import Floats
from slotwise.base.user_code import described_function, user_errors
from slotwise.options import Choice
from slotwise.radio.rates import Rate
from slotwise.schedule.link import Allocated

Integers = NDArray[np.int64]
LEAST_RATE = 1e-6  # of the best of a group; lower ones count as that for `inverse_rate`


@dataclass(frozen=True, eq=False)
class Group:
    """Devices that begin to send together, as an allocation sees them; entry i of arrays is devices[i].

    Attributes:
        devices: Numbers of the devices, in the order in which they were chosen.
        snr: Linear SNR of each in the first slot, on the whole band at its whole power.
        bits: Bits of an update.
        blocks: Resource blocks of the band.
        rate: Bits per second and hertz at an SNR.
        full_power: True if a device concentrates its whole power on its blocks, False if it sends with the
            part of it that they are of the band.
        scale: Bits that the whole band carries in a slot at 1 bit/s/Hz.
    """

    devices: Sequence[int]
    snr: Floats
    bits: int
    blocks: int
    rate: Rate
    full_power: bool
    scale: float

    @cached_property
    def bits_per_slot(self) -> Floats:
        """Bits that a slot carries at the SNR of the first one: entry [i, b−1] is device i with b blocks."""
        share = np.arange(1, self.blocks + 1) / self.blocks
        power = 1.0 if self.full_power else share
        bits: Floats = self.rate.efficiency(self.snr[:, None] * (power / share)) * (share * self.scale)
        return bits

    def with_blocks(self, blocks: Any) -> Allocated:
        """Return these blocks with the power that each device has on its own."""
        integers = np.array(blocks, dtype=np.int64)
        return Allocated(integers, np.ones(len(integers)) if self.full_power else integers / self.blocks)


class Allocation(Protocol):
    """Function that divides the resource blocks of the band among the devices of a group.

    It returns a whole number of blocks for each device, at least 1 and together at most ``group.blocks``; or
    a pair of these and of powers, each above 0 and at most 1. It must depend on nothing else.
    """

    def __call__(self, group: Group, /) -> Any: ...  # noqa: D102


def equal_blocks(group: Group) -> Integers:
    """Return the same blocks for all; those that are left go to the first devices, one each."""
    each, left = divmod(group.blocks, len(group.devices))
    return np.full(len(group.devices), each) + (np.arange(len(group.devices)) < left)


def inverse_rate(group: Group) -> Integers:
    """Return one block for each, and the others in proportion to the inverse rate on the whole band.

    What is not whole goes to the largest remainders, first devices first. At equal power density all end at
    the same time, up to a block.
    """
    rate = group.rate.efficiency(group.snr)
    weight = 1 / np.maximum(rate, max(rate.max() * LEAST_RATE, 1e-300))
    ideal = (group.blocks - len(weight)) * (weight / weight.sum())
    blocks = np.floor(ideal).astype(np.int64)
    left = group.blocks - len(weight) - int(blocks.sum())
    blocks[np.argsort(blocks - ideal, kind="stable")[:left]] += 1
    more: Integers = blocks + 1
    return more


def min_max(group: Group) -> Integers:
    """Return the blocks with which the slowest device takes the shortest time, judged by the first slot.

    With a band that can be divided at will, all devices then end at the same time (Yang, Chen, Saad, Hong,
    Shikh-Bahaei, Poor and Cui, arXiv 2007.03462). In whole blocks the greedy procedure is exact (Federgruen
    and Groenevelt, Oper. Res. 34(6), 1986): each device gets a block, and every further one goes to the
    device that is slowest so far. That are the steps from b to b + 1 blocks with the lowest rates at b.
    If no device reaches any rate, all get the same.
    """
    # More blocks never help less: where fewer of them carry more, the others stay unused.
    rates = np.maximum.accumulate(group.bits_per_slot, axis=1)
    if not rates.any():
        return equal_blocks(group)
    # A device that reaches no rate at all keeps one block.
    steps = np.where(rates[:, -1:] > 0, rates, np.inf)[:, :-1]
    blocks, left = np.ones(len(rates), dtype=np.int64), group.blocks - len(rates)
    if left and steps.size:
        last = np.partition(steps, left - 1, axis=None)[left - 1]  # the highest rate among the steps taken
        blocks += (steps < last).sum(axis=1)
        equal = np.flatnonzero(steps == last)[: left + len(rates) - int(blocks.sum())]
        blocks += np.bincount(equal // (group.blocks - 1), minlength=len(rates))
    if np.array_equal(rates, group.bits_per_slot):
        return blocks
    return np.array([np.argmax(row[:most]) + 1 for row, most in zip(rates, blocks, strict=True)])


ALLOCATIONS: Mapping[str, Any] = {"equal": equal_blocks, "inverse-rate": inverse_rate, "min-max": min_max}
ALLOCATION = Choice("allocation", ALLOCATIONS, own=(1, 2))


def allocated(allocation: Allocation, group: Group) -> Allocated:
    """Return what an allocation gives to a group.

    Raises:
        UserError: the function is the user's, and its answer is not allowed.
    """
    name = described_function("allocation", allocation)
    with user_errors(name, anywhere=False):
        answer: Any = allocation(group)
    if allocation in ALLOCATIONS.values():
        return group.with_blocks(answer)
    blocks, power = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    blocks = _numbers(f"{name}: blocks", blocks, group)
    if (blocks != np.floor(blocks)).any() or blocks.min() < 1 or blocks.sum() > group.blocks:
        raise UserError(
            f"{name}: blocks must be whole numbers of at least 1, together at most {group.blocks}; "
            f"they are {blocks.tolist()}"
        )
    given = group.with_blocks(blocks)
    if power is None:
        return given
    power = _numbers(f"{name}: powers", power, group)
    if power.min() <= 0 or power.max() > 1:
        raise UserError(f"{name}: powers must be above 0 and at most 1; they are {power.tolist()}")
    return given._replace(power=power)


def _numbers(what: str, values: Any, group: Group) -> Floats:
    """Return one finite number for each device."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.shape != (len(group.devices),) or not np.isfinite(numbers).all():
        wanted = f"{len(group.devices)} finite numbers, one for each device"
        raise UserError(f"{what} must be {wanted}; returned {shown(values)}")
    return numbers
