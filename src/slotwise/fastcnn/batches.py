"""Mini-batches of many local trainings in one call, without the interpreter lock.

The numbers are those of numpy's ``Generator(Philox(key, counter)).permuted``, which
`slotwise.learning.randomness.draw_batches` calls: Philox 4x64 with 10 rounds (Salmon, Moraes, Dror and Shaw,
"Parallel random numbers: as easy as 1, 2, 3", SC 2011), bounded by a mask and rejection, shuffled from the
last place to the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from slotwise.fastcnn.vectors import INT64, SOURCES, Builder, compiled, entry, inlined, instruction

Numbers = NDArray[np.int64]
Words = NDArray[np.uint64]

FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
FIRST_STEP, SECOND_STEP = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
ROUNDS = 10
ONE, HALF, LOW = np.uint64(1), np.uint64(32), np.uint64(0xFFFFFFFF)
# Places in the state of a stream: key, counter, four words drawn, how many of their eight halves are used.
KEY, COUNTER, DRAWN, USED, STATE = 0, 2, 6, 10, 11
HALVES = np.uint64(8)


@instruction(types.uint64, types.uint64, types.uint64)
def high_product(builder: Builder, one: Any, other: Any) -> Any:
    """Return the upper 64 bits of a product of 128."""
    wide = ir.IntType(128)
    product = builder.mul(builder.zext(one, wide), builder.zext(other, wide))
    return builder.trunc(builder.lshr(product, wide(64)), INT64)


@compiled
def next_words(stream: Words) -> None:
    """Advance the counter and draw four words."""
    # numpy advances the counter before it draws, so the first words are those of counter 1.
    stream[COUNTER] += ONE  # never carries: no training draws 2**64 numbers
    a, b, c, d = stream[COUNTER], stream[COUNTER + 1], stream[COUNTER + 2], stream[COUNTER + 3]
    first, second = stream[KEY], stream[KEY + 1]
    for _ in range(ROUNDS):
        high_a, low_a = high_product(FIRST_FACTOR, a), FIRST_FACTOR * a
        high_c, low_c = high_product(SECOND_FACTOR, c), SECOND_FACTOR * c
        a, b, c, d = high_c ^ b ^ first, low_c, high_a ^ d ^ second, low_a
        first, second = first + FIRST_STEP, second + SECOND_STEP
    stream[DRAWN], stream[DRAWN + 1], stream[DRAWN + 2], stream[DRAWN + 3] = a, b, c, d
    stream[USED] = np.uint64(0)


@inlined
def next_half(stream: Words) -> Any:
    """Return the next 32 bits, the lower half of a word first."""
    if stream[USED] == HALVES:
        next_words(stream)
    used = stream[USED]
    stream[USED] = used + ONE
    # An unsigned index spares numba's test for negative ones.
    word = stream[np.uintp(DRAWN + np.int64(used >> ONE))]
    return word >> HALF if used & ONE else word & LOW


@compiled
def up_to(stream: Words, highest: Any, mask: Any) -> Any:
    """Return a number from 0 to highest: the first drawn within the mask that is not above it."""
    found = next_half(stream) & mask
    while found > highest:
        found = next_half(stream) & mask
    return found


@entry
def draw_each(
    rows: NDArray[np.int32], offsets: Numbers, seed: Any, purpose: Any, jobs: Numbers, chosen: Numbers,
    _sources: str = SOURCES,
) -> None:  # fmt: skip
    """Fill chosen[job, step, place] with rows of the job's device, each step without replacement.

    Device n has rows[offsets[n - 1] : offsets[n]]. ``jobs`` is [job, 2]: device and training.
    """
    _, steps, places = chosen.shape
    stream = np.zeros(STATE, np.uint64)
    for job in range(len(jobs)):
        device, training = jobs[job]
        stream[KEY], stream[KEY + 1] = seed, purpose
        stream[COUNTER], stream[COUNTER + 1] = np.uint64(0), np.uint64(0)
        stream[COUNTER + 2], stream[COUNTER + 3] = np.uint64(device), np.uint64(training)
        # Words of the job before must not be used: the first draw computes new ones.
        stream[USED] = HALVES
        own = rows[offsets[device - 1] : offsets[device]]
        for step in range(steps):
            # Each step shuffles the samples in their first order, as numpy does with every row of a table.
            order = own.copy()
            mask = LOW
            # The first places are final only when the shuffle ends, so it cannot stop at the batch size.
            for place in range(len(order) - 1, 0, -1):
                highest = np.uint64(place)
                # `highest` only falls, so the smallest mask that covers it comes from the last one.
                while mask >> ONE >= highest:
                    mask >>= ONE
                other = np.uintp(up_to(stream, highest, mask))
                order[place], order[other] = order[other], order[place]
            for place in range(places):
                chosen[job, step, place] = order[place]
