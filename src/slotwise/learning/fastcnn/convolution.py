"""Convolution, max-pool 2 and relu of eight samples in one pass.

    pooled[p, o] = relu(max over the four q in window p of (bias[o] + sum over t of w[o, t] * input[q + t]))

The eight samples are the lanes of a vector, so every multiply-add below is eight. One window and three output
channels are twelve sums that stay in registers; each tap takes four loads of inputs and three of weights for
twelve multiply-adds, which is what keeps the two multiply-add units of a core busy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.learning.fastcnn.compilation import compiled, inlined
from slotwise.learning.fastcnn.plan import LANES
from slotwise.learning.fastcnn.tiles import Tile, window_add
from slotwise.learning.fastcnn.vectors import (
    Vector,
    broadcast,
    repeat,
    store,
    store_whole,
    where_greater,
)

Floats = NDArray[np.float32]
Steps = NDArray[np.int64]
Places = NDArray[np.int32]


@inlined
def group_size(filters: int, output: int) -> int:
    """How many outputs to work on together from this one on: three, or two so that none is left alone."""
    left = filters - output
    return 3 if left == 3 or left > 4 else 2


@compiled
def pack_filters(layer: Any, weights: Floats, packed: Floats) -> None:
    """Copy filters to [group of outputs, tap, output of the group]."""
    row = layer.kernel * layer.channels
    first = 0
    while first < layer.filters:
        size = group_size(layer.filters, first)
        for output in range(first, min(first + size, layer.filters)):
            target = first * layer.taps + output - first
            for kernel_row in range(layer.kernel):
                start = output * layer.pieces * LANES + kernel_row * layer.padded_row
                for tap in range(start, start + row):
                    packed[np.uintp(target)] = weights[np.uintp(tap)]
                    target += size
        first += size


@compiled
def convolve(
    layer: Any, steps: Steps, packed: Floats, bias: Floats, inputs: Floats, pooled: Floats, winners: Places
) -> None:
    """Fill `pooled`, and `winners`: how far from the corner of its window each maximum was."""
    taps, filters, channels = layer.taps, layer.filters, layer.channels
    right, down = LANES * channels, LANES * channels * layer.width
    places = window_places(channels, channels * layer.width)
    at = 0
    for row in range(layer.pooled_height):
        for column in range(layer.pooled_width):
            corner = 2 * row * down + 2 * column * right
            output = 0
            while output < filters:
                size = group_size(filters, output)
                weight = output * taps
                a, b, c = broadcast(bias, output), broadcast(bias, output + 1), broadcast(bias, output + 2)
                if size == 3:
                    three = (a, a, a, a, b, b, b, b, c, c, c, c)
                    for tap in range(taps):
                        step = corner + steps[np.uintp(tap)]
                        three = window_add(three, packed, weight + 3 * tap, inputs, step, right, down)
                    pool(three[0], three[1], three[2], three[3], places, pooled, winners, at)
                    pool(three[4], three[5], three[6], three[7], places, pooled, winners, at + LANES)
                    pool(three[8], three[9], three[10], three[11], places, pooled, winners, at + 2 * LANES)
                else:
                    two = (a, a, a, a, b, b, b, b)
                    for tap in range(taps):
                        step = corner + steps[np.uintp(tap)]
                        two = window_add(two, packed, weight + 2 * tap, inputs, step, right, down)
                    pool(two[0], two[1], two[2], two[3], places, pooled, winners, at)
                    if filters > 1:
                        pool(two[4], two[5], two[6], two[7], places, pooled, winners, at + LANES)
                output += size
                at += LANES * min(size, filters)


@inlined
def window_places(right: int, down: int) -> Tile:
    """Distance of the four positions of a window from its corner, in rows."""
    return (
        repeat(np.float32(0)),
        repeat(np.float32(right)),
        repeat(np.float32(down)),
        repeat(np.float32(down + right)),
    )


@compiled
def pool(
    here: Vector,
    right: Vector,
    below: Vector,
    below_right: Vector,
    places: Tile,
    pooled: Floats,
    winners: Places,
    at: int,
) -> None:
    """Keep relu of the greatest of four, and its place: the first in reading order if several are equal."""
    upper = where_greater(right, here, right, here)
    upper_place = where_greater(right, here, places[1], places[0])
    lower = where_greater(below_right, below, below_right, below)
    lower_place = where_greater(below_right, below, places[3], places[2])
    greatest = where_greater(lower, upper, lower, upper)
    zero = repeat(np.float32(0))
    store(pooled, at, where_greater(zero, greatest, zero, greatest))
    store_whole(winners, at, where_greater(lower, upper, lower_place, upper_place))
