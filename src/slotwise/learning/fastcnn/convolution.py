"""Convolution, max-pool 2 and relu of eight samples in one pass.

    pooled[p, o] = relu(max over the four q in window p of (bias[o] + sum over t of filter[o, t] * input[q + t]))

The eight samples are the lanes of a vector, so every multiply-add below is eight. One window and two output
channels are eight sums that stay in registers; each tap then takes four loads of inputs and two of weights for
eight multiply-adds, which is what keeps the two multiply-add units of a core busy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.learning.fastcnn.vectors import (
    LANES,
    Vector,
    broadcast,
    compiled,
    load,
    multiply_add,
    repeat,
    store,
    where_greater,
)

Floats = NDArray[np.float32]


@compiled
def pack_filters(layer: Any, weights: Floats, packed: Floats) -> None:
    """Copy filters to [pair of outputs, tap, output of the pair]; the partner of an odd last one is zero."""
    row = layer.kernel * layer.channels
    padded_row = (row + LANES - 1) // LANES * LANES
    for output in range(layer.filters + layer.filters % 2):
        start = output // 2 * 2 * layer.taps + output % 2
        for tap in range(layer.taps):
            at = output * layer.pieces * LANES + tap // row * padded_row + tap % row
            packed[start + 2 * tap] = weights[at] if output < layer.filters else np.float32(0)


@compiled
def convolve(
    layer: Any, steps: Any, packed: Floats, bias: Floats, inputs: Floats, pooled: Floats, winners: Floats
) -> None:
    """Fill `pooled` and `winners` (where in its window each maximum was), all as lanes."""
    right, down = LANES * layer.channels, LANES * layer.channels * layer.width
    taps, filters = layer.taps, layer.filters
    for row in range(layer.pooled_height):
        for column in range(layer.pooled_width):
            corner = 2 * row * down + 2 * column * right
            window = (row * layer.pooled_width + column) * filters
            for output in range(0, filters, 2):
                a00 = a01 = a10 = a11 = broadcast(bias, output)
                b00 = b01 = b10 = b11 = broadcast(bias, output + 1)
                weight = output * taps
                for tap in range(taps):
                    at = corner + steps[tap]
                    x00, x01 = load(inputs, at), load(inputs, at + right)
                    x10, x11 = load(inputs, at + down), load(inputs, at + down + right)
                    a, b = broadcast(packed, weight), broadcast(packed, weight + 1)
                    weight += 2
                    a00, a01 = multiply_add(a, x00, a00), multiply_add(a, x01, a01)
                    a10, a11 = multiply_add(a, x10, a10), multiply_add(a, x11, a11)
                    b00, b01 = multiply_add(b, x00, b00), multiply_add(b, x01, b01)
                    b10, b11 = multiply_add(b, x10, b10), multiply_add(b, x11, b11)
                at = LANES * (window + output)
                pool(layer, a00, a01, a10, a11, pooled, winners, at)
                if output + 1 < filters:
                    pool(layer, b00, b01, b10, b11, pooled, winners, at + LANES)


@compiled
def pool(
    layer: Any, x00: Vector, x01: Vector, x10: Vector, x11: Vector, pooled: Floats, winners: Floats, at: int
) -> None:
    """Keep relu of the greatest of four, and its place: the first in reading order if several are equal."""
    zero = repeat(np.float32(0))
    right, down = repeat(np.float32(layer.channels)), repeat(np.float32(layer.channels * layer.width))
    down_right = repeat(np.float32(layer.channels * layer.width + layer.channels))
    upper, upper_place = where_greater(x01, x00, x01, x00), where_greater(x01, x00, right, zero)
    lower, lower_place = where_greater(x11, x10, x11, x10), where_greater(x11, x10, down_right, down)
    greatest = where_greater(lower, upper, lower, upper)
    store(winners, at, where_greater(lower, upper, lower_place, upper_place))
    store(pooled, at, where_greater(zero, greatest, zero, greatest))
