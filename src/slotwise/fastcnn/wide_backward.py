"""Layers whose outputs are maps, for one sample: gradients, and errors of their inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.fastcnn.architecture import LANES
from slotwise.fastcnn.instructions import append_won
from slotwise.fastcnn.vectors import (
    WIDE,
    add,
    compiled,
    store,
    times,
    where_equal,
    where_greater,
    wide_load,
    wide_repeat,
)
from slotwise.fastcnn.wide_kernels import (
    add_filters,
    add_five_windows,
    add_fives,
    add_nine_windows,
    add_nines,
    add_products,
    add_scaled,
    gather_windows,
    multiply,
)
from slotwise.fastcnn.wide_maps import drop
from slotwise.fastcnn.wide_norm import copy_errors, normalisation_backward, sum_backward
from slotwise.fastcnn.wide_plan import (
    CONVOLUTION,
    MAX_POOL,
    NORMALISATION,
    PATCH,
    SUM,
    WidePlan,
    WideWorkspace,
)
from slotwise.fastcnn.winograd import add_patch_gradient, convolve_patches

Floats = NDArray[np.float32]
Places = NDArray[np.int32]
Kept = NDArray[np.bool_]


@compiled
def through_dropout_and_relu(
    plan: WidePlan, layer: Any, target: Any, kept: Kept, values: Floats, errors: Floats
) -> None:
    """Turn the errors of the output of a layer into those before its dropout and its relu."""
    if layer.drop_start >= 0 and kept.size > 0:
        drop(plan, layer, target, kept, errors)
    if layer.rectify:
        zero = wide_repeat(np.float32(0))
        for y in range(target.height):
            for at in range(y * target.row, y * target.row + target.width * target.pixel, WIDE):
                error = wide_load(errors, at)
                store(errors, at, where_greater(wide_load(values, target.start + at), zero, error, zero))


@compiled
def spatial_backward(plan: WidePlan, work: WideWorkspace, layer: Any, sample: int, kept: Kept) -> None:
    """Gradient of a layer of maps for one sample, and errors of its inputs unless they are the image."""
    source, target = plan.maps[layer.source], plan.maps[layer.target]
    values = work.values[sample * plan.values :]
    errors = work.errors[target.error_start :]
    if target.batched:
        errors = work.dense_errors[sample * plan.dense_errors + target.error_start :]
    through_dropout_and_relu(plan, layer, target, kept, values, errors)
    winners = work.winners[sample * plan.winners + layer.winner_start :]
    if layer.kind == NORMALISATION:
        normalisation_backward(layer, source, target, work, values, errors)
        return
    if layer.kind == SUM:
        sum_backward(plan, layer, source, target, work, errors)
        return
    if layer.kind == CONVOLUTION and not layer.pooled:
        convolution_backward(layer, source, target, work, values, errors)
    elif layer.kind == CONVOLUTION and layer.first:
        first_backward(layer, source, target, work, values, winners, errors)
    elif not layer.first:
        found_start = layer.error_target - (source.start - source.first)
        work.errors[found_start : found_start + source.size] = 0
        if layer.kind == CONVOLUTION:
            pooled_backward(layer, source, target, work, values, winners, errors)
        else:
            pool_backward(layer, source, target, winners, errors, work.errors[layer.error_target :])
    if layer.adds and not layer.first:
        found = work.errors[source.error_start :]
        copy_errors(source, source.row, work.errors[layer.error_target :], found, True)


@compiled
def pool_backward(
    layer: Any, source: Any, target: Any, winners: Places, errors: Floats, found: Floats
) -> None:
    """Add the errors of a pool's outputs to those of its inputs."""
    share = np.float32(1.0 / (layer.kernel_height * layer.kernel_width))
    for y in range(target.height):
        for x in range(target.width):
            at = y * target.row + x * target.pixel
            if layer.kind == MAX_POOL:
                won = (y * target.width + x) * layer.row
                for channel in range(target.channels):
                    found[winners[won + channel]] += errors[at + channel]
            else:
                corner = y * layer.stride * source.row + x * layer.run_step * source.pixel
                for row in range(layer.kernel_height):
                    for column in range(layer.kernel_width):
                        place = corner + row * source.row + column * source.pixel
                        add_scaled_row(target.pixel, wide_repeat(share), errors[at:], found[place:])


@compiled
def add_scaled_row(count: int, factor: Any, row: Floats, sums: Floats) -> None:
    """Add the multiple of a row of numbers to another one."""
    for at in range(0, count, WIDE):
        store(sums, at, add(wide_load(sums, at), times(factor, wide_load(row, at))))


