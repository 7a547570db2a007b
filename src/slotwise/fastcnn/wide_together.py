"""A convolution of 5 x 5 with a max-pool in front of dense layers, in patches of 8 x 8 inputs.

For 4 x 4 outputs Winograd's minimal filtering, see `winograd`, takes 64 multiplications instead of 400. The
patches of several samples are multiplied together: a map of 8 x 8 has only four of them.

Transposed, the same matrices give the gradient: with the transformed errors A^T E A of a patch, the gradient
of the transformed filters is (B D B^T) * (A^T E A), and that of the transformed inputs (G F G^T) * (A^T E A),
summed over patches, and over outputs. A sum over the errors that max-pool lets through, a quarter of them,
takes as many multiplications, but reads every input of the sum from memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from slotwise.fastcnn.vectors import (
    GIVEN,
    INT32,
    WIDE,
    WIDE_WHOLES,
    Builder,
    Value,
    compiled,
    index,
    instruction,
    moved,
    read,
    store,
    wide,
    wide_load,
    wide_repeat,
    write,
)
from slotwise.fastcnn.wide_kernels import multiply
from slotwise.fastcnn.wide_plan import PANEL, SQUARE, TOGETHER, WidePlan, WideWorkspace
from slotwise.fastcnn.winograd import add_patches, both_sides, matrices, transformed

Floats = NDArray[np.float32]
Places = NDArray[np.int32]

TAPS = 5
SIDE = SQUARE + 1 - TAPS  # rows and columns of outputs of a patch
POINTS = SQUARE * SQUARE
ADDS_TO_ALL = SQUARE + 1  # the product of the point 1 in both directions

of_inputs, of_filters, of_outputs = matrices(TAPS, SQUARE)
transform_patch, transform_filter = both_sides(of_inputs), both_sides(of_filters)
add_patch_errors, add_filter_gradient = (
    both_sides(of_inputs.T, adds=True),
    both_sides(of_filters.T, adds=True),
)


def _windows(builder: Builder, at: Any, down: Any, right: Any) -> dict[tuple[int, int], Any]:
    """Return where the windows of a max-pool of a patch are."""
    rows, columns = range(0, SIDE, 2), range(0, SIDE, 2)
    return {
        (y, x): moved(builder, moved(builder, at, down, y // 2), right, x // 2) for y in rows for x in columns
    }


def _places(builder: Builder, down: Any, right: Any) -> list[Value]:
    """Return the distances of the positions of a window from its corner, in all lanes."""
    steps = [builder.trunc(each, INT32) for each in (right, down, builder.add(right, down))]
    nothing, lanes = ir.Constant(WIDE_WHOLES, ir.Undefined), ir.Constant(WIDE_WHOLES, None)
    firsts = [builder.insert_element(nothing, step, INT32(0)) for step in (INT32(0), *steps)]
    return [builder.shuffle_vector(first, nothing, lanes) for first in firsts]


@instruction(types.void, GIVEN, index, index, wide, GIVEN, *[index] * 3, GIVEN, *[index] * 5)
def pool_sums(
    builder: Builder, sums: Any, at: Any, step: Any, floor: Any, found: Any, to: Any, to_down: Any,
    to_right: Any, winners: Any, won: Any, won_down: Any, won_right: Any, down: Any, right: Any,
) -> None:  # fmt: skip
    """Turn the sums of a patch into outputs; keep the greatest of each window, or `floor`, and where it is.

    Winners are distances from the corner of the window, with the steps `down` and `right`.
    """
    kind = ir.VectorType(ir.FloatType(), WIDE)
    below = moved(builder, step, step, SQUARE - 1)
    columns = [moved(builder, at, step, x) for x in range(SQUARE)]
    square = [
        [read(builder, sums, moved(builder, column, below, y), kind) for y in range(SQUARE)]
        for column in columns
    ]
    outputs = transformed(builder, of_outputs, square)
    places = _places(builder, down, right)
    targets, own = _windows(builder, to, to_down, to_right), _windows(builder, won, won_down, won_right)
    for (y, x), target in targets.items():
        values = [outputs[y + number // 2][x + number % 2] for number in range(4)]
        best, place = values[0], places[0]
        # Of equal numbers the first in reading order wins.
        for value, other in zip(values[1:], places[1:], strict=True):
            greater = builder.fcmp_ordered(">", value, best)
            best, place = builder.select(greater, value, best), builder.select(greater, other, place)
        above = builder.fcmp_ordered(">", floor, best)
        write(builder, found, target, builder.select(above, floor, best))
        write(builder, winners, own[y, x], place)


@instruction(types.void, GIVEN, *[index] * 3, GIVEN, *[index] * 5, GIVEN, index, index)
def transform_errors(
    builder: Builder, errors: Any, at: Any, error_down: Any, error_right: Any, winners: Any, won: Any,
    won_down: Any, won_right: Any, down: Any, right: Any, found: Any, to: Any, step: Any,
) -> None:  # fmt: skip
    """Transform the errors of the outputs of a patch before the max-pool: A^T E A."""
    kind = ir.VectorType(ir.FloatType(), WIDE)
    zero, places = ir.Constant(kind, [0.0] * WIDE), _places(builder, down, right)
    columns = [[zero] * SIDE for _ in range(SIDE)]
    own = _windows(builder, won, won_down, won_right)
    for (y, x), source in _windows(builder, at, error_down, error_right).items():
        error, winner = read(builder, errors, source, kind), read(builder, winners, own[y, x], WIDE_WHOLES)
        for number, place in enumerate(places):
            here = builder.icmp_signed("==", winner, place)
            columns[x + number % 2][y + number // 2] = builder.select(here, error, zero)
    below = moved(builder, step, step, SQUARE - 1)
    for row, values in enumerate(transformed(builder, of_outputs.T, columns)):
        start = moved(builder, to, below, row)
        for column, value in enumerate(values):
            write(builder, found, moved(builder, start, step, column), value)


@compiled
def corner_of_patch(layer: Any, source: Any, number: int) -> Any:
    """Return where a patch begins in the source map."""
    across = source.width + 2 * layer.padding - TAPS + 1
    y, x = number // (across // SIDE), number % (across // SIDE)
    corner = source.start - layer.padding * (source.row + source.pixel)
    return corner + SIDE * (y * source.row + x * source.pixel)


@compiled
def transform_inputs_of(
    plan: WidePlan, work: WideWorkspace, layer: Any, source: Any, first: int, count: int
) -> None:
    """Transform so many patches, from patch `first` of all samples on."""
    for patch in range(count):
        sample, number = (first + patch) // layer.patches, (first + patch) % layer.patches
        at = sample * plan.values + corner_of_patch(layer, source, number)
        for channel in range(0, source.pixel, WIDE):
            transform_patch(
                work.values, at + channel, source.row, source.pixel, work.patch_inputs,
                patch * source.pixel + channel, SQUARE * layer.input_step, layer.input_step,
            )  # fmt: skip


@compiled
def convolve_together(
    plan: WidePlan, work: WideWorkspace, layer: Any, first_sample: int, last_sample: int
) -> None:
    """Fill the outputs of some samples, after max-pool and relu."""
    source, target = plan.maps[layer.source], plan.maps[layer.target]
    bias, filters = work.copies[layer.bias_start :], work.patch_filters[layer.patch_start :]
    floor = wide_repeat(np.float32(0) if layer.rectify else np.float32(-np.inf))
    down, right = source.row, source.pixel
    windows = target.width * layer.row
    last = last_sample * layer.patches
    for first in range(first_sample * layer.patches, last, TOGETHER):
        count = min(TOGETHER, last - first)
        transform_inputs_of(plan, work, layer, source, first, count)
        for number in range(POINTS):
            added = bias if number == ADDS_TO_ALL else work.zeros
            multiply(
                1, 0, 1, 0, source.pixel, count, work.patch_inputs, number * layer.input_step, source.pixel,
                filters[number * layer.patch_step :], added, layer.row,
                work.patch_sums[number * layer.sum_step :], layer.row,
            )  # fmt: skip
        for patch in range(count):
            sample, number = (first + patch) // layer.patches, (first + patch) % layer.patches
            y, x = SIDE // 2 * (number // (target.width // 2)), SIDE // 2 * (number % (target.width // 2))
            to = sample * plan.values + target.start + y * target.row + x * target.pixel
            won = sample * plan.winners + layer.winner_start + y * windows + x * layer.row
            for output in range(0, layer.row, WIDE):
                pool_sums(
                    work.patch_sums, patch * layer.row + output, layer.sum_step, floor, work.values,
                    to + output, target.row, target.pixel, work.winners, won + output, windows, layer.row,
                    down, right,
                )  # fmt: skip


@compiled
def add_errors_together(
    plan: WidePlan, work: WideWorkspace, layer: Any, first_sample: int, last_sample: int
) -> None:
    """Add to the sums of the filters' gradient; fill the errors of the inputs, in `together_errors`."""
    source, target = plan.maps[layer.source], plan.maps[layer.target]
    down, right, windows = source.row, source.pixel, target.width * layer.row
    filters, sums = work.patch_filters[layer.back_patch_start :], work.patch_gradients
    work.together_errors[: (last_sample - first_sample) * source.size] = 0
    last = last_sample * layer.patches
    for first in range(first_sample * layer.patches, last, TOGETHER):
        count = min(TOGETHER, last - first)
        transform_inputs_of(plan, work, layer, source, first, count)
        for patch in range(count):
            sample, number = (first + patch) // layer.patches, (first + patch) % layer.patches
            y, x = SIDE // 2 * (number // (target.width // 2)), SIDE // 2 * (number % (target.width // 2))
            at = sample * plan.dense_errors + target.error_start + y * target.row + x * target.pixel
            won = sample * plan.winners + layer.winner_start + y * windows + x * layer.row
            for output in range(0, layer.row, WIDE):
                transform_errors(
                    work.dense_errors, at + output, target.row, target.pixel, work.winners, won + output,
                    windows, layer.row, down, right, work.patch_sums, patch * layer.row + output,
                    layer.sum_step,
                )  # fmt: skip
        for number in range(POINTS):
            at, error = number * layer.input_step, number * layer.sum_step
            add_patches(
                count, source.pixel, layer.row, work.patch_inputs, at, work.patch_sums, error, sums,
                layer.patch_gradient + number * layer.patch_step,
            )  # fmt: skip
            # The errors of the inputs take the place of the inputs.
            multiply(
                1, 0, 1, 0, layer.row, count, work.patch_sums, error, layer.row,
                filters[number * layer.patch_step :], work.zeros, source.pixel, work.patch_inputs[at:],
                source.pixel,
            )  # fmt: skip
        for patch in range(count):
            sample, number = (first + patch) // layer.patches, (first + patch) % layer.patches
            at = (sample - first_sample) * source.size - source.first + corner_of_patch(layer, source, number)
            for channel in range(0, source.pixel, WIDE):
                add_patch_errors(
                    work.patch_inputs, patch * source.pixel + channel, SQUARE * layer.input_step,
                    layer.input_step, work.together_errors, at + channel, source.row, source.pixel,
                )  # fmt: skip


