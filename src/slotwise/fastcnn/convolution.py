"""Convolution, max-pool 2 and relu of eight samples in one pass.

    pooled[p, o] = relu(max over the four q in window p of (bias[o] + sum over t of w[o, t] * input[q + t]))

The eight samples are the lanes of a vector, so every multiply-add below is eight. With AVX-512 a vector of
the forward pass has two output channels. One window and three vectors of outputs are twelve sums that stay in
registers; each tap takes four loads of inputs and three of weights for twelve multiply-adds, which is what
keeps the two multiply-add units of a core busy.

Gradients are computed only where they are not zero: of four convolution outputs max-pool lets one through,
and relu stops about half of those. The rest is listed first, without zeros, then processed:

- gradient of a filter: for one output, the list of all patches (of all samples) it was let through at, each
  with an amount; filter gradient += amount * patch.
- gradient of the inputs: for one window of one sample, the list of filters let through there, each with an
  amount; input gradient under the window += amount * filter, moved to where in the window it won.

Both run over neighbouring values of one sample, channels last, eight at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn.architecture import LANES
from slotwise.fastcnn.instructions import append_filters, append_places
from slotwise.fastcnn.vectors import (
    OUTPUTS,
    Tile,
    address,
    broadcast,
    compiled,
    gather_add,
    inlined,
    load,
    load_steps,
    load_tile,
    repeat,
    repeat_outputs,
    scaled_add,
    store,
    store_outputs,
    store_tile,
    store_whole_outputs,
    where_greater,
    wide_repeat,
    window_add,
)

Floats = NDArray[np.float32]
Steps = NDArray[np.int64]
Places = NDArray[np.int32]


@inlined
def group_size(filters: int, output: int) -> int:
    """Return how many outputs to process together: three vectors, or two so that no single one is left."""
    left = (filters - output + OUTPUTS - 1) // OUTPUTS
    return OUTPUTS * (3 if left == 3 or left > 4 else 2)


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
                    # Unsigned indices spare numba's test for negative ones.
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
    # Distances of the four positions of a window from its corner, in rows.
    # They are floats because `pool` selects floats; whole numbers below 2**24 are exact.
    places = (
        wide_repeat(np.float32(0)),
        wide_repeat(np.float32(channels)),
        wide_repeat(np.float32(channels * layer.width)),
        wide_repeat(np.float32(channels * layer.width + channels)),
    )
    at = 0
    for row in range(layer.pooled_height):
        for column in range(layer.pooled_width):
            corner = 2 * row * down + 2 * column * right
            output = 0
            while output < filters:
                size = group_size(filters, output)
                weight = output * taps
                # Past the last bias, b and c are not used, or for an output that does not exist, see below.
                a, b = repeat_outputs(bias, output), repeat_outputs(bias, output + OUTPUTS)
                c = repeat_outputs(bias, output + 2 * OUTPUTS)
                here = at + LANES * output
                # The length of a tile is part of its type, so groups of three and of two have their own code.
                if size == 3 * OUTPUTS:
                    three = (a, a, a, a, b, b, b, b, c, c, c, c)
                    for tap in range(taps):
                        step = corner + steps[np.uintp(tap)]
                        three = window_add(three, packed, weight + size * tap, inputs, step, right, down)
                    pool(three[:4], places, pooled, winners, here)
                    pool(three[4:8], places, pooled, winners, here + LANES * OUTPUTS)
                    pool(three[8:], places, pooled, winners, here + 2 * LANES * OUTPUTS)
                else:
                    two = (a, a, a, a, b, b, b, b)
                    for tap in range(taps):
                        step = corner + steps[np.uintp(tap)]
                        two = window_add(two, packed, weight + size * tap, inputs, step, right, down)
                    pool(two[:4], places, pooled, winners, here)
                    # A single vector of filters is computed as a group of two, whose second does not exist.
                    if filters > OUTPUTS:
                        pool(two[4:], places, pooled, winners, here + LANES * OUTPUTS)
                output += size
            # With an odd number of filters, the last vector also stored an output that does not exist, where
            # the first one of the next window is stored after it, or padding.
            at += LANES * filters


@compiled
def pool(window: Tile, places: Tile, pooled: Floats, winners: Places, at: int) -> None:
    """Keep relu of the greatest of four, and its place: the first in reading order if several are equal."""
    here, right, below, below_right = window
    upper = where_greater(right, here, right, here)
    upper_place = where_greater(right, here, places[1], places[0])
    lower = where_greater(below_right, below, below_right, below)
    lower_place = where_greater(below_right, below, places[3], places[2])
    greatest = where_greater(lower, upper, lower, upper)
    zero = wide_repeat(np.float32(0))
    # The test is zero > maximum, which is false for NaN, so that relu does not hide it.
    store_outputs(pooled, at, where_greater(zero, greatest, zero, greatest))
    store_whole_outputs(winners, at, where_greater(lower, upper, lower_place, upper_place))


@compiled
def list_patches(
    layer: Any, output: int, errors: Floats, winners: Places, patches: Places, amounts: Floats
) -> int:
    """List where one output has an error, as corners of patches in rows; return how many there are."""
    stride, filters, channels = layer.input_stride, layer.filters, layer.channels
    at = LANES * output
    count = 0
    for row in range(layer.pooled_height):
        corner = 2 * row * layer.width * channels
        for _ in range(layer.pooled_width):
            count = append_places(patches, amounts, count, winners, errors, at, corner, stride)
            at += LANES * filters
            corner += 2 * channels
    return count


@compiled
def add_filter_gradient(
    layer: Any, steps: Steps, patches: Places, amounts: Floats, count: int, rows: Floats, gradient: Floats
) -> None:
    """Add the listed patches, each times its amount, to the gradient of one filter."""
    zero = repeat(np.float32(0))
    for piece in range(0, layer.pieces, layer.tile):
        if layer.tile == 5:
            five = (zero, zero, zero, zero, zero)
            _add_patches(five, piece, steps, patches, amounts, count, rows, gradient)
        else:
            eight = (zero, zero, zero, zero, zero, zero, zero, zero)
            _add_patches(eight, piece, steps, patches, amounts, count, rows, gradient)


@compiled
def _add_patches(
    like: Tile, piece: int, steps: Steps, patches: Places, amounts: Floats, count: int,
    rows: Floats, gradient: Floats,
) -> None:  # fmt: skip
    """Do `add_filter_gradient` for as many pieces of the filter as `like` has vectors."""
    tile_steps = load_steps(steps, piece, like)
    total = load_tile(gradient, LANES * piece, LANES, like)
    # The sums stay in registers for the whole list: a piece of a patch is one load and one multiply-add.
    for number in range(count):
        total = gather_add(total, broadcast(amounts, number), rows, address(patches, number), tile_steps)
    store_tile(gradient, LANES * piece, LANES, total)


@compiled
def shift_filters(layer: Any, weights: Floats, shifted: Floats) -> None:
    """Copy filters to [kernel row, 0 or 1 columns to the right, output, column and channel].

    A row of zeros stays before the first kernel row and after the last, so that a filter can also be moved
    down by one: added to kernel + 1 rows of inputs, one of them is zero.
    """
    for kernel_row in range(layer.kernel):
        for right in range(2):
            for output in range(layer.filters):
                source = output * layer.pieces * LANES + kernel_row * layer.padded_row
                target = (((kernel_row + 1) * 2 + right) * layer.filters + output) * layer.span
                # The last vector may reach past the span, into the next filter. It writes zeros there, the
                # padding of the row, and the next filter is stored after it.
                for number in range(0, layer.padded_row, LANES):
                    store(shifted, target + right * layer.channels + number, load(weights, source + number))


@compiled
def list_filters(
    layer: Any, errors: Floats, winners: Places, moved: Places, amounts: Floats, ends: Places
) -> None:
    """List the filters that have an error, for every sample window by window, as starts in `shifted`.

    The list of window p and sample s goes from number ends[8 * p + s] to before ends[8 * (p + 1) + s].
    """
    down, filters, span = layer.width * layer.channels, layer.filters, layer.span
    windows = layer.pooled_height * layer.pooled_width
    # Each list has room for all filters of all windows, and for the entries written after its end.
    for sample in range(LANES):
        ends[sample] = sample * (windows * filters + LANES)
    for window in range(windows):
        here = ends[LANES * (window + 1) :]
        # A list continues where it ended in the window before.
        for sample in range(LANES):
            here[sample] = ends[LANES * window + sample]
        for first in range(0, filters, LANES):
            at, left = LANES * (window * filters + first), filters - first
            step = filters * span
            append_filters(moved, amounts, here, winners, errors, at, left, first * span, span, down, step)


@compiled
def add_input_gradient(
    layer: Any, moved: Places, amounts: Floats, ends: Places, shifted: Floats, error_rows: Floats
) -> None:
    """Add the listed filters, each times its amount, to the gradient of the inputs under their windows.

    Row by row of the inputs under a window: the filter rows needed for one of them stay in the nearest cache.
    """
    zero = repeat(np.float32(0))
    for row in range(layer.kernel + 1):
        for start in range(0, layer.span, LANES * layer.span_tile):
            if layer.span_tile == 5:
                five = (zero, zero, zero, zero, zero)
                _add_filters(five, layer, row, start, moved, amounts, ends, shifted, error_rows)
            else:
                eight = (zero, zero, zero, zero, zero, zero, zero, zero)
                _add_filters(eight, layer, row, start, moved, amounts, ends, shifted, error_rows)


@compiled
def _add_filters(
    like: Tile, layer: Any, row: int, start: int, moved: Places, amounts: Floats, ends: Places,
    shifted: Floats, error_rows: Floats,
) -> None:  # fmt: skip
    """Do `add_input_gradient` for one row under each window, from `start` on."""
    channels, width, stride = layer.channels, layer.width, layer.input_stride
    filter_row = row * 2 * layer.filters * layer.span + start
    number = 0
    for window_row in range(layer.pooled_height):
        for column in range(layer.pooled_width):
            at = ((2 * window_row + row) * width + 2 * column) * channels + start
            for _ in range(LANES):
                # Windows overlap, so the sums are kept in memory. Past the row under the window the filters
                # are padded with zeros, and what lies there is stored back unchanged.
                total = load_tile(error_rows, at, LANES, like)
                entry, end = address(ends, number), address(ends, number + LANES)
                while entry < end:
                    moved_row = filter_row + address(moved, entry)
                    total = scaled_add(total, broadcast(amounts, entry), shifted, moved_row)
                    entry += 1
                store_tile(error_rows, at, LANES, total)
                at += stride
                number += 1