@compiled
def convolution_backward(
    layer: Any, source: Any, target: Any, work: WideWorkspace, values: Floats, errors: Floats
) -> None:
    """Gradient of a convolution without a pool, and errors of its inputs unless they are the image."""
    add_bias(layer, target, errors, work.gradient[layer.bias_gradient :])
    if layer.in_patches:
        corner = source.start - layer.padding * (source.row + source.pixel)
        add_patch_gradient(layer, source, target, work, values, corner, errors)
    else:
        height, width = target.height, target.width
        add_dense(layer, source, height, width, work, values, errors, target.row, target.pixel)
    if layer.first:
        return
    # The errors with zeros around them, which have been zero since they were allocated.
    for y in range(target.height):
        own, pre = errors[y * target.row :], work.errors[layer.pre_start + y * layer.pre_row :]
        for number in range(0, target.width * layer.row, WIDE):
            store(pre, number, wide_load(own, number))
    if layer.back_patches > 0:
        convolve_errors(layer, source, work)
    else:
        errors_of_inputs(layer, source, work)


@compiled
def errors_of_inputs(layer: Any, source: Any, work: WideWorkspace) -> None:
    """Fill the errors of the inputs of a convolution.

    An input has errors from the rows of the filters that are a whole number of strides away from one of them,
    and from such columns. Those of the inputs that use the same ones are a convolution without a stride.
    """
    whole, stride = layer.outputs == layer.row, layer.stride
    for y in range(source.height):
        first_row = (y + layer.padding) % stride
        rows = (layer.kernel_height - first_row + stride - 1) // stride
        top = layer.pre_start + ((y + layer.padding) // stride - rows + 1) * layer.pre_row
        filters = layer.back_start + panels_before(layer, source, first_row)
        for first_column in range(stride):
            columns = (layer.kernel_width - first_column + stride - 1) // stride
            x = (first_column - layer.padding) % stride
            count = (source.width - x + stride - 1) // stride
            left = ((x + layer.padding) // stride - columns + 1) * layer.row
            runs, length = (1, columns * layer.row) if whole else (columns, layer.outputs)
            multiply(
                rows, layer.pre_row, runs, layer.row, length, count, work.errors, top + left, layer.row,
                work.copies[filters:], work.zeros, source.pixel,
                work.errors[layer.error_target + y * source.row + x * source.pixel :], stride * source.pixel,
            )  # fmt: skip
            filters += rows * columns * layer.outputs * source.pixel


@compiled
def panels_before(layer: Any, source: Any, row: int) -> Any:
    """Return the numbers of the turned filters of all rows of a stride before this one."""
    count = 0
    for before in range(row):
        rows = (layer.kernel_height - before + layer.stride - 1) // layer.stride
        count += rows * layer.kernel_width * layer.outputs * source.pixel
    return count


@compiled
def corner_of_errors(layer: Any) -> Any:
    """Return where the errors begin that the first input of a convolution gets its error from."""
    up, left = layer.padding - layer.kernel_height + 1, layer.padding - layer.kernel_width + 1
    return layer.pre_start + up * layer.pre_row + left * layer.row


@compiled
def convolve_errors(layer: Any, source: Any, work: WideWorkspace) -> None:
    """Fill the errors of the inputs of a convolution in patches."""
    taps, filters = layer.kernel_height, work.patch_filters[layer.back_patch_start :]
    convolve_patches(
        taps, work, layer.back_patches, layer.patches_together, source.width // (PATCH + 1 - taps),
        work.errors, corner_of_errors(layer), layer.pre_row, layer.row, layer.sum_step, filters,
        layer.patch_step, work.zeros, source.pixel, layer.input_step, work.errors, layer.error_target,
        source.row,
    )  # fmt: skip


@compiled
def first_backward(
    layer: Any, source: Any, target: Any, work: WideWorkspace, values: Floats, winners: Places, errors: Floats
) -> None:  # fmt: skip
    """Gradient of a convolution of the images with a pool; most of its few terms fit into registers."""
    add_bias(layer, target, errors, work.gradient[layer.bias_gradient :])
    fives = layer.run_length == 5 and layer.kernel_height == 5
    if layer.runs == 1 and (fives or (layer.run_length == 9 and layer.kernel_height == 3)):
        gather_windows(layer, source, values, work.scratch)
        gradient = work.gradient[layer.gradient_start :]
        if fives:
            add_five_windows(layer, source, target, work.scratch, winners, errors, gradient)
        else:
            add_nine_windows(layer, source, target, work.scratch, winners, errors, gradient)
        return
    spread_errors(layer, source, target, winners, errors, work.errors[layer.pre_start :])
    dense, height, width = work.errors[layer.pre_start :], 2 * target.height, 2 * target.width
    add_dense(layer, source, height, width, work, values, dense, layer.pre_row, layer.row)


@compiled
def spread_errors(
    layer: Any, source: Any, target: Any, winners: Places, errors: Floats, dense: Floats
) -> None:
    """Write the errors of a max-pool's outputs to the positions that won, and zero to all others."""
    right, down = layer.stride * source.pixel, layer.stride * source.row
    row = layer.pre_row
    for y in range(target.height):
        for x in range(target.width):
            for channel in range(0, layer.row, WIDE):
                error = wide_load(errors, y * target.row + x * target.pixel + channel)
                won = (y * target.width + x) * layer.row + channel
                at = 2 * (y * row + x * layer.row) + channel
                store(dense, at, where_equal(winners, won, 0, error))
                store(dense, at + layer.row, where_equal(winners, won, right, error))
                store(dense, at + row, where_equal(winners, won, down, error))
                store(dense, at + row + layer.row, where_equal(winners, won, down + right, error))


@compiled
def add_bias(layer: Any, target: Any, errors: Floats, gradient: Floats) -> None:
    """Add the errors of all positions to the gradient of the bias."""
    if layer.has_bias:
        for channel in range(0, layer.row, WIDE):
            total = wide_repeat(np.float32(0))
            for y in range(target.height):
                for x in range(target.width):
                    total = add(total, wide_load(errors, y * target.row + x * target.pixel + channel))
            store(gradient, channel, add(total, wide_load(gradient, channel)))


@compiled
def add_dense(
    layer: Any, source: Any, height: int, width: int, work: WideWorkspace, values: Floats, errors: Floats,
    error_down: int, error_right: int,
) -> None:  # fmt: skip
    """Add the gradient of the filters of a convolution from the errors of all positions."""
    corner = source.start - layer.padding * (source.row + source.pixel)
    down, right = layer.stride * source.row, layer.stride * source.pixel
    gradient = work.gradient[layer.gradient_start :]
    if layer.runs == 1 and layer.run_length == 5 and layer.kernel_height == 5:
        add_fives(
            layer, source.row, height, width, values, corner, down, right, errors, error_down, error_right,
            gradient,
        )  # fmt: skip
    elif layer.runs == 1 and layer.run_length == 9 and layer.kernel_height == 3:
        add_nines(
            layer, source.row, height, width, values, corner, down, right, errors, error_down, error_right,
            gradient,
        )  # fmt: skip
    else:
        add_products(
            layer, source.row, height, width, values, corner, down, right, errors, 0, error_down, error_right,
            gradient, work.scratch,
        )  # fmt: skip


@compiled
def pooled_backward(
    layer: Any, source: Any, target: Any, work: WideWorkspace, values: Floats, winners: Places, errors: Floats
) -> None:
    """Gradient of a convolution with a pool, and errors of its inputs, from the errors that are not zero."""
    padding = layer.padding * (source.row + source.pixel)
    inputs = values[source.start - padding :]
    down, right = 2 * layer.stride * source.row, 2 * layer.stride * source.pixel
    places, amounts = work.places, work.scratch
    for output in range(layer.outputs):
        count, total = 0, np.float32(0)
        for y in range(target.height):
            for x in range(target.width):
                error = errors[np.uintp(y * target.row + x * target.pixel + output)]
                won = winners[np.uintp((y * target.width + x) * layer.row + output)]
                # Always written, and kept only if not zero: there is no branch to predict wrongly.
                places[np.uintp(count)] = y * down + x * right + won
                amounts[np.uintp(count)] = error
                total += error
                count += error != np.float32(0)
        work.gradient[layer.bias_gradient + output] += total
        gradient = work.gradient[layer.gradient_start + output * layer.filter_size :]
        add_scaled(layer, places, amounts, count, inputs, source.row, gradient)
    if layer.back_patches > 0:
        spread_errors(layer, source, target, winners, errors, work.errors[layer.pre_start :])
        convolve_errors(layer, source, work)
        return
    list_filters(layer, source, target, winners, errors, work)
    windows = target.height * target.width
    found = work.errors[layer.error_target - padding :]
    filters = work.copies[layer.back_start :]
    for kernel_row in range(layer.kernel_height):
        # These parts of all filters stay in the cache while the positions go by.
        for column in range(0, layer.filter_row, WIDE * layer.tile):
            for position in range(4 * windows):
                first, last = work.list_starts[position], work.list_starts[position + 1]
                if first < last:
                    place = work.list_places[position] + kernel_row * source.row + column
                    add_filters(
                        layer, kernel_row, column, places, amounts, first, last, filters, found, place
                    )


@compiled
def list_filters(
    layer: Any, source: Any, target: Any, winners: Places, errors: Floats, work: WideWorkspace
) -> None:
    """List, for each position before the pool, the filters that won there and whose errors are not zero."""
    right, down = layer.stride * source.pixel, layer.stride * source.row
    count, position = 0, 0
    for y in range(target.height):
        for x in range(target.width):
            at, own = y * target.row + x * target.pixel, winners[(y * target.width + x) * layer.row :]
            for winner in (0, right, down, down + right):
                work.list_starts[position] = count
                work.list_places[position] = 2 * y * down + 2 * x * right + winner
                position += 1
                for output in range(0, layer.outputs, LANES):
                    count = append_won(
                        work.places, work.scratch, count, own[output:], errors[at + output :], 0, winner,
                        layer.outputs - output, output * layer.filter_size, layer.filter_size,
                    )  # fmt: skip
    work.list_starts[position] = count
