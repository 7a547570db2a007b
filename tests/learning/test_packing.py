"""Packed numbers: as many bits as the plan counts, and not a bit of the update lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from slotwise.learning import quantisation
from slotwise.learning.quantisation import Packing, link_slots_of, quantise, quantise_arrays

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
PARTS = st.lists(arrays(np.float32, st.integers(0, 30), elements=FINITE), min_size=1, max_size=4).filter(
    lambda parts: any(len(part) for part in parts)
)
BITS = st.integers(2, 31)


def quantised(parts, bits, seed=0):
    draw = np.random.default_rng(seed)
    return np.concatenate([quantise(part, bits, draw) for part in parts])


def packing_for(parts, bits):
    return Packing(np.cumsum([len(part) for part in parts], dtype=np.int64), bits)


@given(parts=PARTS, bits=BITS, seed=st.integers(0, 5))
def test_what_is_unpacked_is_what_was_quantised_to_the_bit(parts, bits, seed):
    update, own = quantised(parts, bits, seed), packing_for(parts, bits)
    assert own.unpack(own.pack(update)).tobytes() == update.tobytes()


@given(parts=PARTS, bits=BITS)
def test_an_update_takes_the_bits_that_the_plan_counts(parts, bits):
    update, own = quantised(parts, bits), packing_for(parts, bits)
    planned_bytes = link_slots_of(len(update), bits, bits_per_slot=8, arrays=len(parts))
    assert len(own.pack(update)) == own.size == planned_bytes


@pytest.mark.parametrize("bits", [2, 3, 8, 16, 31])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_long_updates_are_packed_block_by_block(monkeypatch, bits, more):
    monkeypatch.setattr(quantisation, "BLOCK", 64)
    numbers = np.random.default_rng(1).normal(size=3 * 64 + more).astype(np.float32)
    update, own = quantised([numbers], bits), packing_for([numbers], bits)
    assert own.unpack(own.pack(update)).tobytes() == update.tobytes()


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_do_not_become_finite_on_the_way(odd):
    update = np.array([1, odd, 2], dtype=np.float32)
    own = packing_for([update], 8)
    assert not np.isfinite(own.unpack(own.pack(update))).any()


@given(arrays(np.uint8, 4 + 5))
def test_any_bytes_of_the_right_number_are_unpacked(noise):
    assert len(Packing(np.array([5], dtype=np.int64), 8).unpack(noise.tobytes())) == 5


@pytest.mark.parametrize("bits", quantisation.WHOLE_BYTES)
def test_whole_bytes_are_the_same_as_bit_by_bit(monkeypatch, bits):
    numbers = np.random.default_rng(2).normal(size=100).astype(np.float32)
    update, own = quantised([numbers], bits), packing_for([numbers], bits)
    packed = own.pack(update)
    monkeypatch.setattr(quantisation, "WHOLE_BYTES", {})
    assert own.pack(update) == packed
    assert own.unpack(packed).tobytes() == update.tobytes()


@given(parts=PARTS, bits=BITS, seed=st.integers(0, 5), odd=st.sampled_from([0.0, np.nan, np.inf]))
def test_arrays_are_quantised_together_as_one_by_one(parts, bits, seed, odd):
    for last in (parts, [*parts, np.full(3, odd, np.float32)]):
        ends = np.cumsum([len(part) for part in last], dtype=np.int64)
        together = quantise_arrays(np.concatenate(last), ends, bits, np.random.default_rng(seed))
        assert together.tobytes() == quantised(last, bits, seed).tobytes()
