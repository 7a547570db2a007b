"""Gradients of a convolution with max-pool and relu, only where they are not zero.

Of four convolution outputs max-pool lets one through, and relu stops about half of those. For each output channel
the rest are listed first: at which patch of which sample, and how much. Then, over the list,

    filter gradient += amount * patch        input gradient at the patch += amount * filter

Patches lie channels last, so a kernel row of a patch is one run of neighbouring values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.learning.fastcnn.vectors import (
    LANES,
    Tile,
    broadcast,
    compiled,
    gather_add,
    load_steps,
    load_tile,
    position,
    repeat,
    scatter_add,
    store_tile,
)

Floats = NDArray[np.float32]


@compiled
def list_patches(
    layer: Any, output: int, errors: Floats, winners: Floats, positions: NDArray[np.int32], amounts: Floats
) -> int:
    """List the patches of one output channel that get a gradient; return how many they are."""
    count = 0
    for row in range(layer.pooled_height):
        for column in range(layer.pooled_width):
            at = LANES * ((row * layer.pooled_width + column) * layer.filters + output)
            corner = (2 * row * layer.width + 2 * column) * layer.channels
            for lane in range(LANES):
                amount = errors[at + lane]
                positions[count] = corner + lane * layer.input_stride + np.int32(winners[at + lane])
                amounts[count] = amount
                count += amount != 0  # written anyway, kept only if not zero: no branch to mispredict
    return count


@compiled
def add_filter_gradient(
    layer: Any, steps: Any, count: int, positions: Any, amounts: Floats, rows: Floats, gradient: Floats
) -> None:
    """Add the patches, each times its amount, to the gradient of one filter."""
    zero = repeat(np.float32(0))
    for piece in range(0, layer.pieces, layer.tile):
        if layer.tile == 4:
            _add_patches((zero, zero, zero, zero), piece, steps, count, positions, amounts, rows, gradient)
        elif layer.tile == 5:
            _add_patches(
                (zero, zero, zero, zero, zero), piece, steps, count, positions, amounts, rows, gradient
            )
        elif layer.tile == 6:
            tile = (zero, zero, zero, zero, zero, zero)
            _add_patches(tile, piece, steps, count, positions, amounts, rows, gradient)
        elif layer.tile == 7:
            tile7 = (zero, zero, zero, zero, zero, zero, zero)
            _add_patches(tile7, piece, steps, count, positions, amounts, rows, gradient)
        else:
            tile8 = (zero, zero, zero, zero, zero, zero, zero, zero)
            _add_patches(tile8, piece, steps, count, positions, amounts, rows, gradient)


@compiled
def _add_patches(
    like: Tile,
    piece: int,
    steps: Any,
    count: int,
    positions: Any,
    amounts: Floats,
    rows: Floats,
    gradient: Floats,
) -> None:
    tile_steps = load_steps(steps, piece, like)
    total = load_tile(gradient, piece * LANES, LANES, like)
    for number in range(count):
        total = gather_add(total, broadcast(amounts, number), rows, position(positions, number), tile_steps)
    store_tile(gradient, piece * LANES, LANES, total)


@compiled
def add_input_gradient(
    layer: Any, steps: Any, count: int, positions: Any, amounts: Floats, weights: Floats, error_rows: Floats
) -> None:
    """Add the filter, times each amount, to the gradient of the inputs at each patch."""
    zero = repeat(np.float32(0))
    for piece in range(0, layer.pieces, layer.tile):
        if layer.tile == 4:
            _add_filter(
                (zero, zero, zero, zero), piece, steps, count, positions, amounts, weights, error_rows
            )
        elif layer.tile == 5:
            _add_filter(
                (zero, zero, zero, zero, zero), piece, steps, count, positions, amounts, weights, error_rows
            )
        elif layer.tile == 6:
            tile = (zero, zero, zero, zero, zero, zero)
            _add_filter(tile, piece, steps, count, positions, amounts, weights, error_rows)
        elif layer.tile == 7:
            tile7 = (zero, zero, zero, zero, zero, zero, zero)
            _add_filter(tile7, piece, steps, count, positions, amounts, weights, error_rows)
        else:
            tile8 = (zero, zero, zero, zero, zero, zero, zero, zero)
            _add_filter(tile8, piece, steps, count, positions, amounts, weights, error_rows)


@compiled
def _add_filter(
    like: Tile,
    piece: int,
    steps: Any,
    count: int,
    positions: Any,
    amounts: Floats,
    weights: Floats,
    error_rows: Floats,
) -> None:
    tile_steps = load_steps(steps, piece, like)
    tile = load_tile(weights, piece * LANES, LANES, like)
    for number in range(count):
        scatter_add(error_rows, position(positions, number), tile_steps, broadcast(amounts, number), tile)
