"""Convolutions with fewer multiplications: Winograd's minimal filtering, in patches of 6 x 6 inputs.

A patch d and a filter g give m x m outputs A ((B d B^T) * (G g G^T)) A^T, where * is number by number
(Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015). So instead of r x r products for
each output there are 36 for m x m of them, with m = 7 - r: 4 times fewer for filters of 3 x 3, 2.8 times
fewer for 5 x 5. Each of the 36 is a product of matrices of patches, channels and outputs.

The matrices follow from polynomials that agree in the points below and at infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from slotwise.fastcnn.vectors import (
    GIVEN,
    WIDE,
    Builder,
    Value,
    compiled,
    fused,
    index,
    instruction,
    load_panel,
    load_tile,
    moved,
    outer_add,
    panel_add,
    read,
    store_panel,
    store_tile,
    wide_load,
    write,
    zeros,
)
from slotwise.fastcnn.wide_kernels import multiply
from slotwise.fastcnn.wide_plan import CHANNELS, PANEL, PATCH, WidePlan, WideWorkspace

Floats = NDArray[np.float32]
Matrix = NDArray[np.float64]

POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)
ADDS_TO_ALL = PATCH + 1
"""Which of the 36 products is added to every output: that of the point 1 in both directions."""


def matrices(taps: int, patch: int = PATCH) -> tuple[Matrix, Matrix, Matrix]:
    """Return B, G and A for filters with so many rows, and patches."""
    points, outputs = POINTS[: patch - 1], patch + 1 - taps
    of_inputs, of_filters = np.zeros((patch, patch)), np.zeros((patch, taps))
    of_outputs = np.zeros((outputs, patch))
    for number, point in enumerate(points):
        others = [other for other in points if other != point]
        of_inputs[number, :-1] = np.poly(others)[::-1]
        of_filters[number] = point ** np.arange(taps) / np.prod([point - other for other in others])
        of_outputs[:, number] = point ** np.arange(outputs)
    of_inputs[-1] = np.poly(points)[::-1]
    of_filters[-1, -1] = of_outputs[-1, -1] = 1
    return of_inputs, of_filters, of_outputs


def combined(builder: Builder, matrix: Matrix, vectors: list[Value]) -> list[Value]:
    """Write the instructions of a matrix times a column of vectors.

    Points come in pairs of p and -p, whose rows, or columns, differ in signs only: they share sums.
    """
    columns: list[tuple[Value, Matrix]] = []
    paired = {number for pair in _pairs(matrix.T) for number in pair}
    for one, other in _pairs(matrix.T):
        same = np.where(matrix[:, one] == matrix[:, other], matrix[:, one], 0)
        columns.append((builder.fadd(vectors[one], vectors[other]), same))
        columns.append((builder.fsub(vectors[one], vectors[other]), matrix[:, one] - same))
    columns += [(vector, matrix[:, n]) for n, vector in enumerate(vectors) if n not in paired]
    factors, values = np.stack([factor for _, factor in columns], 1), [value for value, _ in columns]
    sums: dict[int, Value] = {}
    for one, other in _pairs(factors):
        same = np.where(factors[one] == factors[other], factors[one], 0)
        even, odd = (_sum(builder, part, values) for part in (same, factors[one] - same))
        sums[one], sums[other] = builder.fadd(even, odd), builder.fsub(even, odd)
    return [sums[n] if n in sums else _sum(builder, row, values) for n, row in enumerate(factors)]


def _pairs(rows: Matrix) -> list[tuple[int, int]]:
    """Return pairs of rows of which some numbers are equal, and the others opposite."""
    found = []
    for one, first in enumerate(rows):
        for other in range(one + 1, len(rows)):
            second = rows[other]
            mixed = np.any((first == second) & (first != 0)) and np.any(first != second)
            if mixed and np.array_equal(abs(first), abs(second)):
                found.append((one, other))
    return found


def _sum(builder: Builder, factors: Matrix, vectors: list[Value]) -> Value:
    """Write the instructions of a sum of multiples of vectors."""
    total = None
    for factor, value in zip(factors, vectors, strict=True):
        constant = ir.Constant(value.type, [float(np.float32(factor))] * WIDE)
        if factor == 0:
            continue
        if total is None:
            total = value if factor == 1 else builder.fmul(value, constant)
        else:
            total = fused(builder, value, constant, total)
    return total


def transformed(builder: Builder, matrix: Matrix, columns: list[list[Value]]) -> list[list[Value]]:
    """Write the instructions of M X M^T, by rows, of a square X given by columns."""
    half = [combined(builder, matrix, column) for column in columns]
    return [combined(builder, matrix, [column[row] for column in half]) for row in range(len(matrix))]


def both_sides(matrix: Matrix, *, adds: bool = False) -> Callable[..., Any]:
    """Return the instruction ``(array, at, down, right, found, to, below, beside)``: M X M^T.

    X is a square of vectors in `array`, the result one in `found`; the others are the steps in them. The
    result is added to what is there, if `adds`.
    """
    columns = range(matrix.shape[1])

    def written(
        builder: Builder, array: Any, at: Any, down: Any, right: Any, found: Any, to: Any, below: Any,
        beside: Any,
    ) -> None:  # fmt: skip
        kind = ir.VectorType(ir.FloatType(), WIDE)
        starts = [moved(builder, at, right, column) for column in columns]
        square = [
            [read(builder, array, moved(builder, start, down, row), kind) for row in columns]
            for start in starts
        ]
        for row, values in enumerate(transformed(builder, matrix, square)):
            start = moved(builder, to, below, row)
            for column, value in enumerate(values):
                place = moved(builder, start, beside, column)
                total = builder.fadd(read(builder, found, place, kind), value) if adds else value
                write(builder, found, place, total)

    return instruction(types.void, GIVEN, *[index] * 3, GIVEN, *[index] * 3)(written)


ROWS = 8 if WIDE == 16 else 4  # channels of a tile of gradients
wide_tile, narrow_tile = zeros(2 * ROWS), zeros(CHANNELS)

of_threes, of_fives = matrices(3), matrices(5)
transform_inputs = both_sides(of_threes[0])  # those of 5 x 5 are the same
transform_threes, transform_fives = both_sides(of_threes[1]), both_sides(of_fives[1])
outputs_of_threes, outputs_of_fives = both_sides(of_threes[2]), both_sides(of_fives[2])
transform_errors, gradient_of_threes = both_sides(of_threes[2].T), both_sides(of_threes[1].T)


@compiled
def transform_filters(
    taps: int, channels: int, outputs: int, panels: Floats, found: Floats, step: int
) -> None:
    """Turn panels of filters, whose terms are (row, column, channel), into 36 matrices in panels."""
    for first in range(0, outputs, PANEL):
        width = min(PANEL, outputs - first)
        down, right = taps * channels * width, channels * width
        for number in range(0, channels * width, WIDE):
            at, to = first * taps * taps * channels + number, first * channels + number
            if taps == 3:
                transform_threes(panels, at, down, right, found, to, PATCH * step, step)
            else:
                transform_fives(panels, at, down, right, found, to, PATCH * step, step)


@compiled
def transform_copies(plan: WidePlan, work: WideWorkspace) -> None:
    """Transform the copies of the filters that `convolve_patches` uses."""
    for layer in plan.operations:
        if layer.together:
            continue
        taps, channels = layer.kernel_height, layer.pixel
        if layer.patches > 0:
            copies, found = work.copies[layer.weight_start :], work.patch_filters[layer.patch_start :]
            transform_filters(taps, channels, layer.row, copies, found, layer.patch_step)
        if layer.back_patches > 0:
            copies, found = work.copies[layer.back_start :], work.patch_filters[layer.back_patch_start :]
            transform_filters(taps, layer.row, channels, copies, found, layer.patch_step)


@compiled
def transform_sums(
    taps: int, sums: Floats, at: int, step: int, found: Floats, to: int, below: int, beside: int
) -> None:
    """Turn the 36 sums of a patch into its outputs."""
    if taps == 3:
        outputs_of_threes(sums, at, PATCH * step, step, found, to, below, beside)
    else:
        outputs_of_fives(sums, at, PATCH * step, step, found, to, below, beside)


@compiled
def transform_patches(
    side: int, first: int, count: int, across: int, values: Floats, start: int, row: int, channels: int,
    step: int, found: Floats,
) -> None:  # fmt: skip
    """Transform the inputs of some patches."""
    for patch in range(count):
        y, x = (first + patch) // across, (first + patch) % across
        at = start + side * (y * row + x * channels)
        for channel in range(0, channels, WIDE):
            place = patch * channels + channel
            transform_inputs(values, at + channel, row, channels, found, place, PATCH * step, step)


@compiled
def convolve_patches(
    taps: int, work: WideWorkspace, patches: int, together: int, across: int, values: Floats, start: int,
    row: int, channels: int, step: int, filters: Floats, filter_step: int, bias: Floats, outputs: int,
    sum_step: int, found: Floats, to: int, found_row: int,
) -> None:  # fmt: skip
    """Convolve a map in patches, some of them together, of which `across` lie side by side.

    Pixels of `values` have `channels` numbers, those of `found` have `outputs`. The three steps are those
    between matrices of inputs, filters and sums.
    """
    side = PATCH + 1 - taps
    for first in range(0, patches, together):
        count = min(together, patches - first)
        transform_patches(side, first, count, across, values, start, row, channels, step, work.patch_inputs)
        for number in range(PATCH * PATCH):
            added = bias if number == ADDS_TO_ALL else work.zeros
            multiply(
                1, 0, 1, 0, channels, count, work.patch_inputs, number * step, channels,
                filters[number * filter_step :], added, outputs, work.patch_sums[number * sum_step :],
                outputs,
            )  # fmt: skip
        for patch in range(count):
            y, x = (first + patch) // across, (first + patch) % across
            at = to + side * (y * found_row + x * outputs)
            for output in range(0, outputs, WIDE):
                place = patch * outputs + output
                transform_sums(taps, work.patch_sums, place, sum_step, found, at + output, found_row, outputs)


@compiled
def add_patch_gradient(
    layer: Any, source: Any, target: Any, work: WideWorkspace, values: Floats, start: int, errors: Floats
) -> None:
    """Add the gradient of filters of 3 x 3 from the errors of all positions, transformed.

    With the transformed errors A^T e A of a patch, that of the transformed filters is (B d B^T) * (A^T e A).
    """
    side, across = PATCH - 2, target.width // (PATCH - 2)
    channels, outputs, gradient = source.pixel, layer.row, work.patch_gradients
    for first in range(0, layer.patches, layer.patches_together):
        count = min(layer.patches_together, layer.patches - first)
        transform_patches(
            side, first, count, across, values, start, source.row, channels, layer.input_step,
            work.patch_inputs,
        )  # fmt: skip
        for patch in range(count):
            y, x = (first + patch) // across, (first + patch) % across
            at, place = side * (y * target.row + x * outputs), patch * outputs
            for output in range(0, outputs, WIDE):
                transform_errors(
                    errors, at + output, target.row, outputs, work.patch_sums, place + output,
                    PATCH * layer.sum_step, layer.sum_step,
                )  # fmt: skip
        for number in range(PATCH * PATCH):
            add_patches(
                count, channels, outputs, work.patch_inputs, number * layer.input_step, work.patch_sums,
                number * layer.sum_step, gradient, layer.patch_gradient + number * layer.patch_step,
            )  # fmt: skip


@compiled
def add_patches(
    count: int, channels: int, outputs: int, inputs: Floats, start: int, errors: Floats, error: int,
    gradient: Floats, to: int,
) -> None:  # fmt: skip
    """gradient[c, o] += sum over patches p of inputs[p, c] * errors[p, o], the gradient in panels."""
    column = 0
    while column + PANEL <= outputs:
        for channel in range(0, channels, ROWS):
            at = to + column * channels + channel * PANEL
            tile = load_panel(gradient, at, PANEL, wide_tile())
            for patch in range(count):
                from_errors = error + patch * outputs + column
                tile = panel_add(tile, inputs, start + patch * channels + channel, 1, errors, from_errors)
            store_panel(gradient, at, PANEL, tile)
        column += PANEL
    if column < outputs:  # half a panel: one vector
        for channel in range(0, channels, CHANNELS):
            at = to + column * channels + channel * WIDE
            narrow = load_tile(gradient, at, WIDE, narrow_tile())
            for patch in range(count):
                value = wide_load(errors, error + patch * outputs + column)
                narrow = outer_add(narrow, inputs, start + patch * channels + channel, 1, value)
            store_tile(gradient, at, WIDE, narrow)


@compiled
def finish_gradient(plan: WidePlan, work: WideWorkspace) -> None:
    """Turn the gradients of transformed filters into those of the filters."""
    for layer in plan.operations:
        if layer.in_patches:
            channels, step = layer.pixel, layer.patch_step
            found, gradient = (
                work.patch_gradients[layer.patch_gradient :],
                work.gradient[layer.gradient_start :],
            )
            for first in range(0, layer.row, PANEL):
                width = min(PANEL, layer.row - first)
                down, right = 3 * channels * width, channels * width
                for number in range(0, channels * width, WIDE):
                    at, to = first * channels + number, first * 9 * channels + number
                    gradient_of_threes(found, at, PATCH * step, step, gradient, to, down, right)
