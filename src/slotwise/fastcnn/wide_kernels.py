"""Matrix products of wide layers, and the sparse gradients of convolutions with a max-pool.

A product computes tiles of a few rows and a panel of outputs that stay in registers: for every term the
panel's one or two vectors are loaded, and one number for each row. Convolutions are products whose rows are
positions of an image: nothing is copied, because the numbers under a row of the kernel are neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn.vectors import (
    WIDE,
    Tile,
    add_to_panel,
    add_to_tile,
    address,
    compiled,
    inlined,
    interleave,
    load_panel,
    load_tile,
    outer_add,
    panel_add,
    patch_adder,
    scaled_add,
    store_panel,
    store_tile,
    wide_broadcast,
    wide_load,
    window_adder,
    zeros,
)
from slotwise.fastcnn.wide_plan import PANEL, POSITIONS

Floats = NDArray[np.float32]
Places = NDArray[np.int32]

# Tiles: rows of a whole panel; rows of one vector, or half of the rows; vectors of a filter.
full, half = zeros(2 * POSITIONS), zeros(POSITIONS)
ten, six, five, three = zeros(10), zeros(6), zeros(5), zeros(3)


@inlined
def _multiply_tile(
    tile: Tile, height: int, row_step: int, runs: int, run_step: int, run_length: int, rows: Floats,
    first: int, stride: int, panels: Floats, weight: int,
) -> Tile:  # fmt: skip
    """Add to a tile of a panel its products, see `multiply`."""
    for kernel_row in range(height):
        for run in range(runs):
            at = first + kernel_row * row_step + run * run_step
            for number in range(at, at + run_length):
                tile = panel_add(tile, rows, number, stride, panels, weight)
                weight += PANEL
    return tile


@compiled
def multiply(
    height: int, row_step: int, runs: int, run_step: int, run_length: int, count: int, rows: Floats,
    start: int, stride: int, panels: Floats, bias: Floats, outputs: int, found: Floats, pitch: int,
) -> None:  # fmt: skip
    """found[r * pitch + o] = bias[o] + sum over t of rows[start + r * stride + t] * panels[t, o].

    The terms t are the numbers under a kernel of `height` rows that are `row_step` apart, each of `runs` runs
    of neighbours. A few rows after the last are computed too.
    """
    column, terms, few = 0, height * runs * run_length, POSITIONS // 2
    while column + PANEL <= outputs:
        row = 0
        while row < count:
            weight, first = column * terms, start + row * stride
            if count - row > few:
                tile = _multiply_tile(
                    load_panel(bias, column, 0, full()), height, row_step, runs, run_step, run_length, rows,
                    first, stride, panels, weight,
                )  # fmt: skip
                store_panel(found, row * pitch + column, pitch, tile)
                row += POSITIONS
            else:
                rest = _multiply_tile(
                    load_panel(bias, column, 0, half()), height, row_step, runs, run_step, run_length, rows,
                    first, stride, panels, weight,
                )  # fmt: skip
                store_panel(found, row * pitch + column, pitch, rest)
                row += few
        column += PANEL
    if column < outputs:  # half a panel: one vector
        for row in range(0, count, POSITIONS):
            narrow, weight = load_tile(bias, column, 0, half()), column * terms
            for kernel_row in range(height):
                for run in range(runs):
                    at = start + row * stride + kernel_row * row_step + run * run_step
                    for number in range(at, at + run_length):
                        narrow = outer_add(narrow, rows, number, stride, wide_load(panels, weight))
                        weight += WIDE
            store_tile(found, row * pitch + column, pitch, narrow)


@compiled
def add_products(
    layer: Any, row_step: int, height: int, width: int, rows: Floats, start: int, down: int, right: int,
    errors: Floats, error_start: int, error_down: int, error_right: int, gradient: Floats, scratch: Floats,
) -> None:  # fmt: skip
    """gradient[t, o] += sum over positions (y, x) of rows[start + y, x + t] * errors[y, x, o].

    The gradient is in panels. `down` and `right` are the steps of a position in `rows`, `error_down` and
    `error_right` in `errors`.
    """
    column, term = 0, 0
    while column < layer.row:
        for kernel_row in range(layer.kernel_height):
            for run in range(layer.runs):
                at = start + kernel_row * row_step + run * layer.run_step
                for first in range(0, layer.run_length, POSITIONS):
                    used = min(POSITIONS, layer.run_length - first)
                    if column + PANEL <= layer.row:
                        add_panel(
                            height, width, rows, at + first, down, right, errors, error_start + column,
                            error_down, error_right, gradient[term:], scratch, used,
                        )  # fmt: skip
                        term += used * PANEL
                    else:
                        add_vector(
                            height, width, rows, at + first, down, right, errors, error_start + column,
                            error_down, error_right, gradient[term:], scratch, used,
                        )  # fmt: skip
                        term += used * WIDE
        column += PANEL


@compiled
def add_panel(
    height: int, width: int, rows: Floats, start: int, down: int, right: int, errors: Floats,
    error_start: int, error_down: int, error_right: int, gradient: Floats, scratch: Floats, used: int,
) -> None:  # fmt: skip
    """Do `add_products` for a few terms, of which `used` exist, and a panel."""
    tile = full()
    for y in range(height):
        place, error = start + y * down, error_start + y * error_down
        for _ in range(width):
            tile = panel_add(tile, rows, place, 1, errors, error)
            place += right
            error += error_right
    if used == POSITIONS:
        add_to_panel(gradient, 0, PANEL, tile)
        return
    store_panel(scratch, 0, PANEL, tile)
    for number in range(used * PANEL):
        gradient[number] += scratch[number]


@compiled
def add_vector(
    height: int, width: int, rows: Floats, start: int, down: int, right: int, errors: Floats,
    error_start: int, error_down: int, error_right: int, gradient: Floats, scratch: Floats, used: int,
) -> None:  # fmt: skip
    """Do `add_products` for a few terms and half a panel."""
    tile = half()
    for y in range(height):
        place, error = start + y * down, error_start + y * error_down
        for _ in range(width):
            tile = outer_add(tile, rows, place, 1, wide_load(errors, error))
            place += right
            error += error_right
    if used == POSITIONS:
        add_to_tile(gradient, 0, WIDE, tile)
        return
    store_tile(scratch, 0, WIDE, tile)
    for number in range(used * WIDE):
        gradient[number] += scratch[number]


def _make_patch_kernel(columns: int, rows: int) -> Any:
    """Return `add_products` for patches of the images that are narrow: so many numbers under a kernel's row.

    Tiles have all terms of `rows` rows of the kernel, and one vector of outputs.
    """
    patch_add, terms = patch_adder(columns), zeros(columns * rows)

    @compiled
    def add_patches_of_images(
        layer: Any, row_step: int, height: int, width: int, images: Floats, start: int, down: int, right: int,
        errors: Floats, error_down: int, error_right: int, gradient: Floats,
    ) -> None:  # fmt: skip
        for column in range(0, layer.row, WIDE):
            panel = column // PANEL * PANEL
            pitch = min(PANEL, layer.row - panel)
            for kernel_row in range(0, layer.kernel_height, rows):
                at = panel * layer.terms + column - panel + kernel_row * columns * pitch
                tile = load_tile(gradient, at, pitch, terms())
                for y in range(height):
                    place, error = start + kernel_row * row_step + y * down, y * error_down + column
                    for _ in range(width):
                        tile = patch_add(tile, images, place, row_step, wide_load(errors, error))
                        place += right
                        error += error_right
                store_tile(gradient, at, pitch, tile)

    return add_patches_of_images


def _make_window_kernel(columns: int, rows: int) -> Any:
    """Return the same for a convolution with a max-pool, from the errors of the windows."""
    window_add, terms = window_adder(columns), zeros(columns * rows)

    @compiled
    def add_windows_of_images(
        layer: Any, source: Any, target: Any, fours: Floats, winners: Places, errors: Floats, gradient: Floats
    ) -> None:
        right, down = layer.stride * source.pixel, layer.stride * source.row
        # `fours` begin with the border.
        start = source.start - source.first - layer.padding * (source.row + source.pixel)
        for column in range(0, layer.row, WIDE):
            panel = column // PANEL * PANEL
            pitch = min(PANEL, layer.row - panel)
            for kernel_row in range(0, layer.kernel_height, rows):
                at = panel * layer.terms + column - panel + kernel_row * columns * pitch
                tile = load_tile(gradient, at, pitch, terms())
                for y in range(target.height):
                    place = start + kernel_row * source.row + 2 * y * down
                    error, won = y * target.row + column, y * target.width * layer.row + column
                    for _ in range(target.width):
                        tile = window_add(
                            tile,
                            fours,
                            place,
                            source.row,
                            wide_load(errors, error),
                            winners,
                            won,
                            right,
                            down,
                        )
                        place += 2 * right
                        error += target.pixel
                        won += layer.row
                store_tile(gradient, at, pitch, tile)

    return add_windows_of_images


@compiled
def gather_windows(layer: Any, source: Any, inputs: Floats, fours: Floats) -> None:
    """fours[4 * n : 4 * n + 4] = the number n of a map for the four positions of a window of a max-pool."""
    right, down = layer.stride * source.pixel, layer.stride * source.row
    for number in range(0, source.size, WIDE):
        interleave(inputs, source.first + number, right, down, fours, 4 * number)


add_five_windows = _make_window_kernel(5, 5 if WIDE == 16 else 1)
add_nine_windows = _make_window_kernel(9, 3 if WIDE == 16 else 1)
add_fives = _make_patch_kernel(5, 5 if WIDE == 16 else 1)  # 5 x 5, one channel
add_nines = _make_patch_kernel(9, 3 if WIDE == 16 else 1)  # 3 x 3, three channels


@compiled
def add_scaled(
    layer: Any, places: Places, amounts: Floats, count: int, inputs: Floats, row_step: int, gradient: Floats
) -> None:
    """Add the listed patches of the inputs, each times its amount, to the gradient of one filter."""
    for kernel_row in range(layer.kernel_height):
        for column in range(0, layer.filter_row, WIDE * layer.tile):
            source, target = kernel_row * row_step + column, kernel_row * layer.filter_row + column
            if layer.tile == 10:
                _add_listed(ten(), places, amounts, 0, count, inputs, source, gradient, target)
            elif layer.tile == 6:
                _add_listed(six(), places, amounts, 0, count, inputs, source, gradient, target)
            elif layer.tile == 5:
                _add_listed(five(), places, amounts, 0, count, inputs, source, gradient, target)
            else:
                _add_listed(three(), places, amounts, 0, count, inputs, source, gradient, target)


@compiled
def add_filters(
    layer: Any, kernel_row: int, column: int, places: Places, amounts: Floats, first: int, last: int,
    filters: Floats, errors: Floats, target: int,
) -> None:  # fmt: skip
    """Add some vectors of the listed filters, each times its amount, to the errors of a patch."""
    source = kernel_row * layer.filter_row + column
    if layer.tile == 10:
        _add_listed(ten(), places, amounts, first, last, filters, source, errors, target)
    elif layer.tile == 6:
        _add_listed(six(), places, amounts, first, last, filters, source, errors, target)
    elif layer.tile == 5:
        _add_listed(five(), places, amounts, first, last, filters, source, errors, target)
    else:
        _add_listed(three(), places, amounts, first, last, filters, source, errors, target)


@compiled
def _add_listed(
    like: Tile, places: Places, amounts: Floats, first: int, last: int, sources: Floats, source: int,
    sums: Floats, target: int,
) -> None:  # fmt: skip
    """sums[target:] += the sum over the list of amount * sources[place + source :], for a few vectors."""
    total = load_tile(sums, target, WIDE, like)
    for number in range(first, last):
        factor = wide_broadcast(amounts, number)
        total = scaled_add(total, factor, sources, address(places, number) + source)
    store_tile(sums, target, WIDE, total)
