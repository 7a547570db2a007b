"""Batches drawn by the kernels are those that numpy draws."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slotwise.fastcnn.batches import draw_each
from slotwise.learning.randomness import LARGEST_SEED, Purpose, draw_batches


@settings(deadline=None)
@given(
    seed=st.integers(0, LARGEST_SEED),
    counts=st.lists(st.integers(1, 300), min_size=1, max_size=4),
    trainings=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2**40)), min_size=1, max_size=5),
    steps=st.integers(1, 6),
    batch=st.integers(1, 70),
)
def test_it_draws_what_numpy_draws(
    seed: int, counts: list[int], trainings: list[tuple[int, int]], steps: int, batch: int
) -> None:
    offsets = np.cumsum([0, *counts])
    rows = np.arange(offsets[-1], dtype=np.int32)[::-1].copy()
    size = min(batch, *counts)
    jobs = [(1 + (device - 1) % len(counts), training) for device, training in trainings]
    chosen = np.empty((len(jobs), steps, size), dtype=np.int64)
    draw_each(rows, offsets, np.uint64(seed), np.uint64(Purpose.BATCHES), np.array(jobs), chosen)
    for (device, training), found in zip(jobs, chosen, strict=True):
        own = rows[offsets[device - 1] : offsets[device]]
        np.testing.assert_array_equal(found, own[draw_batches(seed, device, training, len(own), steps, size)])
