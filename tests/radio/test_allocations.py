"""Resource blocks of a group, against all ways to divide them and against closed forms of divisible bands."""

from itertools import product
from math import log2
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise import UserError
from slotwise.radio import Cqi, Group, Shannon, equal_blocks, inverse_rate, min_max
from slotwise.radio.allocations import allocated

SNR = st.lists(st.floats(0.01, 10_000.0), min_size=1, max_size=4)


def group_of(snr: list[float], blocks: int, rate: Any = None, *, full_power: bool = True) -> Group:
    numbers = range(1, len(snr) + 1)
    return Group(tuple(numbers), np.array(snr), 1000, blocks, rate or Shannon(), full_power, 100.0)


def slowest(group: Group, blocks: Any) -> float:
    return min(float(row[b - 1]) for row, b in zip(group.bits_per_slot, blocks, strict=True))


@given(snr=SNR, blocks=st.integers(4, 8), rate=st.sampled_from([Shannon(), Cqi()]))
def test_no_other_division_makes_the_slowest_device_faster(snr: list[float], blocks: int, rate: Any) -> None:
    group = group_of(snr, blocks, rate)
    found = min_max(group)
    assert found.min() >= 1
    assert found.sum() <= blocks
    alive = [place for place, row in enumerate(group.bits_per_slot) if row.max() > 0]
    ways = [way for way in product(range(1, blocks + 1), repeat=len(snr)) if sum(way) <= blocks]
    living = group_of([snr[place] for place in alive], blocks, rate)
    if alive:
        best = max(slowest(living, [way[place] for place in alive]) for way in ways)
        assert slowest(living, found[alive]) == best


def bisected(snr: list[float]) -> float:
    """The rate that all devices reach on a band that can be divided at will: bisection on the rate."""

    def share(one: float, rate: float) -> float:
        low, high = 1e-9, 1.0  # the rate of a share grows with it
        if high * log2(1 + one) < rate:
            return 2.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (low, middle) if middle * log2(1 + one / middle) >= rate else (middle, high)
        return high

    low, high = 0.0, log2(1 + max(snr))
    for _ in range(80):
        middle = (low + high) / 2
        fits = sum(share(one, middle) for one in snr) <= 1
        low, high = (middle, high) if fits else (low, middle)
    return low


@pytest.mark.parametrize("snr", [[1.0, 10.0], [0.5, 3.0, 200.0], [7.0] * 4])
def test_with_many_blocks_all_devices_end_at_the_same_time(snr: list[float]) -> None:
    blocks = 10_000
    group = group_of(snr, blocks)
    found = min_max(group)
    rates = [row[b - 1] / 100 for row, b in zip(group.bits_per_slot, found, strict=True)]
    assert rates == pytest.approx([bisected(snr)] * len(snr), rel=2e-3)
    assert found.sum() == blocks


@given(snr=st.lists(st.floats(1.0, 100.0), min_size=2, max_size=5))
def test_at_equal_power_density_inverse_rates_are_the_min_max(snr: list[float]) -> None:
    group = group_of(snr, 10_000, full_power=False)
    carried = [
        [row[b - 1] for row, b in zip(group.bits_per_slot, blocks, strict=True)]
        for blocks in (inverse_rate(group), min_max(group))
    ]
    rate = 100 / sum(1 / log2(1 + one) for one in snr)  # all on a band that can be divided at will
    assert carried[0] == pytest.approx([rate] * len(snr), rel=0.01)
    assert carried[1] == pytest.approx([rate] * len(snr), rel=0.01)


def test_equal_blocks_are_those_of_the_first_devices_where_they_do_not_divide() -> None:
    assert equal_blocks(group_of([1.0] * 3, 11)).tolist() == [4, 4, 3]


def test_a_device_without_a_rate_keeps_one_block() -> None:
    assert min_max(group_of([1e-9, 5.0], 6, Cqi())).tolist()[0] == 1
    assert inverse_rate(group_of([1e-9, 5.0], 6, Cqi())).tolist() == [5, 1]


@pytest.mark.parametrize("blocks", [[1], [0, 2], [1.5, 1], [3, 2], "ab", None, [1, float("nan")]])
def test_answers_of_an_own_allocation_are_checked(blocks: Any) -> None:
    with pytest.raises(UserError, match=r"^allocation .*: blocks must be"):
        allocated(lambda _: blocks, group_of([1.0, 2.0], 4))


def nothing_known(_: Group) -> list[float]:
    return [float("nan")] * 2


def test_a_refused_allocation_names_the_function_and_what_it_returned() -> None:
    wrong = rf"^allocation {__name__}:nothing_known: blocks must be 2 finite .*; returned \[nan, nan\]$"
    with pytest.raises(UserError, match=wrong):
        allocated(nothing_known, group_of([1.0, 2.0], 4))


@pytest.mark.parametrize("power", [[0.0, 1.0], [1.0, 2.0], [1.0]])
def test_powers_of_an_own_allocation_are_checked(power: Any) -> None:
    with pytest.raises(UserError, match=r"^allocation .*: powers must be"):
        allocated(lambda _: ([1, 1], power), group_of([1.0, 2.0], 4))