@compiled
def finish_together(plan: WidePlan, work: WideWorkspace) -> None:
    """Add the gradient of filters from its sums over patches."""
    for layer in plan.operations:
        if layer.together:
            add_filter_gradients(work, layer)


@compiled
def add_filter_gradients(work: WideWorkspace, layer: Any) -> None:
    """Add the gradient of the filters of a layer from its sums over patches."""
    for first in range(0, layer.row, PANEL):
        for number in range(0, layer.pixel * PANEL, WIDE):
            at = layer.patch_gradient + first * layer.pixel + number
            to = layer.gradient_start + first * TAPS * TAPS * layer.pixel + number
            add_filter_gradient(
                work.patch_gradients, at, SQUARE * layer.patch_step,
                layer.patch_step, work.gradient, to, TAPS * layer.pixel * PANEL, layer.pixel * PANEL,
            )  # fmt: skip


@compiled
def transform_together(work: WideWorkspace, layer: Any) -> None:
    """Transform both copies of the filters of a layer."""
    transform_copy(work, layer, layer.weight_start, layer.patch_start, layer.pixel, layer.row)
    transform_copy(work, layer, layer.back_start, layer.back_patch_start, layer.row, layer.pixel)


@compiled
def transform_copy(work: WideWorkspace, layer: Any, start: int, to: int, terms: int, outputs: int) -> None:
    """Transform a copy of filters in panels."""
    step = layer.patch_step
    for first in range(0, outputs, PANEL):
        width = min(PANEL, outputs - first)
        down, right = TAPS * terms * width, terms * width
        for number in range(0, terms * width, WIDE):
            at, place = start + first * TAPS * TAPS * terms + number, to + first * terms + number
            transform_filter(work.copies, at, down, right, work.patch_filters, place, SQUARE * step, step)


@compiled
def take_errors(source: Any, work: WideWorkspace, slot: int) -> None:
    """Copy the errors of the inputs of a sample to where the layers before read them."""
    to, at = source.error_start - (source.start - source.first), slot * source.size
    for number in range(0, source.size, WIDE):
        store(work.errors, to + number, wide_load(work.together_errors, at + number))
